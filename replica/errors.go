package replica

import (
	"errors"
	"strings"
	"time"
)

var (
	// ErrNoReplica is matched by a *NoReplicaError: no replica may take the read.
	ErrNoReplica = errors.New("replica: no replica may take this read")
	// ErrSaturated is matched by a *NoReplicaError whose only obstacle is that
	// every eligible node has its cap of reads in flight (REQ-R17).
	ErrSaturated = errors.New("replica: every eligible node is at its cap of reads in flight")
	// ErrClosed is returned once the Set was closed.
	ErrClosed = errors.New("replica: set is closed")
)

// NodeReason says why one node was not picked.
type NodeReason struct {
	Node      string
	Condition Condition
	Detail    string // in words, with measured value and threshold
}

// NoReplicaError names each replica's reason (REQ-R15).
type NoReplicaError struct {
	Reasons []NodeReason
	// RetryAfter is the shortest time after which a node may be back, 0 if unknown.
	RetryAfter time.Duration
}

// Error lists every node with its reason.
func (e *NoReplicaError) Error() string {
	var b strings.Builder
	b.WriteString(e.sentinel().Error())
	if len(e.Reasons) == 0 {
		b.WriteString(": the set has no replicas")
	}
	for i, r := range e.Reasons {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(r.Node + ": " + r.Condition.String())
		if r.Detail != "" {
			b.WriteString(" (" + r.Detail + ")")
		}
	}
	return b.String()
}

// Is matches ErrNoReplica, and ErrSaturated if saturation is the only obstacle
// on at least one replica.
func (e *NoReplicaError) Is(target error) bool {
	return target == ErrNoReplica || target == ErrSaturated && e.saturated()
}

func (e *NoReplicaError) sentinel() error {
	if e.saturated() {
		return ErrSaturated
	}
	return ErrNoReplica
}

func (e *NoReplicaError) saturated() bool {
	for _, r := range e.Reasons {
		if r.Condition == Saturated {
			return true
		}
	}
	return false
}
