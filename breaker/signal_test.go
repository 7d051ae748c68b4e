package breaker

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func lagRule() Signal {
	return Signal{Name: "lag", Trip: 0.5, Reenter: 0.2, Breaches: 3, Unit: "s"}
}

func lagConfig() Config {
	return Config{
		Name:  "r1",
		Rules: []Rule{lagRule()},
		Open:  Backoff{Base: 2 * time.Second, Max: time.Minute, Jitter: -1},
	}
}

// late opens b by its lag and waits for half-open.
func late(t *testing.T, b *Breaker) {
	t.Helper()
	for range 3 {
		b.Observe("lag", 0.8)
	}
	wantState(t, b, Open)
	after(2 * time.Second)
	wantState(t, b, HalfOpen)
}

func TestBreachesMustBeInARow(t *testing.T) {
	b := mustNew(t, lagConfig())
	for range 10 {
		b.Observe("lag", 0.8)
		b.Observe("lag", math.Inf(1))
		b.Observe("lag", 0.5) // at the threshold is no breach
	}
	wantState(t, b, Closed)
}

func TestInfinityIsABreach(t *testing.T) { // REQ-R3
	b := mustNew(t, lagConfig())
	for range 3 {
		b.Observe("lag", math.Inf(1))
	}
	wantState(t, b, Open)
	if got, want := b.Stats().Reason.String(), "lag +Inf s > 0.5 s (3 in a row)"; got != want {
		t.Errorf("reason: got %q, want %q", got, want)
	}
}

func TestNaNAndUnknownSignalsAreFaultsAndChangeNothing(t *testing.T) {
	var rec recorder
	c := lagConfig()
	c.Observer = rec.observer()
	b := mustNew(t, c)
	b.Observe("lag", 0.8)
	b.Observe("lag", 0.8)
	b.Observe("lag", math.NaN())
	b.Observe("leg", 0.8)
	wantState(t, b, Closed)
	if len(rec.faults) != 2 || rec.faults[0].Part != "Observe" || rec.faults[1].Detail != `no Signal rule is named "leg"` {
		t.Errorf("faults: got %+v", rec.faults)
	}
	b.Observe("lag", 0.8) // the third in a row
	wantState(t, b, Open)
}

// REQ-B7.
func TestHysteresis(t *testing.T) {
	type step struct {
		lag   float64 // observed if above 0
		probe bool    // a successful one
		want  State
	}
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"no observation in half-open does not close", []step{{0, true, HalfOpen}}},
		{"no probe does not close", []step{{0.1, false, HalfOpen}}},
		{"probe, then low", []step{{0, true, HalfOpen}, {0.1, false, Closed}}},
		{"low, then probe", []step{{0.2, false, HalfOpen}, {0, true, Closed}}},
		{"between does neither", []step{{0.3, true, HalfOpen}, {0.5, true, HalfOpen}, {0.3, true, HalfOpen}, {0.2, false, Closed}}},
		{"the newest counts", []step{{0.1, false, HalfOpen}, {0.3, true, HalfOpen}, {0.2, false, Closed}}},
		{"one above trip opens again", []step{{0.1, false, HalfOpen}, {0.51, false, Open}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, lagConfig())
				late(t, b)
				for i, s := range tc.steps {
					if s.lag > 0 {
						b.Observe("lag", s.lag)
					}
					if s.probe {
						runN(t, b, 1, nil)
					}
					if got := b.State(); got != s.want {
						t.Fatalf("after step %d: got %v, want %v", i+1, got, s.want)
					}
				}
			})
		})
	}
}

func TestObservationsInOpenDecideNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, lagConfig())
		for range 3 {
			b.Observe("lag", 0.8)
		}
		b.Observe("lag", 9)
		b.Observe("lag", 0)
		wantState(t, b, Open)
		after(2 * time.Second)
		runN(t, b, 1, nil) // a low value from before says nothing about the recovery
		wantState(t, b, HalfOpen)
	})
}

// REQ-B7: after the longest time in half-open there is a verdict.
func TestLongestHalfOpenWithASignal(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*testing.T, *Breaker)
		want State
	}{
		{"nothing seen", func(*testing.T, *Breaker) {}, Open},
		{"no probe", func(_ *testing.T, b *Breaker) { b.Observe("lag", 0.1) }, Open},
		{"no observation", func(t *testing.T, b *Breaker) { t.Helper(); runN(t, b, 1, nil) }, Open},
		{"between and a probe", func(t *testing.T, b *Breaker) { t.Helper(); b.Observe("lag", 0.4); runN(t, b, 1, nil) }, Closed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, lagConfig())
				late(t, b)
				tc.do(t, b)
				wantState(t, b, HalfOpen)
				after(time.Minute - time.Nanosecond)
				wantState(t, b, HalfOpen)
				after(time.Nanosecond)
				wantState(t, b, tc.want)
				if tc.want == Open {
					if got := b.Stats(); got.OpenPeriod != 4*time.Second || got.Reason.Rule != RuleHalfOpenExpired {
						t.Errorf("got period %v, reason %v; want a failed recovery of 4s", got.OpenPeriod, got.Reason)
					}
				}
			})
		})
	}
}

// REQ-R11: an infinite trip threshold is the roll-back switch.
func TestInertSignalNeitherOpensNorHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lagConfig()
		c.Rules = []Rule{Signal{Name: "lag", Trip: math.Inf(1)}, ConsecutiveFailures{}}
		b := mustNew(t, c)
		for range 10 {
			b.Observe("lag", math.Inf(1))
		}
		wantState(t, b, Closed)
		runN(t, b, 5, errDown)
		wantState(t, b, Open)
		after(2 * time.Second)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

func TestTwoSignalsMustBothSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := lagConfig()
		c.Rules = append(c.Rules, Signal{Name: "load", Trip: 10, Reenter: 5})
		b := mustNew(t, c)
		late(t, b)
		runN(t, b, 1, nil)
		b.Observe("lag", 0.1)
		wantState(t, b, HalfOpen)
		b.Observe("load", 6)
		wantState(t, b, HalfOpen)
		b.Observe("load", 5)
		wantState(t, b, Closed)
	})
}

// REQ-B6, sticky: a lag that alternates makes the open periods grow.
func TestStickyPeriodsNeverShrinkWhileFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := lagConfig()
		c.Open.Sticky = 10 * time.Second
		c.Observer = rec.observer()
		b := mustNew(t, c)
		for range 4 {
			for range 3 {
				b.Observe("lag", 0.8)
			}
			wantState(t, b, Open)
			after(b.Stats().RetryAfter)
			b.Observe("lag", 0.1)
			runN(t, b, 1, nil)
			wantState(t, b, Closed)
			after(10 * time.Second) // exactly Sticky: still a relapse
		}
		want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
		if got := rec.periods(); !equal(got, want) {
			t.Errorf("open periods: got %v, want %v", got, want)
		}
		after(time.Nanosecond) // past Sticky: a clean close
		b.Trip(Reason{})
		if got := b.Stats().OpenPeriod; got != 2*time.Second {
			t.Errorf("open period after a clean close: got %v, want 2s", got)
		}
	})
}

func equal[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Sticky is off by default.
func TestCleanCloseResetsThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, lagConfig())
		late(t, b)
		b.Observe("lag", 0.8)
		if got := b.Stats().OpenPeriod; got != 4*time.Second {
			t.Errorf("period after a failed recovery: got %v, want 4s", got)
		}
		after(4 * time.Second)
		b.Observe("lag", 0.1)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
		b.Trip(Reason{})
		if got := b.Stats().OpenPeriod; got != 2*time.Second {
			t.Errorf("period after a clean close: got %v, want 2s", got)
		}
	})
}

func TestTripByEvidenceFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, lagConfig())
		r := Reason{Rule: "unreachable", Detail: "connection refused"}
		b.Trip(r)
		wantState(t, b, Open)
		if got := b.Stats().Reason; got != r {
			t.Errorf("reason: got %+v, want %+v", got, r)
		}
		generation := b.Stats().Generation
		b.Trip(Reason{Rule: "again"})
		if got := b.Stats(); got.Generation != generation || got.Reason != r {
			t.Errorf("Trip in open changed something: %+v", got)
		}
		after(2 * time.Second)
		b.Trip(r)
		wantState(t, b, Open)
		if got := b.Stats().OpenPeriod; got != 4*time.Second {
			t.Errorf("period: got %v, want that of a failed recovery, 4s", got)
		}
	})
}
