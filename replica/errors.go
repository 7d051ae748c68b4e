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
	// ErrBehind is matched by a *NoReplicaError if a replica lacks nothing but the position
	// that the read asks for: Set.Await waits for it.
	ErrBehind = errors.New("replica: no replica has replayed up to the read's position")
	// ErrForeignPosition is matched by a *PositionError: the position is of another cluster.
	ErrForeignPosition = errors.New("replica: the position is of another cluster")
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
	// RetryAfter is the shortest time after which a node may be back, or may hold the position
	// that the read asks for as far as its pace of replay tells; 0 if unknown.
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

// Is matches ErrNoReplica, and ErrSaturated or ErrBehind if that is the only obstacle
// on at least one replica.
func (e *NoReplicaError) Is(target error) bool {
	return target == ErrNoReplica || target == ErrSaturated && e.has(Saturated) || target == ErrBehind && e.has(Behind)
}

func (e *NoReplicaError) sentinel() error {
	switch {
	case e.has(Saturated):
		return ErrSaturated
	case e.has(Behind):
		return ErrBehind
	}
	return ErrNoReplica
}

func (e *NoReplicaError) has(c Condition) bool {
	for _, r := range e.Reasons {
		if r.Condition == c {
			return true
		}
	}
	return false
}

// PositionError tells that a position is of no use here: no node of the Set can hold it,
// and waiting does not help.
type PositionError struct {
	Position Position
	// Condition is OtherCluster, or OtherTimeline for one that is newer than the primary's.
	Condition Condition
	Detail    string // in words, with both values
}

// Error names the position and what is wrong with it.
func (e *PositionError) Error() string {
	return "replica: position " + e.Position.String() + ": " + e.Condition.String() + " (" + e.Detail + ")"
}

// Is matches ErrForeignPosition if the position is of another cluster.
func (e *PositionError) Is(target error) bool {
	return target == ErrForeignPosition && e.Condition == OtherCluster
}
