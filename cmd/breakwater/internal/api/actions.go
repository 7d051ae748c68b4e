package api

import (
	"context"

	"github.com/breakwater-go/breakwater/breaker"
)

// Source tells how things stand: quick, from memory.
type Source interface {
	Parts() Parts
	Status() Status
}

// Actions is what an operator may change. Each that succeeds is published as an Event of KindAction by its caller, the Server.
type Actions interface {
	// Force forces a breaker, of a replica or a consumer, or gives it back to its rules (breaker.Closed).
	Force(name string, to breaker.State, reason string) error
	// Tune changes thresholds while running: those of the replica set, which all replicas share, or of one consumer. The next
	// reload of a file that says otherwise takes them back.
	Tune(name string, t Tuning) error
	// Budget changes that of the read path (REQ-D9); nil stays.
	Budget(ratePerSec *float64, burst *int) error
	// Replay and Discard act on dead letters that match, and return how many. Replay goes on after its caller has gone, and returns at once
	// with how many there are to try.
	Replay(ctx context.Context, consumer string, f LetterFilter) (int, error)
	Discard(ctx context.Context, consumer string, f LetterFilter, reason string) (int, error)
}

// Tuning is PATCH /api/v1/breakers/{name}: what is nil stays. The first ones are of replicas, the others of consumers.
type Tuning struct {
	TripMS         *float64 `json:"trip_ms"`
	ReenterMS      *float64 `json:"reenter_ms"`
	Breaches       *int     `json:"breaches"`
	MaxStalenessMS *float64 `json:"max_staleness_ms"`
	Failures       *int     `json:"failures"`
	OpenBaseMS     *float64 `json:"open_base_ms"`
	OpenMaxMS      *float64 `json:"open_max_ms"`

	TimeoutMS *float64 `json:"timeout_ms"`
	SlowMS    *float64 `json:"slow_ms"`
	Bulkhead  *int     `json:"bulkhead"`
}

// LetterFilter selects dead letters; what is empty selects any.
type LetterFilter struct {
	Priorities []string `json:"priorities"`
	Types      []string `json:"types"`
	Key        string   `json:"key"`
	Reasons    []string `json:"reasons"`
	Seq        uint64   `json:"seq"` // one letter
	Parked     *bool    `json:"parked"`
}
