package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

// A dry rule that holds reports once, though other rules are judged meanwhile: a failure ended
// the report of a dry Signal, and each tick of calls that of a dry latency rule.
func TestDryRunReportsOnceAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(DryRun{Rule: Signal{Name: "lag", Trip: 0.5, Reenter: 0.2}},
			DryRun{Rule: SlowCallRate{MinCalls: 2}}, DryRun{Rule: CUSUM{Limit: 1}},
			DryRun{Rule: Percentile{Span: 100 * ms, Windows: 1, MinCalls: 1}}))
		want := func(n uint64) {
			t.Helper()
			if got := b.Stats().WouldOpen; got != n {
				t.Fatalf("got %d reports, want %d", got, n)
			}
		}
		b.Observe("lag", 0.9)
		runN(t, b, 1, errDown)
		b.Observe("lag", 0.9)
		want(1)
		for range 10 {
			ps := startN(t, b, 3)
			after(200 * ms)
			doneAll(ps, nil)
		}
		want(4)
	})
}

// What a dry rule says in ForcedClosed is not reported: no rule opens there.
func TestDryRunIsSilentInForcedClosed(t *testing.T) {
	b := mustNew(t, slowConfig(DryRun{Rule: ConsecutiveFailures{Count: 1}}, DryRun{Rule: Signal{Name: "lag", Trip: 0.5, Reenter: 0.2}}))
	if err := b.Force(ForcedClosed, ""); err != nil {
		t.Fatal(err)
	}
	runN(t, b, 3, errDown)
	b.Observe("lag", 0.9)
	if s := b.Stats(); s.WouldOpen != 0 {
		t.Errorf("got %d reports, want 0", s.WouldOpen)
	}
}

// After an idle time the ticks are judged in the order of time, wherever they lie in the ring: a call
// of the first window counted in the next one. Found by dev/breakermodel.
func TestTicksAreJudgedInOrderAfterIdle(t *testing.T) {
	l := newLatencyWindow(8<<20, 0) // ticks of 2^20 ns
	for idle := range 2 * latencyTicks {
		l.forget()
		for tick := range 4 {
			l.begin(time.Duration(tick) << 20)
		}
		var got []time.Duration
		l.harvest(time.Duration(latencyTicks+idle)<<20, func(r ripe) bool {
			got = append(got, r.at>>20)
			return false
		})
		for i, tick := range got {
			if tick != time.Duration(i) || len(got) != 4 {
				t.Fatalf("%d ticks later: got ticks %v, want 0 to 3", latencyTicks+idle, got)
			}
		}
	}
}
