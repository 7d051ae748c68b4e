package replica

import (
	"context"

	"github.com/breakwater-go/breakwater/breaker"
)

// Look is what a driver saw of a node at one instant.
type Look struct {
	// SystemID identifies the cluster: a replica has the same one as its primary.
	SystemID string
	// Instance identifies the running server: two names with one Instance are one server.
	Instance string
	// InRecovery is false on a primary, and on a replica that was promoted.
	InRecovery bool
	// Timeline is the primary's current timeline, or the one that a replica's WAL
	// receiver follows. 0: not known; unknown timelines are not compared.
	Timeline uint32
	// ControlTimeline is the timeline of a replica's control file, looked at only
	// while no receiver has told one. 0: not known.
	ControlTimeline uint32
	// Position is the primary's normalised WAL insert position, or the replica's
	// replay position, in bytes. 0 on a replica: nothing was replayed yet.
	Position uint64
	// Flushed is the position up to which the primary has flushed WAL, in bytes: what
	// lies above it no replica can have, and is no evidence of lag. 0: not told; then
	// Position counts as flushed. Not looked at on a replica.
	Flushed uint64
	// Received is the position up to which a replica received WAL; 0: not known.
	// It proves what the primary had written, so it can raise Lo, never lower Hi.
	Received uint64
	// ReceiverDown says that the replica has no streaming WAL receiver.
	ReceiverDown bool
	// ReplayPaused says that somebody paused replay on the replica.
	ReplayPaused bool
	// MissingRights is empty, or says in words which grant the sampling role lacks.
	MissingRights string
}

// flushed is the position up to which the primary has flushed WAL, as far as it tells.
func (l *Look) flushed() uint64 {
	if l.Flushed == 0 {
		return l.Position
	}
	return l.Flushed
}

// Conn is a sampler's own connection to a node. It is used by one goroutine. One that is a
// [Flusher] as well keeps an idle primary from holding WAL back.
type Conn interface {
	// Look samples the node once. An error means that the node cannot be sampled;
	// the connection is closed and made anew for the next sample.
	Look(ctx context.Context) (Look, error)
	// Close releases the connection; it may not block for longer than a fraction
	// of the sampling interval.
	Close()
}

// Connector opens a sampler's own connection, never one of the application's pool.
// Its errors are shown to people: they must not hold a password.
type Connector func(ctx context.Context) (Conn, error)

// Node is one server of a Set.
type Node struct {
	// Name is unique in its Set and not empty; it is shown in errors and metrics.
	Name string
	// Target is the caller's own handle (a pool), handed back by Choice.Target.
	Target any
	// Connect opens the sampler's connection. Required.
	Connect Connector
	// Probe makes a trivial read through the application's pool and says what its end
	// means; a Success re-admits a replica that was open (REQ-R9), Ignored decides
	// nothing (an exhausted pool, say). nil: the catch-up probe alone decides.
	Probe func(ctx context.Context) (breaker.Outcome, error)
	// Fence is called when a replica leaves the read set because its breaker
	// opened or it is no longer a replica of this primary: the place to drop idle
	// connections. It must not block. nil: nothing is done.
	Fence func()
	// MaxInFlight caps the reads in flight on this node (REQ-R17): reads above it
	// are saturation, not sickness. Default 0: no cap.
	MaxInFlight int
}
