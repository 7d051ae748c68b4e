package breaker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// REQ-B9: a Retry-After sets the earliest next attempt, within Base and Max.
func TestTripForOpensForThatTime(t *testing.T) {
	for name, tc := range map[string]struct{ asked, want time.Duration }{
		"as asked":       {asked: 7 * time.Second, want: 7 * time.Second},
		"at least Base":  {asked: time.Millisecond, want: time.Second},
		"at most Max":    {asked: time.Hour, want: 30 * time.Second},
		"nothing at all": {asked: -time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				c := behaviourConfig()
				c.Observer = rec.observer()
				b := mustNew(t, c)
				b.TripFor(tc.asked, Reason{Rule: "retry_after"})
				wantState(t, b, Open)
				if got := b.Stats().OpenPeriod; got != tc.want {
					t.Errorf("open period in Stats: got %v, want %v", got, tc.want)
				}
				after(tc.want - time.Nanosecond)
				wantState(t, b, Open)
				after(time.Nanosecond)
				wantState(t, b, HalfOpen)
				if last := rec.transitions[len(rec.transitions)-1]; last.OpenPeriod != tc.want {
					t.Errorf("the transition that ends it: got %v, want %v", last.OpenPeriod, tc.want)
				}
			})
		})
	}
}

// The periods of failed recoveries go on as if it had not been.
func TestTripForIsNoFailedRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := behaviourConfig()
		c.Observer = rec.observer()
		b := mustNew(t, c)
		trip(t, b)                          // 1 s
		b.TripFor(10*time.Second, Reason{}) // from half-open
		after(10 * time.Second)
		run(b, errDown) // the probe: 2 s
		synctest.Wait()
		want := []time.Duration{time.Second, 10 * time.Second, 2 * time.Second}
		if got := rec.periods(); len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Errorf("open periods: got %v, want %v", got, want)
		}
	})
}

func TestTripForLengthensAnOpenPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		b.Trip(Reason{}) // 1 s
		b.TripFor(5*time.Second, Reason{})
		b.TripFor(2*time.Second, Reason{}) // sooner: changes nothing
		_, err := b.Allow()
		open, ok := errors.AsType[*OpenError](err)
		if !ok || open.RetryAfter() != 5*time.Second {
			t.Errorf("got %v, want a refusal for 5s", err)
		}
		after(5*time.Second - time.Nanosecond)
		wantState(t, b, Open)
		after(time.Nanosecond)
		wantState(t, b, HalfOpen)
	})
}
