package breaker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

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

// Each function of the Observer that is nil keeps the one before.
func TestReconfigureKeepsTheObserver(t *testing.T) {
	told := 0
	rule := DryRun{Rule: ConsecutiveFailures{Count: 1}}
	b := mustNew(t, Config{Rules: []Rule{rule}, Observer: Observer{
		OnTransition: func(Transition) { told++ },
		OnWouldOpen:  func(WouldOpen) { told += 10 },
		OnFault:      func(Fault) { told += 100 },
	}})
	reconfigure(t, b, Config{Rules: []Rule{rule}})
	run(b, errDown)
	b.Observe("nobody", 1)
	b.Trip(Reason{})
	if told != 111 {
		t.Errorf("got %d, want 111: each of the three told once", told)
	}
}
