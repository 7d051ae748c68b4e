package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A spreader makes single calls of what was drawn in bulk, and puts them to a breaker: each at a random
// instant of its tick.
type spreader struct {
	g      *bubbled
	rng    *rand.Rand
	width  time.Duration
	calls  []planned
	opened string
}

type planned struct {
	at   time.Duration
	slow bool
}

// spread plans n calls in the ticks from first on.
func (s *spreader) spread(n, first, ticks uint64, slow bool) {
	for range n {
		tick := first + s.rng.Uint64N(ticks)
		s.calls = append(s.calls, planned{time.Duration(tick)*s.width + upTo(s.rng, s.width), slow})
	}
}

// play runs the planned calls. Those that are not slow end at once, the others never.
func (s *spreader) play() (opened bool) {
	slices.SortFunc(s.calls, func(a, b planned) int { return int(a.at - b.at) })
	for _, c := range s.calls {
		if p, ok := s.g.begin(c.at, c.slow); ok && !c.slow {
			p.Done(nil)
		}
		if len(s.g.opened) > 0 {
			s.opened = s.g.opened[0]
			return true
		}
	}
	s.calls = s.calls[:0]
	return false
}

// flush makes one more call, which judges all that was planned.
func (s *spreader) flush(at time.Duration) {
	s.calls = append(s.calls, planned{at: at})
	s.play()
}

func inBubbles(t *testing.T, seeds uint64, f func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { f(t, seed) })
	}
}

// The stream of slow ticks opens the same as the breaker does with the single calls.
func TestStreamIsTheBreaker(t *testing.T) {
	for _, c := range []consumer{{500, 0.02}, {5000, 0.015}, {300, 0.04}} {
		inBubbles(t, 6, func(t *testing.T, seed uint64) {
			t.Helper()
			s := newStream(rand.New(rand.NewPCG(seed, 3)), c)
			d := newCUSUM(9)
			sp := &spreader{g: newBubbled(t, breaker.CUSUM{Limit: 9}), rng: rand.New(rand.NewPCG(seed, 4)), width: s.tick}
			want := ""
			for tick := uint64(0); want == ""; tick++ {
				next := s.next(math.Inf(1))
				sp.spread(next.before, tick, next.quiet, false)
				tick += next.quiet
				sp.spread(next.fast, tick, 1, false)
				sp.spread(next.slow, tick, 1, true)
				if next.take(d, 0) {
					want = reasonOf(d)
				}
				// A call of this batch may come before one of the next: the batches are apart by ticks.
				if sp.play() && want == "" {
					break
				}
				if want != "" {
					sp.flush(time.Duration(tick+1)*s.tick + limitDefault)
				}
			}
			if sp.opened != want {
				t.Errorf("%+v, seed %d: the stream %q, the breaker %q", c, seed, want, sp.opened)
			}
		})
	}
}

// The windows open the same as the breaker does with the single calls.
func TestWindowsAreTheBreaker(t *testing.T) {
	for _, c := range []consumer{{150, 0.012}, {800, 0.012}} {
		inBubbles(t, 6, func(t *testing.T, seed uint64) {
			t.Helper()
			w, d := windows{newStream(rand.New(rand.NewPCG(seed, 3)), c), time.Second}, newPercentile(100)
			sp := &spreader{g: newBubbled(t, breaker.Percentile{}), rng: rand.New(rand.NewPCG(seed, 4)), width: w.tick}
			want, first := "", uint64(0)
			for at := time.Duration(0); want == ""; at += w.span {
				ticks, fast, slow := w.next(first, at+w.span)
				sp.spread(fast, first, ticks, false)
				sp.spread(slow, first, ticks, true)
				first += ticks
				if d.ripened(at, fast+slow, slow) || d.settle(at+w.span) {
					want = reasonOf(d)
				}
				if sp.play() && want == "" {
					break
				}
			}
			sp.flush(time.Duration(first+1)*w.tick + limitDefault)
			if sp.opened != want {
				t.Errorf("%+v, seed %d: the windows %q, the breaker %q", c, seed, want, sp.opened)
			}
		})
	}
}

func reasonOf(d detector) string {
	value, slow, calls := d.reason()
	return fmt.Sprintf("opened %.9g %d %d", value, slow, calls)
}
