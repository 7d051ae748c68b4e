package emit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// open emits until the breaker of consumer a is open.
func openBreaker(t *testing.T, r *emit.Router) {
	t.Helper()
	for i := 0; r.Breaker("a").State() == breaker.Closed; i++ {
		if i == 1000 {
			t.Fatal("the breaker does not open")
		}
		_, _ = r.Emit(t.Context(), trigger(fmt.Sprint("opens", i)))
	}
}

// TestOpenPeriods is T16 (behaviours-emit 27, 38): each failed recovery doubles the open period up to the longest, and a clean time resets it.
func TestOpenPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var periods []time.Duration
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Breaker.Open = breaker.Backoff{Base: 100 * time.Millisecond, Max: 800 * time.Millisecond, Jitter: -1, Sticky: 5 * time.Second}
			c.Breaker.Observer.OnTransition = func(x breaker.Transition) {
				mu.Lock()
				defer mu.Unlock()
				if x.To == breaker.Open {
					periods = append(periods, x.OpenPeriod/(100*time.Millisecond))
				}
			}
		})
		openBreaker(t, r)
		calls := a.called()
		time.Sleep(3 * time.Second) // 1+2+4+8+8 periods and a bit
		mu.Lock()
		if !slices.Equal(periods[:5], []time.Duration{1, 2, 4, 8, 8}) {
			t.Errorf("open periods: %v; want 1 2 4 8 8", periods)
		}
		if probes := a.called() - calls; probes != len(periods)-1 {
			t.Errorf("%d probes for %d failed recoveries; want one each", probes, len(periods)-1)
		}
		mu.Unlock()
		a.set(nil)
		settled(t, r, "a", time.Minute)
		live(t, r, 20*time.Second)
		a.set(fails)
		openBreaker(t, r)
		mu.Lock()
		defer mu.Unlock()
		if last := periods[len(periods)-1]; last != 1 {
			t.Errorf("the next outage begins with %d; want 1", last)
		}
	})
}

// live emits 100 a second for a time and returns how long the slowest took.
func live(t *testing.T, r *emit.Router, d time.Duration) (slowest time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		_, _ = r.Emit(t.Context(), trigger("live"))
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}

// TestLostProbe is T17 (behaviours-emit 30, 31): a probe that hangs beyond its context, panics or ends its goroutine is a failed recovery.
func TestLostProbe(t *testing.T) {
	for name, do := range map[string]func(context.Context, emit.Trigger) error{
		"hangs":  hangs,
		"panics": func(context.Context, emit.Trigger) error { panic("probe") },
		"goexit": func(context.Context, emit.Trigger) error { panicGoexit(); return nil },
		"ignores its context": func(context.Context, emit.Trigger) error {
			time.Sleep(5 * time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &target{do: fails}
				r := one(t, a, func(c *emit.Consumer) {
					c.Breaker.Open = breaker.Backoff{Base: 100 * time.Millisecond, Max: time.Second, Jitter: -1}
					c.Breaker.Probe = breaker.Probe{Concurrent: 1, Lease: time.Second, Longest: time.Minute}
				})
				openBreaker(t, r)
				a.set(do)
				time.Sleep(150 * time.Millisecond) // the first probe is under way, or over
				time.Sleep(1100 * time.Millisecond)
				if s := r.Breaker("a").Stats(); s.Openings < 2 || s.OpenPeriod < 200*time.Millisecond {
					t.Errorf("after the lease: %v, %d openings, a period of %v", s.State, s.Openings, s.OpenPeriod)
				}
				a.set(nil)
				settled(t, r, "a", time.Minute)
			})
		})
	}
}

// TestProbeWhoseCallerLeaves: a live probe of a caller that went away decides nothing, and holds nobody up: its letter is the next probe.
func TestProbeWhoseCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		keep := false
		r := one(t, a, func(c *emit.Consumer) {
			c.Degrade = func(context.Context, emit.Trigger, emit.Reason) error {
				if keep {
					return errDown
				}
				return nil
			}
		})
		openBreaker(t, r)
		a.set(hangs)
		time.Sleep(time.Second)
		if s := r.Breaker("a").State(); s != breaker.HalfOpen {
			t.Fatalf("the breaker is %v; want half_open, with nothing to probe with", s)
		}
		keep = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		receipt, err := r.Emit(ctx, trigger("left"))
		if x := receipt.Of("a"); err != nil || x.Outcome != emit.Stored || x.Reason != emit.ReasonTimeout {
			t.Errorf("%+v, %v", x, err)
		}
		if s := r.Breaker("a").State(); s != breaker.HalfOpen {
			t.Errorf("a caller that went away made it %v", s)
		}
		time.Sleep(2 * time.Second)
		if s := r.Breaker("a").Stats(); s.Openings < 2 || a.called() < 22 {
			t.Errorf("%v after %d openings and %d calls; want another opening by the letter", s.State, s.Openings, a.called())
		}
		a.set(nil)
		settled(t, r, "a", time.Minute)
	})
}

// TestPoisonDoesNotHoldUpRecovery: the probes go round, so that one bad letter at the head decides nothing for long.
func TestPoisonDoesNotHoldUpRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		openBreaker(t, r)
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.ID == "opens0" {
				return errDown
			}
			return nil
		})
		time.Sleep(20 * time.Second)
		if s := stats(t, r, "a"); s.Breaker.State != breaker.Closed || s.Depth.Letters != 1 {
			t.Errorf("after 20 s the breaker is %v and %d letters are left; want closed and the bad one", s.Breaker.State, s.Depth.Letters)
		}
	})
}

// TestPoisonLeavesTheProbesToOthers: where the only letters left wait after a failure, live triggers bring the verdict.
func TestPoisonLeavesTheProbesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Degrade = func(_ context.Context, x emit.Trigger, _ emit.Reason) error {
				if x.ID == "live" {
					return nil // so that none of them is stored
				}
				return errDown
			}
		})
		openBreaker(t, r)
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.ID == "opens0" {
				return errDown
			}
			return nil
		})
		for i := 0; r.Breaker("a").State() != breaker.Closed; i++ {
			if i == 6000 {
				t.Fatalf("the breaker is %v after 6 s of 1,000 triggers a second", r.Breaker("a").State())
			}
			_, _ = r.Emit(t.Context(), trigger("live"))
			time.Sleep(time.Millisecond)
		}
	})
}

// TestProbesComeFromTheLetters: no live trigger pays for a probe as long as there are letters.
func TestProbesComeFromTheLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		openBreaker(t, r)
		stored := int(stats(t, r, "a").Stored) //nolint:gosec // a few
		a.set(hangs)
		slowest := live(t, r, 5*time.Second)
		if slowest != 0 {
			t.Errorf("a live emit waited %v", slowest)
		}
		if s := stats(t, r, "a"); int(s.Stored) < stored+490 { //nolint:gosec // a few
			t.Errorf("%d stored", s.Stored)
		}
		if probes := a.called() - stored; probes < 3 {
			t.Errorf("%d probes in 5 s", probes)
		}
	})
}

// TestLiveProbesWithoutLetters: where nothing is stored a live trigger is the probe.
func TestLiveProbesWithoutLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Degrade = func(context.Context, emit.Trigger, emit.Reason) error { return nil } // so that nothing is stored
		})
		openBreaker(t, r)
		a.set(nil)
		time.Sleep(time.Second)
		if s := r.Breaker("a").State(); s != breaker.HalfOpen {
			t.Fatalf("the breaker is %v; want half_open", s)
		}
		live(t, r, 15*time.Second)
		if s := r.Breaker("a").State(); s != breaker.Closed {
			t.Errorf("the breaker is %v after live probes; want closed", s)
		}
	})
}

// TestVerdictSeesTwoPercent: a consumer that is slow in a fiftieth of its calls does not pass for a healthy one.
func TestVerdictSeesTwoPercent(t *testing.T) {
	for _, x := range []struct {
		slowEvery int
		closed    bool
	}{{50, false}, {200, true}} {
		synctest.Test(t, func(t *testing.T) {
			a := &target{}
			var mu sync.Mutex
			n := 0
			r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{
				Name: "a", Sink: a, DeadLetters: newRing(t, emit.RingConfig{Letters: 5000, Bytes: 4 << 20}),
			}}})
			a.set(fails)
			openBreaker(t, r)
			for i := range 2000 {
				_, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i)))
			}
			a.set(func(ctx context.Context, x2 emit.Trigger) error {
				mu.Lock()
				n++
				slow := n%x.slowEvery == x.slowEvery/2
				mu.Unlock()
				if slow {
					return takes(100*time.Millisecond)(ctx, x2)
				}
				return takes(2*time.Millisecond)(ctx, x2)
			})
			for range 300 {
				time.Sleep(10 * time.Millisecond)
				if r.Breaker("a").State() == breaker.Closed {
					break
				}
			}
			if closed := r.Breaker("a").State() == breaker.Closed; closed != x.closed {
				t.Errorf("slow every %d: closed %v; want %v", x.slowEvery, closed, x.closed)
			}
		})
	}
}

// TestLater: a consumer that asks to be left alone is, and is asked again afterwards (REQ-E15).
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error {
			return fmt.Errorf("429: %w", &emit.LaterError{After: 30 * time.Second, Err: errors.New("slow down")})
		}}
		r := one(t, a)
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
		a.set(nil)
		emitWant(t, r, trigger("2"), emit.Stored, emit.ReasonOpen)
		time.Sleep(29 * time.Second)
		emitWant(t, r, trigger("3"), emit.Stored, emit.ReasonOpen)
		if a.called() != 1 {
			t.Errorf("%d calls in the time in which it wants none", a.called()-1)
		}
		time.Sleep(4 * time.Second) // and a ramp of one
		if got := len(a.taken()); got != 3 {
			t.Errorf("%d delivered afterwards; want 3", got)
		}
	})
}
