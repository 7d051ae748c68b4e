package breaker

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An outage of long ago is forgotten when TripFor opens, as it is when a rule does: the probe that failed
// after it doubled the last period of that outage.
func TestTripForAfterACleanCloseBeginsAtBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := behaviourConfig()
		c.Observer = rec.observer()
		b := mustNew(t, c)
		trip(t, b)
		for _, period := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second} {
			run(b, errDown) // a failed recovery
			after(period)
		}
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
		after(24 * time.Hour)
		b.TripFor(3*time.Second, Reason{})
		after(3 * time.Second)
		wantState(t, b, HalfOpen)
		run(b, errDown)
		wantState(t, b, Open)
		if got := b.Stats().OpenPeriod; got > 2*time.Second {
			t.Errorf("period after TripFor, a day after the outage: got %v of %v, want 1s", got, rec.periods())
		}
	})
}

// While TripFor holds the breaker open, its period is the newest one, also for the transition that ends it.
func TestTripForIsTheNewestPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends time.Duration
		c := behaviourConfig()
		c.Observer.OnTransition = func(tr Transition) {
			if tr.From == Open {
				ends = tr.OpenPeriod
			}
		}
		b := mustNew(t, c)
		b.TripFor(3*time.Second, Reason{})
		if got := b.Stats().OpenPeriod; got != 3*time.Second {
			t.Errorf("Stats.OpenPeriod: got %v, want 3s", got)
		}
		after(3 * time.Second)
		if ends != 3*time.Second {
			t.Errorf("Transition.OpenPeriod of the end: got %v, want 3s", ends)
		}
	})
}

// A histogram that was switched off and on again begins anew: Stats subtracted from it what the old one had counted.
func TestHistogramSwitchedOffAndOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Histogram = true
		b := mustNew(t, c)
		runN(t, b, 10, nil)
		b.Stats()
		after(time.Minute)
		b.Stats()
		for _, on := range []bool{false, true} {
			c.Histogram = on
			if err := b.Reconfigure(c); err != nil {
				t.Fatal(err)
			}
			after(time.Minute)
		}
		runN(t, b, 3, nil)
		if got := b.Stats().Latency; got.Calls != 3 || got.Span != time.Minute {
			t.Errorf("got %+v, want 3 calls in 1m", got)
		}
	})
}

// The span begins when the histogram does, not with the clock's base: that of a Set is older than its breakers.
func TestHistogramOfASetSpansItsOwnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := NewSet(SetConfig[string]{Config: Config{Histogram: true}})
		if err != nil {
			t.Fatal(err)
		}
		after(time.Hour)
		b := set.Get("late")
		after(time.Second)
		runN(t, b, 1, nil)
		if got := b.Stats().Latency; got.Span != time.Second {
			t.Errorf("span: got %v, want 1s", got.Span)
		}
	})
}

// A dry rule that holds does not report again because the breaker was reconfigured.
func TestDryRunReportsOnceAcrossReconfigure(t *testing.T) {
	c := behaviourConfig()
	c.Rules = []Rule{ConsecutiveFailures{Count: 100}, DryRun{Rule: ConsecutiveFailures{Count: 1}}}
	b := mustNew(t, c)
	for range 3 {
		runN(t, b, 2, errDown)
		if err := b.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.Stats().WouldOpen; got != 1 {
		t.Errorf("got %d reports, want 1", got)
	}
}

// The smallest Healthy made the weight of a slow call infinite, and 0 of those no number: a healthy tick opened.
func TestCUSUMOfTheSmallestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(CUSUM{Healthy: math.SmallestNonzeroFloat64, Sick: 1 - 0x1p-53, Limit: 1000}))
		for range 20 {
			runN(t, b, 3, nil)
			after(time.Second)
		}
		wantState(t, b, Closed)
	})
}

// Bad input is named, not a panic.
func TestDryRunOfANilPointer(t *testing.T) {
	for _, r := range []Rule{(*SlowCallRate)(nil), (*Percentile)(nil), (*FailureRateByTime)(nil), (*CUSUM)(nil), &CUSUM{}, nil} {
		_, err := New(Config{Rules: []Rule{DryRun{Rule: r}}, Calls: Calls{Timeout: time.Second}})
		if err == nil || !strings.Contains(err.Error(), "Rules[0].Rule") {
			t.Errorf("%T: got %v, want that Rules[0].Rule is named", r, err)
		}
	}
}
