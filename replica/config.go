package replica

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Config sets up a Set. Zero fields take their defaults.
type Config struct {
	// Primary is sampled for the reference position. Required. Its Probe is not used; its Fence is called when it turns out to be in recovery.
	Primary Node
	// Replicas are the nodes to choose from: 0 to 64, also changed later by Add and Remove.
	Replicas []Node

	// Settings can be changed while running by Set.Reconfigure.
	Settings

	// Classify tells what the error of a read says about its node, for Choice.Done.
	// Default: breaker's own default.
	Classify func(error) breaker.Outcome
	// Observer is told what happens. Default: nobody.
	Observer Observer
}

// Settings are the thresholds and intervals of a Set.
type Settings struct {
	// Trip is the lag above which a sample breaches. Default 500 ms. Never: the lag rule is inert (REQ-R11).
	Trip time.Duration
	// Reenter is the lag at or below which an open replica is re-admitted. Default 200 ms
	// or Trip/2 if that is less, but no less than 10 ms. At least 10 ms, since the catch-up probe needs its round trips.
	Reenter time.Duration
	// Breaches is how many breaches in a row open a replica's breaker. Default 3.
	Breaches int
	// CountRequests counts a breach per denied read instead of per sample (REQ-R4). Default false.
	CountRequests bool
	// MaxStaleness is the limit for reads that name none, compared with Hi.
	// Default Trip + 1.1 × Calm + Fast (2.25 s with the defaults; source: docs/lag.md, "Rules"), at least what a healthy replica reaches between samples; Never if Trip is Never.
	MaxStaleness time.Duration

	// Calm is the interval between samples of a replica. Default 1.5 s, each with ± 10 % jitter.
	Calm time.Duration
	// Fast is the interval while a replica is in doubt. Default 100 ms.
	Fast time.Duration
	// PrimaryInterval is the interval between looks at the primary. Default 250 ms; it is unknown after three.
	PrimaryInterval time.Duration
	// SampleTimeout bounds one sample, connecting included. Default 1 s; shorter than Calm.
	SampleTimeout time.Duration
	// Grace is how long reads that accept it go on unverified after the primary was last seen. Default 10 s; negative: none.
	Grace time.Duration

	// Ramp is how long a re-admitted replica takes to its full share. Default 10 s; negative: none.
	Ramp time.Duration
	// RampFrom is the share at the start of the ramp, over 0 to 1. Default 0.1.
	RampFrom float64

	// Failures is how many failed reads in a row open a replica's breaker. Default 3.
	Failures int
	// Open is the open period. Default base 2 s, maximum 60 s, jitter up to 0.5 s, sticky 10 s (REQ-B6);
	// a negative Jitter or Sticky is none.
	Open breaker.Backoff
}
