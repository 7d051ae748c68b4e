package main

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	limitDefault = 50 * time.Millisecond // the threshold
	jitterMost   = 500 * time.Millisecond
	day          = 24 * time.Hour
)

// A consumer is healthy: calls begin at a rate, and a share of them is slow.
type consumer struct {
	rate  float64 // calls a second
	share float64 // of slow ones
}

// A stream is the ticks of a consumer that hold a slow call, in order.
type stream struct {
	rng        *rand.Rand
	tick       time.Duration
	slow, fast float64 // calls a tick, in the mean
	noSlow     float64 // the probability of a tick without a slow call
}

func newStream(rng *rand.Rand, c consumer) *stream {
	tick := time.Duration(1) << tickShift(limitDefault)
	slow, fast := c.rate*c.share*tick.Seconds(), c.rate*(1-c.share)*tick.Seconds()
	return &stream{rng, tick, slow, fast, math.Exp(-slow)}
}

// A slowTick is a tick with a slow call, and what came before it.
type slowTick struct {
	quiet      uint64 // ticks before it without a slow call
	before     uint64 // calls in those, or enough if there were more
	fast, slow uint64 // its own
}

// next draws a tick. How many calls came before it is drawn only where it is not sure, by ten
// standard deviations, that they were enough.
func (s *stream) next(enough float64) slowTick {
	quiet := math.Floor(s.rng.ExpFloat64() / s.slow) // geometric
	t := slowTick{quiet: uint64(quiet), fast: poisson(s.rng, s.fast), slow: positivePoisson(s.rng, s.slow, s.noSlow)}
	if mean := quiet * s.fast; mean-10*math.Sqrt(mean) > enough {
		t.before = uint64(enough) + 1
	} else {
		t.before = poisson(s.rng, mean)
	}
	return t
}

// take hands a slow tick that begins at an instant to a detector. The quiet ticks are one step: calls
// that are not slow only lower the sum, and however they are grouped it ends
// at the same place, or at 0.
func (t slowTick) take(d *cusum, at time.Duration) (opens bool) {
	d.ripened(at, t.before, 0)
	return d.ripened(at, t.fast+t.slow, t.slow)
}

// falseCUSUM counts the openings of a healthy consumer, for each of the limits.
func falseCUSUM(rng *rand.Rand, c consumer, limits []float64, span time.Duration) []int {
	s := newStream(rng, c)
	rules := make([]*cusum, len(limits))
	for i, limit := range limits {
		rules[i] = newCUSUM(limit)
	}
	openings, resumes := make([]int, len(limits)), make([]time.Duration, len(limits))
	for at := time.Duration(0); at < span; at += s.tick {
		t := s.next(enoughFor(rules))
		at += time.Duration(t.quiet) * s.tick
		for i, d := range rules {
			if at >= resumes[i] && t.take(d, at) {
				openings[i]++
				resumes[i] = at + s.tick + limitDefault + absence(rng, c)
				d.reset(0)
			}
		}
	}
	return openings
}

// enoughFor is how many calls that are not slow bring every sum back to 0.
func enoughFor(rules []*cusum) float64 {
	highest := 0.0
	for _, d := range rules {
		highest = max(highest, d.sum)
	}
	return math.Ceil(-highest / rules[0].down)
}

// absence is how long a healthy consumer stays away once it is open: the open period with its jitter, and again
// as long as the probe is slow.
func absence(rng *rand.Rand, c consumer) (d time.Duration) {
	for period := basePeriod; ; period = min(2*period, longestPeriod) {
		d += period + upTo(rng, jitterMost) + between(rng, c.rate)
		if rng.Float64() >= c.share {
			return d
		}
	}
}

// A windows is the ticks of a consumer, a window of a percentile rule at a time.
type windows struct {
	*stream
	span time.Duration
}

// next draws the ticks from number first that begin before an instant.
func (w windows) next(first uint64, end time.Duration) (ticks, fast, slow uint64) {
	ticks = uint64((end+w.tick-1)/w.tick) - first
	slow = poisson(w.rng, w.slow*float64(ticks))
	if slow > 0 { // without one, how many calls there were changes no verdict
		fast = poisson(w.rng, w.fast*float64(ticks))
	}
	return ticks, fast, slow
}

// falsePercentile counts the openings of a healthy consumer.
func falsePercentile(rng *rand.Rand, c consumer, minCalls uint64, span time.Duration) (openings int) {
	w, d := windows{newStream(rng, c), time.Second}, newPercentile(minCalls)
	for at := time.Duration(0); at < span; {
		first := uint64((at + w.tick - 1) / w.tick)
		end := at + w.span
		_, fast, slow := w.next(first, end)
		opens := d.ripened(at, fast+slow, slow) || d.settle(end)
		at = end
		if opens {
			openings++
			at += w.tick + limitDefault + absence(rng, c)
			d.reset(at)
		}
	}
	return openings
}
