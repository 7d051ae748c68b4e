package breaker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A dry rule reports once as long as it holds, and opens nothing.
func TestDryRunReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		c := slowConfig(DryRun{Rule: ConsecutiveFailures{Count: 3}}, DryRun{Rule: SlowCallRate{MinCalls: 2}},
			DryRun{Rule: Signal{Name: "lag", Trip: 0.5, Reenter: 0.2}})
		c.Observer.OnWouldOpen = func(w WouldOpen) { got = append(got, fmt.Sprint(w.Name, ": ", w.Reason.Rule)) }
		b := mustNew(t, c)
		runN(t, b, 6, errDown)
		runN(t, b, 1, nil)
		runN(t, b, 3, errDown)
		ps := startN(t, b, 2)
		after(100 * ms)
		doneAll(ps, nil)
		b.Observe("lag", 0.9)
		b.Observe("lag", 0.9)
		b.Observe("lag", 0.1)
		b.Observe("lag", 0.9)
		want := "[b: consecutive_failures b: consecutive_failures b: slow_call_rate b: lag b: lag]"
		if fmt.Sprint(got) != want {
			t.Errorf("got %v, want %v", got, want)
		}
		wantState(t, b, Closed)
		if s := b.Stats(); s.WouldOpen != 5 || s.Openings != 0 {
			t.Errorf("got %d would open, %d openings; want 5, 0", s.WouldOpen, s.Openings)
		}
		b.Trip(Reason{})
		after(time.Second)
		b.Observe("lag", 0.9) // keeps nothing from closing
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// REQ-B18: a panic in OnWouldOpen is reported.
func TestPanicInOnWouldOpen(t *testing.T) {
	var rec recorder
	c := slowConfig(DryRun{Rule: ConsecutiveFailures{Count: 1}})
	c.Observer = rec.observer()
	c.Observer.OnWouldOpen = func(WouldOpen) { panic("boom") }
	b := mustNew(t, c)
	runN(t, b, 1, errDown)
	if len(rec.faults) != 1 || rec.faults[0].Part != "OnWouldOpen" || rec.faults[0].Panic != "boom" {
		t.Errorf("faults: got %+v", rec.faults)
	}
}

// A dry rule that held when the state changed reports anew in the next closed.
func TestDryRunReportsAnewAfterAChange(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{DryRun{Rule: ConsecutiveFailures{Count: 1}}}})
	runN(t, b, 2, errDown)
	_ = b.Force(Closed, "")
	runN(t, b, 2, errDown)
	if got := b.Stats().WouldOpen; got != 2 {
		t.Errorf("reports: got %d, want one before and one after", got)
	}
}
