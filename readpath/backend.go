package readpath

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// A Backend runs reads on the nodes of a replica set; pgxread.DB.Backend is one. Its methods
// are called concurrently.
type Backend interface {
	// WithRead returns a context under which the statements of a load are reads that ask req
	// of their node, and that fill info in: of several statements, which may run at once, with what is true of all
	// of them together (ReadInfo.Merge). With req.PrimaryOnly they run on the
	// primary over connections that cannot write. The error of a statement that finds no
	// replica must match replica.ErrNoReplica.
	WithRead(ctx context.Context, req replica.Requirement, info *ReadInfo) context.Context
	// Eligible reports whether a replica may take such a read now, from memory alone.
	Eligible(req replica.Requirement) bool
	// Failed reports whether the error of a statement says that its node could not answer (a lost
	// connection, a timeout that is not the caller's), and nothing of the statement itself.
	Failed(err error) bool
	// Sampled reports whether every node has been sampled once, or its sampling has failed.
	Sampled() bool
}

// ReadInfo tells which node a read was sent to. It is written while the read runs: use one for
// each call at a time. Of several statements it tells of the newest.
type ReadInfo struct {
	// Node is the name of the node; of the last one if the read was tried twice.
	Node string
	// Primary says that the node is the primary.
	Primary bool
	// Lo and Hi bound the node's staleness as of PickedAt; Hi is replica.Never if there is no bound.
	Lo, Hi time.Duration
	// PickedAt is when the node was picked.
	PickedAt time.Time
	// Unverified says that the bound could not be verified (REQ-R14).
	Unverified bool
	// Late says that the node is a late replica, which the read accepts (Requirement.AcceptLate).
	Late bool
	// Attempts counts the nodes that the statement was tried on: 1, or 2 after a
	// failure; 0 if no node could be picked.
	Attempts int
}

// Merge has i, which tells of one statement, tell of those before it as well: it is late or unverified
// if one of them was, and as stale as the stalest. An earlier that is the zero value changes nothing.
func (i *ReadInfo) Merge(earlier ReadInfo) {
	if earlier.PickedAt.IsZero() {
		return
	}
	i.Primary = i.Primary && earlier.Primary
	i.Late, i.Unverified = i.Late || earlier.Late, i.Unverified || earlier.Unverified
	i.Lo = max(i.Lo, earlier.Lo)
	if i.Hi == replica.Never || earlier.Hi == replica.Never {
		i.Hi = replica.Never
		return
	}
	i.Hi = max(i.Hi, i.PickedAt.Sub(earlier.current()))
}

// current is the moment for which what was read is known to be current; the zero time if
// nothing bounds it.
func (i *ReadInfo) current() time.Time {
	if i.Hi == replica.Never || i.PickedAt.IsZero() {
		return time.Time{}
	}
	return i.PickedAt.Add(-i.Hi)
}

// A Cache holds answers for reads that may be old. It must be bounded; it may drop anything
// at any time. Its methods are called concurrently.
type Cache interface {
	Get(key CacheKey) (Entry, bool)
	Set(key CacheKey, e Entry)
}

// A CacheKey names an answer: an endpoint's, for one key of the caller's.
type CacheKey struct{ Endpoint, Key string }

// An Entry is an answer in a Cache.
type Entry struct {
	Value any
	// Current is the moment for which the value is known to be current: not that at which it was
	// put there (REQ-D7).
	Current time.Time
}
