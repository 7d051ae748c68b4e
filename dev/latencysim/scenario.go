package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// A scenario is a consumer to which something happens, before a breaker with one rule.
type scenario struct {
	rate      float64
	share     float64                                           // of slow calls while it is healthy
	happens   func(at time.Duration, healthy duration) duration // what, at an instant
	rule      func() detector
	threshold time.Duration
	bulkhead  int
	asksFirst bool
	within    time.Duration // how long an opening is waited for
}

// never is the time of an opening that was waited for in vain.
const never = time.Duration(math.MaxInt64)

// run returns how long after it happened the breaker opened. A run that was open before is
// none, and is made again.
func (s scenario) run(rng *rand.Rand) (took time.Duration, rule detector) {
	for {
		m := newModel(s.rule(), s.threshold)
		at := s.warmUp() + upTo(rng, time.Second)
		play(s.traffic(rng, at), m, func(now time.Duration) bool {
			if d, ok := m.rule.(*cusum); ok && now < at {
				d.peak = 0
			}
			return m.openings > 0 || now > at+s.within
		})
		switch {
		case m.openings == 0:
			return never, m.rule
		case m.openedAt >= at:
			return m.openedAt - at, m.rule
		}
	}
}

// warmUp is long enough for a sum to forget that it began at 0.
func (s scenario) warmUp() time.Duration {
	return max(time.Second, time.Duration(500/s.rate*float64(time.Second)))
}

func (s scenario) traffic(rng *rand.Rand, at time.Duration) traffic {
	return traffic{
		rng: rng, rate: s.rate, threshold: s.threshold, bulkhead: s.bulkhead, asksFirst: s.asksFirst,
		lasts: s.happens(at, healthy(s.share)),
	}
}

// times runs a scenario n times and returns how long the openings took, in order.
func (s scenario) times(rng *rand.Rand, n int) (took []time.Duration) {
	for range n {
		d, _ := s.run(rng)
		took = append(took, d)
	}
	slices.Sort(took)
	return took
}

// peaks runs a scenario n times with a CUSUM that never opens, and returns how high its sum came, in order.
func (s scenario) peaks(rng *rand.Rand, n int) (sums []float64) {
	s.rule = func() detector { return newCUSUM(math.Inf(1)) }
	for range n {
		_, d := s.run(rng)
		sums = append(sums, d.(*cusum).peak)
	}
	slices.Sort(sums)
	return sums
}

// degrades has a share of the calls slow from then on; 1: all of them hang until their timeout.
func degrades(share float64) func(time.Duration, duration) duration {
	return func(at time.Duration, before duration) duration { return from(at, before, healthy(share)) }
}

// stalls has no call get on for a while.
func stalls(length time.Duration) func(time.Duration, duration) duration {
	return func(at time.Duration, d duration) duration { return stalled(at, length, d) }
}

// openedShare is the share of the runs that opened.
func openedShare(took []time.Duration) float64 {
	n, _ := slices.BinarySearch(took, never)
	return float64(n) / float64(len(took))
}

// at is the value below which a share of the sorted values lies.
func at[T any](sorted []T, share float64) T {
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
