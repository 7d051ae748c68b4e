package lab

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// Node is one server of a fleet.
type Node struct {
	Name     string // "primary", "r1", …
	DSN      string // for the library and for people: a role with pg_monitor
	AdminDSN string // for faults and for setting up: a superuser
}

// Fleet is what the lab plays on: the real fleet or the simulated one. Faults hit
// replicas and their links; each is undone by the method after it, all of them by
// Heal. Close ends every server and removes what it left.
type Fleet interface {
	// Version is "postgres 15.18", or "simulated".
	Version() string
	// Nodes lists the primary, then the replicas.
	Nodes() []Node

	Pause(ctx context.Context, replica string) error
	Resume(ctx context.Context, replica string) error
	CutLink(replica string, mode relay.Mode) error
	HealLink(replica string) error
	Freeze(replica string) error
	Thaw(replica string) error
	Kill(replica string) error
	Restart(ctx context.Context, replica string) error
	// SetApplyDelay makes a replica replay each commit so long after it was made, 0 for at once.
	SetApplyDelay(ctx context.Context, replica string, d time.Duration) error

	SwitchSegment(ctx context.Context) error
	Heal(ctx context.Context) error
	Close() error
}
