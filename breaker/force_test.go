package breaker

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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
