package breaker

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// behaviours-breaker 40; REQ-B14.
func TestObserverMayUseTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *Breaker
		var seen []string
		c := behaviourConfig()
		c.Observer.OnTransition = func(tr Transition) {
			seen = append(seen, tr.From.String()+">"+tr.To.String())
			if b.State() != tr.To {
				t.Errorf("state in the callback: got %v, want %v", b.State(), tr.To)
			}
			b.Stats()
			if p, err := b.Allow(); err == nil {
				p.DoneAs(Ignored, nil)
			}
		}
		b = mustNew(t, c)
		trip(t, b)
		runN(t, b, 1, nil)
		want := []string{"closed>open", "open>half_open", "half_open>closed"}
		if !slices.Equal(seen, want) {
			t.Errorf("transitions: got %v, want %v", seen, want)
		}
	})
}

// A transition made inside a callback is told after it, not within.
func TestTransitionInsideACallbackIsToldInOrder(t *testing.T) {
	var b *Breaker
	var seen []State
	inside := false
	c := Config{Observer: Observer{OnTransition: func(tr Transition) {
		if inside {
			t.Error("callback within a callback")
		}
		inside = true
		seen = append(seen, tr.To)
		if tr.To == Open {
			if err := b.Force(ForcedClosed, "no"); err != nil {
				t.Error(err)
			}
		}
		inside = false
	}}}
	b = mustNew(t, c)
	b.Trip(Reason{})
	if want := []State{Open, ForcedClosed}; !slices.Equal(seen, want) {
		t.Errorf("got %v, want %v", seen, want)
	}
}

// behaviours-breaker 41; REQ-B18.
func TestObserverThatPanicsStrandsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := behaviourConfig()
		c.Observer = rec.observer()
		note := c.Observer.OnTransition
		c.Observer.OnTransition = func(tr Transition) {
			note(tr)
			if tr.To == Open {
				panic("listener")
			}
		}
		b := mustNew(t, c)
		trip(t, b)
		if got := rec.path(); got != "open half_open" {
			t.Errorf("transitions: got %q, want %q", got, "open half_open")
		}
		if len(rec.faults) != 1 || rec.faults[0].Part != "OnTransition" || rec.faults[0].Panic != "listener" {
			t.Errorf("faults: got %+v, want the listener's panic", rec.faults)
		}
	})
}

func TestFaultObserverThatPanicsIsCountedOnly(t *testing.T) {
	c := lagConfig()
	c.Observer.OnFault = func(Fault) { panic("again") }
	b := mustNew(t, c)
	b.Observe("nobody", 1)
	b.Observe("nobody", 1)
	if got := b.Stats().Faults; got != 4 {
		t.Errorf("faults: got %d, want 4: two values and two panics", got)
	}
}

// An observer that ends its goroutine (a t.FailNow) strands nothing either.
func TestObserverThatCallsGoexitStrandsNothing(t *testing.T) {
	var rec recorder
	var b *Breaker
	c := Config{Observer: rec.observer()}
	note := c.Observer.OnTransition
	c.Observer.OnTransition = func(tr Transition) {
		note(tr)
		if tr.To == Open {
			_ = b.Force(Disabled, "queued behind")
			runtime.Goexit()
		}
	}
	b = mustNew(t, c)
	var wg sync.WaitGroup
	wg.Go(func() { b.Trip(Reason{}) })
	wg.Wait()
	if got, want := rec.path(), "open disabled"; got != want {
		t.Errorf("transitions told before the next event: got %q, want %q", got, want)
	}
	_ = b.Force(Closed, "")
	if got, want := rec.path(), "open disabled closed"; got != want {
		t.Errorf("transitions: got %q, want %q", got, want)
	}
}

// While an observer is busy faults beyond 64 are counted only, and no
// transition is lost.
func TestWaitingFaultsAreBounded(t *testing.T) {
	var rec recorder
	var b *Breaker
	c := lagConfig()
	c.Observer = rec.observer()
	note := c.Observer.OnTransition
	c.Observer.OnTransition = func(tr Transition) {
		note(tr)
		if tr.To != Open {
			return
		}
		for range 1000 {
			b.Observe("nobody", 1)
		}
		_ = b.Force(ForcedOpen, "")
	}
	b = mustNew(t, c)
	b.Trip(Reason{})
	if got := rec.path(); got != "open forced_open" {
		t.Errorf("transitions: got %q, want %q", got, "open forced_open")
	}
	if got := b.Stats().Faults; got != 1000 || len(rec.faults) != maxWaitingFaults {
		t.Errorf("faults: got %d counted, %d told; want 1000, %d", got, len(rec.faults), maxWaitingFaults)
	}
}

// behaviours-breaker 42: under a lock the ten would take 200 ms.
func TestClassifierRunsWithoutALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Classify: func(error) Outcome { time.Sleep(20 * time.Millisecond); return Ignored }})
		began := time.Now()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { run(b, errDown) })
		}
		wg.Wait()
		if got := time.Since(began); got >= 60*time.Millisecond {
			t.Errorf("ten parallel classifications took %v, want under 60ms", got)
		}
	})
}

// behaviours-breaker 44, first half: nothing keeps a goroutine or memory.
func TestDroppedBreakersLeaveNothing(t *testing.T) {
	before, heap := runtime.NumGoroutine(), heapInUse()
	for i := range 10_000 {
		c := lagConfig()
		c.Open = Backoff{Base: time.Hour, Max: time.Hour}
		c.Rules = append(c.Rules, ConsecutiveFailures{}, FailureRateByCount{}, FailureRateByTime{})
		b := mustNew(t, c)
		run(b, errDown)
		switch i % 3 {
		case 0:
			b.Trip(Reason{}) // its timer is pending
		case 1:
			b.Trip(Reason{})
			b.wake(1) // half-open, with the timer of Longest
		}
	}
	for i := 0; i < 1_000_000 && runtime.NumGoroutine() > before; i++ {
		runtime.Gosched() // a timer of an earlier test may be at work just now
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("goroutines: got %d, want %d", got, before)
	}
	if got := int64(heapInUse()) - int64(heap); got > 5<<20 { // with the breakers it would be over 20 MB
		t.Errorf("heap grew by %d bytes after 10,000 breakers were dropped, want under 5 MB", got)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// behaviours-breaker 46; REQ-B16.
func TestReconfigureKeepsStateWindowsAndListeners(t *testing.T) {
	var rec recorder
	c := Config{Rules: []Rule{ConsecutiveFailures{Count: 5}}, Observer: rec.observer(), Classify: classifyTest}
	b := mustNew(t, c)
	runN(t, b, 3, errDown)
	reconfigure(t, b, Config{Rules: []Rule{ConsecutiveFailures{Count: 3}}})
	wantState(t, b, Closed) // decided at the next result
	runN(t, b, 1, errNeutral)
	wantState(t, b, Closed) // Classify was kept too
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
	if got := b.Stats().Reason.Value; got != 4 {
		t.Errorf("failures in a row at the opening: got %v, want 4", got)
	}
	if got := rec.path(); got != "open" {
		t.Errorf("transitions: got %q, want open", got)
	}
}

// The sequence of the item as written: the result after it is a success.
func TestReconfigureThenASuccessEndsTheRow(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{ConsecutiveFailures{Count: 5}}})
	runN(t, b, 3, errDown)
	reconfigure(t, b, Config{Rules: []Rule{ConsecutiveFailures{Count: 3}}})
	runN(t, b, 1, nil)
	runN(t, b, 2, errDown)
	wantState(t, b, Closed)
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
}

func reconfigure(t *testing.T, b *Breaker, c Config) {
	t.Helper()
	if err := b.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
}

func TestReconfigureKeepsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ before, after Rule }{
			{FailureRateByCount{Calls: 20}, FailureRateByCount{Calls: 100, MinCalls: 20}},
			{FailureRateByCount{Calls: 100}, FailureRateByCount{Calls: 20}},
			{FailureRateByTime{}, FailureRateByTime{Span: 20 * time.Second}},
			{FailureRateByTime{Span: 100 * time.Second}, FailureRateByTime{}},
			{Signal{Name: "lag", Trip: 1, Reenter: 1, Breaches: 9}, Signal{Name: "lag", Trip: 1, Reenter: 1, Breaches: 3}},
		} {
			b := mustNew(t, Config{Rules: []Rule{tc.before}})
			runN(t, b, 9, nil)
			runN(t, b, 10, errDown)
			b.Observe("lag", 2)
			b.Observe("lag", 2)
			reconfigure(t, b, Config{Rules: []Rule{ConsecutiveFailures{Count: 1000}, tc.after}})
			wantState(t, b, Closed)
			runN(t, b, 1, errDown) // 11 of 20
			b.Observe("lag", 2)
			wantState(t, b, Open)
		}
	})
}

func TestReconfigureToAShorterSpanForgetsWhatIsOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Rules: []Rule{FailureRateByTime{Span: 100 * time.Second, MinCalls: 20}}})
		runN(t, b, 19, errDown)
		after(35 * time.Second)
		reconfigure(t, b, Config{Rules: []Rule{FailureRateByTime{MinCalls: 20}}})
		runN(t, b, 19, errDown) // with those of 35 s ago there would be 38
		wantState(t, b, Closed)
		runN(t, b, 1, errDown)
		wantState(t, b, Open)
	})
}

// Growing a count window does not invent successes for what it forgot.
func TestReconfigureToALongerWindowKnowsOnlyWhatWasKept(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{FailureRateByCount{Calls: 10, MinCalls: 10}}})
	runN(t, b, 1000, nil)
	runN(t, b, 5, errDown) // 5 of the last 10
	reconfigure(t, b, Config{Rules: []Rule{FailureRateByCount{Calls: 1000, MinCalls: 10}}})
	runN(t, b, 1, errDown) // 6 of the 11 that are known
	wantState(t, b, Open)
}

// Failures that had left the old window do not come back in a longer one.
func TestReconfigureToALongerWindowRevivesNothing(t *testing.T) {
	rule := FailureRateByCount{Calls: 10, Rate: 0.3, MinCalls: 10}
	b := mustNew(t, Config{Rules: []Rule{rule}})
	runN(t, b, 100, nil)
	runN(t, b, 3, errDown)
	runN(t, b, 10, nil) // the failures have left, unseen
	rule.Calls = 1000
	reconfigure(t, b, Config{Rules: []Rule{rule}})
	runN(t, b, 1, errDown)
	wantState(t, b, Closed) // 1 of 11, not 4 of 11
}

func TestReconfigureAppliesToTheNextOpeningAndToProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		b := mustNew(t, c)
		trip(t, b)
		first := start(t, b)
		c.Probe.Concurrent = 2
		c.Open.Base = 3 * time.Second
		reconfigure(t, b, c)
		wantState(t, b, HalfOpen)
		second := start(t, b)
		if run(b, nil) {
			t.Error("a third probe ran")
		}
		c.Probe.Concurrent = 1
		reconfigure(t, b, c)
		if run(b, nil) {
			t.Error("a probe ran beside the two")
		}
		second.DoneAs(Ignored, nil)
		if run(b, nil) {
			t.Error("a second probe ran after Concurrent was lowered")
		}
		first.Done(errDown)
		if got := b.Stats(); got.State != Open || got.OpenPeriod != 3*time.Second {
			t.Errorf("got %v for %v, want open for 3s, at least the new Base", got.State, got.OpenPeriod)
		}
	})
}

func TestReconfigureWithFaultsChangesNothing(t *testing.T) {
	b := mustNew(t, Config{Name: "a", Rules: []Rule{ConsecutiveFailures{Count: 3}}})
	runN(t, b, 2, errDown)
	err := b.Reconfigure(Config{Name: "b", Rules: []Rule{ConsecutiveFailures{Count: -1}}, Open: Backoff{Base: -1}})
	wantErrors(t, err, "Name is b", "Rules[0].Count is -1", "Open.Base is -1ns")
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
}

func wantErrors(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	if got := strings.Count(err.Error(), "\n") + 1; got != len(wants) {
		t.Errorf("faults: got %d, want %d:\n%v", got, len(wants), err)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

// REQ-B1.
func TestForcedStates(t *testing.T) {
	for _, tc := range []struct {
		state           State
		runs            bool
		failures, stays uint64
	}{
		{ForcedOpen, false, 0, 0},
		{ForcedClosed, true, 10, 0},
		{Disabled, true, 0, 0},
	} {
		t.Run(tc.state.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := lagConfig()
				c.Rules = append(c.Rules, ConsecutiveFailures{})
				b := mustNew(t, c)
				if err := b.Force(tc.state, "drill"); err != nil {
					t.Fatal(err)
				}
				for range 10 {
					if got := run(b, errDown); got != tc.runs {
						t.Fatalf("runs: got %v, want %v", got, tc.runs)
					}
					b.Observe("lag", 1)
				}
				b.Trip(Reason{})
				after(time.Hour)
				wantState(t, b, tc.state)
				s := b.Stats()
				if s.Failures != tc.failures || s.Reason != (Reason{Rule: RuleForced, Detail: "drill"}) {
					t.Errorf("got %d failures, reason %v; want %d, forced (drill)", s.Failures, s.Reason, tc.failures)
				}
				if err := b.Force(Closed, "over"); err != nil {
					t.Fatal(err)
				}
				runN(t, b, 4, errDown) // starts clean
				wantState(t, b, Closed)
				runN(t, b, 1, errDown)
				wantState(t, b, Open)
			})
		})
	}
}

func TestForcedOpenSaysWhyAndNotWhen(t *testing.T) {
	b := mustNew(t, Config{Name: "a"})
	if err := b.Force(ForcedOpen, "maintenance"); err != nil {
		t.Fatal(err)
	}
	_, err := b.Allow()
	refusal, ok := errors.AsType[*OpenError](err)
	if !ok || refusal.State != ForcedOpen || refusal.RetryAfter() != 0 {
		t.Fatalf("got %+v, want an OpenError of forced_open with no time", err)
	}
	if got, want := err.Error(), `breaker: "a" is forced_open: forced (maintenance)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestForceRefusesWhatNobodyCanForce(t *testing.T) {
	b := mustNew(t, Config{})
	for _, s := range []State{Open, HalfOpen, State(9)} {
		if err := b.Force(s, ""); err == nil || !strings.Contains(err.Error(), s.String()) {
			t.Errorf("Force(%v): got %v, want an error that names it", s, err)
		}
	}
	wantState(t, b, Closed)
}

// A timer of a state that was forced away does nothing.
func TestForceStopsTheTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := lagConfig()
		c.Observer = rec.observer()
		b := mustNew(t, c)
		b.Trip(Reason{})
		_ = b.Force(Closed, "")
		after(time.Hour)
		if got := rec.path(); got != "open closed" {
			t.Errorf("transitions: got %q, want %q", got, "open closed")
		}
		b.Trip(Reason{})
		b.wake(1) // of the opening before, too late to be stopped
		wantState(t, b, Open)
		_ = b.Force(Closed, "")
		_ = b.Force(Closed, "already")
		if got := rec.path(); got != "open closed open closed" {
			t.Errorf("forcing closed again is no transition, got %q", got)
		}
	})
}

// Calls from before a Force count for nothing after it.
func TestForceDropsCallsUnderWay(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{ConsecutiveFailures{Count: 1}}})
	p := start(t, b)
	_ = b.Force(Closed, "clean")
	p.Done(errDown)
	wantState(t, b, Closed)
}

// behaviours-breaker 47; REQ-B6: openings double up to the cap.
func TestOpenPeriodsDoubleUpToMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		b := mustNew(t, Config{
			Open:     Backoff{Base: 10 * time.Second, Max: 300 * time.Second, Jitter: -1},
			Observer: rec.observer(),
		})
		runN(t, b, 5, errDown)
		probes := 0
		for began := time.Now(); time.Since(began) < time.Hour; after(time.Second) {
			if run(b, errDown) {
				probes++
			}
		}
		got := rec.periods()
		var want []time.Duration
		for _, s := range []int{10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("open periods: got %v, want %v", got, want)
		}
		if probes < 14 || probes > 17 {
			t.Errorf("probes in an hour: got %d, want about 16", probes)
		}
	})
}

// behaviours-breaker 48; known mistake 1: jitter is drawn once an opening.
func TestJitterSpreadsProbesAndIsDrawnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, limit = 10 * time.Second, 2 * time.Second
		lowest, highest := time.Hour, time.Duration(0)
		for range 1000 {
			b := mustNew(t, Config{Open: Backoff{Base: period, Jitter: limit}})
			b.Trip(Reason{})
			left := b.Stats().RetryAfter
			for range 100 {
				if again := b.Stats().RetryAfter; again != left {
					t.Fatalf("asked again at the same instant: got %v, want %v", again, left)
				}
			}
			lowest, highest = min(lowest, left), max(highest, left)
		}
		if lowest < period || highest > period+limit || highest-lowest < period*15/100 {
			t.Errorf("openings from %v to %v, want within 10s to 12s and spread over at least 1.5s", lowest, highest)
		}
	})
}

// The opening ends when RetryAfter said, jitter included.
func TestRetryAfterIsTheTimeLeft(t *testing.T) { // REQ-B4
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{})
		b.Trip(Reason{})
		_, err := b.Allow()
		refusal, ok := errors.AsType[*OpenError](err)
		if !ok {
			t.Fatalf("got %v, want an OpenError", err)
		}
		left := refusal.RetryAfter()
		after(400 * time.Millisecond)
		if got, want := refusal.RetryAfter(), left-400*time.Millisecond; got != want {
			t.Errorf("after 400ms: got %v, want %v", got, want)
		}
		after(left - 400*time.Millisecond - time.Nanosecond)
		wantState(t, b, Open)
		after(time.Nanosecond)
		wantState(t, b, HalfOpen)
		if got := refusal.RetryAfter(); got != 0 {
			t.Errorf("after the period: got %v, want 0", got)
		}
	})
}

// REQ-B18: a clock that jumps never blocks traffic for good.
func TestImpossibleClock(t *testing.T) {
	clk := &fakeClock{now: 100 * time.Hour}
	b, err := newBreaker(Config{Rules: []Rule{FailureRateByTime{MinCalls: 5}}, Open: Backoff{Jitter: -1}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	clk.now -= 150*time.Hour + 3*time.Second // before its own base
	runN(t, b, 5, errDown)
	wantState(t, b, Open)
	refusal := b.refusal.Load()
	clk.now -= 10 * time.Hour
	if got := refusal.RetryAfter(); got != time.Second {
		t.Errorf("RetryAfter: got %v, want at most the period of 1s", got)
	}
	clk.advance(20 * time.Hour)
	wantState(t, b, HalfOpen)
	start(t, b)              // a probe that is lost
	clk.now -= 3 * time.Hour // and its lease would last for hours
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
}
