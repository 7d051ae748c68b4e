package breaker

import (
	"context"
	"runtime"
	"slices"
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

// behaviours-breaker 42: ten classifications run at once. No one ends before all have
// begun, so under a lock none would ever end.
func TestClassifierRunsWithoutALock(t *testing.T) {
	const calls = 10
	hung, stop := context.WithTimeout(t.Context(), 10*time.Second) // runs out only where it fails
	defer stop()
	var begun, ended sync.WaitGroup
	begun.Add(calls)
	all := make(chan struct{})
	go func() { begun.Wait(); close(all) }()
	b := mustNew(t, Config{Classify: func(error) Outcome {
		begun.Done()
		select {
		case <-all:
		case <-hung.Done():
		}
		return Ignored
	}})
	for range calls {
		ended.Go(func() { run(b, errDown) })
	}
	ended.Wait()
	if hung.Err() != nil {
		t.Errorf("a classification waited for another to end, of %d at once", calls)
	}
}
