package main

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

const (
	healthyLeast = 2 * time.Millisecond // a call that is not slow lasts for so long, and 3 ms more in the mean
	healthyMost  = 20 * time.Millisecond
	slowLasts    = 200 * time.Millisecond // the timeout of the calls
)

// A duration is how long a call lasts that begins at an instant.
type duration func(rng *rand.Rand, now time.Duration) time.Duration

// healthy has calls of a few milliseconds and a share of slow ones.
func healthy(share float64) duration {
	return func(rng *rand.Rand, _ time.Duration) time.Duration {
		if rng.Float64() < share {
			return slowLasts
		}
		return min(healthyLeast+time.Duration(rng.ExpFloat64()*3e6), healthyMost)
	}
}

// from is before until an instant, then after.
func from(instant time.Duration, before, after duration) duration {
	return func(rng *rand.Rand, now time.Duration) time.Duration {
		if now < instant {
			return before(rng, now)
		}
		return after(rng, now)
	}
}

// stalled is d with a pause in which no call gets on.
func stalled(begin, length time.Duration, d duration) duration {
	return func(rng *rand.Rand, now time.Duration) time.Duration {
		lasts := d(rng, now)
		switch end := begin + length; {
		case now < begin && now+lasts > begin:
			lasts += length
		case now >= begin && now < end:
			lasts += end - now
		}
		return min(lasts, slowLasts)
	}
}

// A guard is a breaker in front of the calls. A permit is what it gave one of them.
type guard[permit any] interface {
	// begin asks for a call at an instant, of which it is known whether it will be slow.
	begin(now time.Duration, slow bool) (permit, bool)
	end(now time.Duration, p permit)
	// ignore ends a call that has just begun and was not made.
	ignore(now time.Duration, p permit)
}

// traffic is calls that begin at random instants.
type traffic struct {
	rng       *rand.Rand
	rate      float64 // a second
	lasts     duration
	threshold time.Duration // a call is slow that lasts for so long
	bulkhead  int           // calls in flight at most, 0: any number; others are not made
	asksFirst bool          // the breaker is asked before the bulkhead
}

// play runs the calls through g from the instant 0, until stop says so after one of
// their begins.
func play[permit any](tr traffic, g guard[permit], stop func(now time.Duration) bool) {
	var under flights[permit]
	for now := between(tr.rng, tr.rate); ; now += between(tr.rng, tr.rate) {
		under.endUntil(now, g)
		lasts, full := tr.lasts(tr.rng, now), tr.bulkhead > 0 && under.Len() >= tr.bulkhead
		if !full || tr.asksFirst {
			p, ok := g.begin(now, lasts >= tr.threshold && !full)
			switch {
			case ok && full:
				g.ignore(now, p)
			case ok:
				heap.Push(&under, flight[permit]{now + lasts, p})
			}
		}
		if stop(now) {
			return
		}
	}
}

// flights are the calls under way, the one that ends first in front.
type flights[permit any] []flight[permit]

type flight[permit any] struct {
	ends   time.Duration
	permit permit
}

func (f *flights[permit]) endUntil(now time.Duration, g guard[permit]) {
	for f.Len() > 0 && (*f)[0].ends <= now {
		first := heap.Pop(f).(flight[permit])
		g.end(first.ends, first.permit)
	}
}

func (f flights[permit]) Len() int           { return len(f) }
func (f flights[permit]) Less(i, j int) bool { return f[i].ends < f[j].ends }
func (f flights[permit]) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

func (f *flights[permit]) Push(x any) { *f = append(*f, x.(flight[permit])) }

func (f *flights[permit]) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	*f = (*f)[:last]
	return x
}
