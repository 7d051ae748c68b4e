package breaker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// behaviours-breaker 1, 10, 11; REQ-B5: a probe is a lease.
func TestProbeThatNeverReportsLosesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		lost := start(t, b)
		if run(b, nil) {
			t.Fatal("a second probe ran during the lease of the first")
		}
		after(defaultLease - time.Millisecond)
		if run(b, nil) {
			t.Fatal("a second probe ran 1ms before the end of the lease")
		}
		after(24 * time.Hour)
		fresh := start(t, b)
		lost.Done(errDown) // its slot has another owner
		wantState(t, b, HalfOpen)
		if got := b.Stats().Late; got != 1 {
			t.Errorf("late: got %d, want 1", got)
		}
		fresh.Done(nil)
		wantState(t, b, Closed)
	})
}

// A lease that nobody took over still counts when its probe reports late.
func TestProbeThatReportsAfterItsLeaseCountsIfNobodyTookTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe.Longest = 24 * time.Hour
		b := mustNew(t, c)
		trip(t, b)
		p := start(t, b)
		after(time.Hour)
		p.Done(nil)
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 2; REQ-B10.
func TestProbeThatEndsByGoexitGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		go Do(t.Context(), b, func(context.Context) (int, error) {
			runtime.Goexit()
			return 0, nil
		})
		synctest.Wait()
		wantState(t, b, Open) // counted as a failure
		after(2 * time.Second)
		if !run(b, nil) {
			t.Error("the next probe was refused")
		}
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 3; REQ-B10.
func TestProbeThatPanicsGivesItsSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		wantPanic(t, "boom", func() {
			Do(t.Context(), b, func(context.Context) (int, error) { panic("boom") })
		})
		wantState(t, b, Open)
		after(2 * time.Second)
		if !run(b, nil) {
			t.Error("the next probe was refused")
		}
	})
}

func wantPanic(t *testing.T, want any, f func()) {
	t.Helper()
	defer func() {
		if got := recover(); got != want {
			t.Errorf("panic: got %v, want %v", got, want)
		}
	}()
	f()
}

// behaviours-breaker 4; REQ-B18.
func TestClassifierThatPanicsOnAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := behaviourConfig()
		errOdd := errors.New("odd")
		c.Observer = rec.observer()
		c.Classify = func(err error) Outcome {
			if errors.Is(err, errOdd) {
				panic("classifier")
			}
			return Failure
		}
		b := mustNew(t, c)
		trip(t, b)
		got, err := Do(t.Context(), b, func(context.Context) (int, error) { return 7, errOdd })
		if got != 7 || !errors.Is(err, errOdd) {
			t.Errorf("caller got %d, %v; want its own 7, %v", got, err, errOdd)
		}
		wantState(t, b, Open) // counted as a failure
		if len(rec.faults) != 1 || rec.faults[0].Part != "Classify" || rec.faults[0].Panic != "classifier" {
			t.Errorf("faults: got %+v, want the classifier's panic", rec.faults)
		}
		after(2 * time.Second)
		if !run(b, nil) {
			t.Error("the next probe was refused")
		}
	})
}

// A classifier that ends its goroutine must not lose the result either.
func TestClassifierThatCallsGoexitCountsAsFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Classify = func(error) Outcome { runtime.Goexit(); return Success }
		c.Rules = nil
		b := mustNew(t, c)
		go run(b, errDown)
		synctest.Wait()
		if got := b.Stats().Failures; got != 1 {
			t.Errorf("failures: got %d, want 1", got)
		}
	})
}

func TestOutcomeThatDoesNotExistCountsAsFailure(t *testing.T) {
	var rec recorder
	b := mustNew(t, Config{Classify: func(error) Outcome { return 17 }, Observer: rec.observer()})
	run(b, errDown)
	if s := b.Stats(); s.Failures != 1 || s.Faults != 1 {
		t.Errorf("failures, faults: got %d, %d, want 1, 1", s.Failures, s.Faults)
	}
	if len(rec.faults) != 1 || rec.faults[0].Detail != "outcome(17) counts as a failure" {
		t.Errorf("faults: got %+v", rec.faults)
	}
}

// behaviours-breaker 5.
func TestIgnoredProbeGivesItsSlotBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		runN(t, b, 1, errNeutral)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 6.
func TestIgnoredProbesDecideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		runN(t, b, 100, errNeutral)
		wantState(t, b, HalfOpen)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 7; REQ-B9: also where the error does not say what the context does.
func TestCancelledProbeNeitherClosesNorOpens(t *testing.T) {
	for name, result := range map[string]func(context.Context) error{
		"context error": func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) },
		"driver error":  func(context.Context) error { return errors.New("driver: operation was interrupted") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, behaviourConfig())
				trip(t, b)
				ctx, cancel := context.WithCancel(t.Context())
				ran := false
				Do(ctx, b, func(ctx context.Context) (int, error) {
					ran = true
					cancel()
					return 0, result(ctx)
				})
				if s := b.Stats(); !ran || s.State != HalfOpen || s.ProbesInFlight != 0 || s.Ignored != 1 {
					t.Errorf("ran %v: got %v, %d in flight, %d ignored; want half_open, 0, 1", ran, s.State, s.ProbesInFlight, s.Ignored)
				}
				runN(t, b, 1, errDown)
				wantState(t, b, Open)
			})
		})
	}
}

// behaviours-breaker 9: what was seen passes, so it closes.
func TestLongestHalfOpenClosesOnWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe = Probe{Successes: 10, Longest: time.Minute}
		b := mustNew(t, c)
		trip(t, b)
		runN(t, b, 3, nil)
		after(58 * time.Second) // trip entered half-open a second before it returned
		wantState(t, b, HalfOpen)
		after(time.Second)
		wantState(t, b, Closed)
	})
}

func TestLongestHalfOpenWithNothingSeenStaysAndTheNextProbeDecides(t *testing.T) {
	for _, tc := range []struct {
		name   string
		result error
		want   State
	}{{"success closes", nil, Closed}, {"failure opens", errDown, Open}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := behaviourConfig()
				c.Probe = Probe{Successes: 10, Longest: time.Minute}
				b := mustNew(t, c)
				trip(t, b)
				after(time.Hour)
				wantState(t, b, HalfOpen)
				runN(t, b, 1, errNeutral)
				wantState(t, b, HalfOpen)
				runN(t, b, 1, tc.result)
				wantState(t, b, tc.want)
			})
		})
	}
}

func TestSuccessesInARowClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe.Successes = 3
		b := mustNew(t, c)
		trip(t, b)
		runN(t, b, 2, nil)
		wantState(t, b, HalfOpen)
		if s := b.Stats(); s.ProbeSuccesses != 2 || s.ProbesOf != 3 {
			t.Errorf("probe successes: got %d of %d, want 2 of 3", s.ProbeSuccesses, s.ProbesOf)
		}
		runN(t, b, 1, errDown)
		wantState(t, b, Open)
		after(2 * time.Second)
		runN(t, b, 2, nil)
		wantState(t, b, HalfOpen) // those of the half-open before count no more
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 13; REQ-B5.
func TestHalfOpenAdmitsNoMoreThanConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe.Concurrent = 3
		b := mustNew(t, c)
		trip(t, b)
		admitted := 0
		for range 1000 {
			if _, err := b.Allow(); err == nil {
				admitted++
			}
		}
		s := b.Stats()
		if admitted != 3 || s.ProbesInFlight != 3 || s.Rejected != 997 {
			t.Errorf("admitted, in flight, rejected: got %d, %d, %d, want 3, 3, 997", admitted, s.ProbesInFlight, s.Rejected)
		}
	})
}

// behaviours-breaker 14: the race at open to half-open. It runs on real
// goroutines, and can only miss, never cry wolf.
func TestRaceAtTheEndOfTheOpenPeriodAdmitsOne(t *testing.T) {
	for range rounds(t, 1000) {
		b := mustNew(t, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}})
		b.Trip(Reason{})
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for {
					_, err := b.Allow()
					if err == nil {
						admitted.Add(1)
						return
					}
					if b.State() == HalfOpen {
						return
					}
					runtime.Gosched()
				}
			})
		}
		b.wake(1)
		wg.Wait()
		if _, err := b.Allow(); err == nil {
			admitted.Add(1)
		}
		if got := admitted.Load(); got != 1 {
			t.Fatalf("admitted: got %d, want 1", got)
		}
	}
}

func rounds(t *testing.T, n int) int {
	t.Helper()
	if testing.Short() {
		return n / 10
	}
	return n
}

// behaviours-breaker 17; REQ-B8.
func TestResultsFromBeforeTheOpeningDecideNothing(t *testing.T) {
	for _, tc := range []struct {
		name string
		late error
	}{{"success", nil}, {"failure", errDown}} {
		t.Run(tc.name+" in half_open", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, behaviourConfig())
				old := start(t, b)
				trip(t, b)
				probe := start(t, b)
				old.Done(tc.late)
				wantState(t, b, HalfOpen)
				probe.Done(errDown)
				wantState(t, b, Open)
				if got := b.Stats().Late; got != 1 {
					t.Errorf("late: got %d, want 1", got)
				}
			})
		})
	}
	t.Run("success without a time window", func(t *testing.T) { // another path of Done
		b := mustNew(t, Config{})
		old := start(t, b)
		runN(t, b, 5, errDown)
		old.Done(nil)
		if s := b.Stats(); s.Successes != 0 || s.Late != 1 || s.ConsecutiveFailures != 5 {
			t.Errorf("got %+v; want 0 successes, 1 late, 5 in a row", s)
		}
	})
	t.Run("success in open", func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		old := start(t, b)
		runN(t, b, 5, errDown)
		old.Done(nil)
		wantState(t, b, Open)
		if s := b.Stats(); s.Successes != 0 || s.Late != 1 {
			t.Errorf("successes, late: got %d, %d, want 0, 1", s.Successes, s.Late)
		}
	})
	t.Run("probe of an earlier half_open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := behaviourConfig()
			c.Probe.Concurrent = 2
			b := mustNew(t, c)
			trip(t, b)
			old := start(t, b)
			runN(t, b, 1, errDown)
			after(2 * time.Second)
			wantState(t, b, HalfOpen)
			old.Done(nil)
			wantState(t, b, HalfOpen)
		})
	})
}

// A probe that outlives its half-open still loads the target: it keeps its slot
// until it reports or its lease is over, and its result counts for nothing.
func TestProbeThatOutlivesItsHalfOpenKeepsItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe.Concurrent = 2
		b := mustNew(t, c)
		trip(t, b)
		old := start(t, b)
		runN(t, b, 1, errDown)
		after(2 * time.Second)
		wantState(t, b, HalfOpen)
		second := start(t, b)
		if run(b, nil) {
			t.Error("a third probe ran beside two")
		}
		old.Done(nil)
		wantState(t, b, HalfOpen)
		third := start(t, b)
		second.DoneAs(Ignored, nil)
		third.Done(nil)
		wantState(t, b, Closed)
	})
}

// A reservation made under a state word that is no longer there is given back.
func TestStaleReservationIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		trip(t, b)
		word := b.loadWord()
		runN(t, b, 1, errDown)
		after(2 * time.Second) // half-open again, and the slots are free
		p := Permit{b: b, word: word}
		if got := b.reserve(&p, false); got != again || p.probe != nil {
			t.Errorf("got answer %v, probe %v; want again, and no reservation", got, p.probe)
		}
		if got := b.Stats().ProbesInFlight; got != 0 {
			t.Errorf("in flight: got %d, want 0", got)
		}
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// B5 for replicas (REQ-R9): the sampler probes, not a user's read.
func TestReservedProbesGoToAllowProbeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe.Reserved = true
		b := mustNew(t, c)
		if p, err := b.AllowProbe(); err != nil {
			t.Fatal("AllowProbe refused by a closed breaker")
		} else {
			p.DoneAs(Ignored, nil)
		}
		trip(t, b)
		if run(b, nil) {
			t.Fatal("Allow got a reserved probe")
		}
		p, err := b.AllowProbe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.AllowProbe(); !errors.Is(err, ErrOpen) {
			t.Errorf("second probe: got %v, want ErrOpen", err)
		}
		p.Done(nil)
		wantState(t, b, Closed)
	})
}
