package consumer

import (
	"math"
	"math/rand/v2"
	"time"
)

// Behaviour is how a consumer answers. The zero value answers at once.
type Behaviour struct {
	// P99 is that of its latency, in ms: a lognormal of the shape below. Default: 0, none.
	P99 float64 `json:"p99_ms"`
	// SlowShare of the calls have SlowP99 instead.
	SlowShare float64 `json:"slow_share"`
	SlowP99   float64 `json:"slow_p99_ms"`
	// Hang accepts calls and never answers. They are cut when the behaviour changes, as by a restart.
	Hang bool `json:"hang"`
	// Fail answers 500 at once.
	Fail bool `json:"fail"`
}

// The shape of the latencies: the standard deviation of their logarithm. It is scaled, not changed, where a consumer slows down.
const (
	shape = 0.42
	z99   = 2.3263 // of the normal distribution
)

// latency draws one.
func (b Behaviour) latency(rng *rand.Rand) time.Duration {
	p99 := b.P99
	if b.SlowShare > 0 && rng.Float64() < b.SlowShare {
		p99 = b.SlowP99
	}
	return time.Duration(p99 * math.Exp(shape*(rng.NormFloat64()-z99)) * float64(time.Millisecond))
}
