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

// ReadInfo tells which node a read was sent to.
type ReadInfo = replica.ReadInfo

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
