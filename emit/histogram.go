package emit

import (
	"sync/atomic"
	"time"
)

const latencyBounds = 13

// LatencyBounds are the bounds of a Histogram. 12 ms is among them since it is the P99 that published routers with a latency-first
// breaker hold while a consumer is sick: whether ours does can be read off without interpolation.
func LatencyBounds() [latencyBounds]time.Duration {
	const ms = time.Millisecond
	return [...]time.Duration{ms / 2, ms, 2 * ms, 5 * ms, 10 * ms, 12 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, 1000 * ms, 2000 * ms}
}

// A Histogram counts how long something took (REQ-O1). It only grows.
type Histogram struct {
	// Counts[i] is how many took up to LatencyBounds()[i]; the last one counts all.
	Counts [latencyBounds + 1]uint64
	// Sum is how long all of them took together. It is counted after them, so that it may be behind by some that just end.
	Sum time.Duration
}

// histogram is counted by each emit at its end.
type histogram struct {
	cells [latencyBounds + 1]atomic.Uint64 // each for itself
	sum   atomic.Int64                     // ns
}

func (h *histogram) add(d time.Duration) {
	bounds := LatencyBounds()
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.cells[i].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) read() (x Histogram) {
	x.Sum = time.Duration(h.sum.Load())
	all := uint64(0)
	for i := range h.cells {
		all += h.cells[i].Load()
		x.Counts[i] = all
	}
	return x
}

// timed counts an emit that began then.
func (s *state) timed(began time.Duration) { s.took.add(s.r.sinceBase() - began) }
