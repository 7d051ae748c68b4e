package breaker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func rampConfig() Config {
	c := behaviourConfig()
	c.Ramp = Ramp{For: 10 * time.Second}
	return c
}

func recovered(t *testing.T, b *Breaker) {
	t.Helper()
	b.Trip(Reason{})
	after(time.Second)
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
}

func admitted(b *Breaker, calls int, err error) (n int) {
	for range calls {
		if run(b, err) {
			n++
		}
	}
	return n
}

// behaviours-breaker 19: traffic comes back by degrees, a deterministic share of it.
func TestRampAdmitsAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, rampConfig())
		recovered(t, b)
		for _, tc := range []struct {
			after time.Duration
			want  int // of 1000: from 10 %, 9 % more each second
		}{{0, 100}, {time.Second, 190}, {4 * time.Second, 550}, {5*time.Second - 1, 999}} {
			after(tc.after)
			if got := admitted(b, 1000, nil); got < tc.want-1 || got > tc.want+1 {
				t.Errorf("after %v more: got %d of 1000, want %d", tc.after, got, tc.want)
			}
		}
		after(1)
		if got := admitted(b, 1000, nil); got != 1000 {
			t.Errorf("after the ramp: got %d of 1000", got)
		}
		if b.loadWord()&rampFlag != 0 {
			t.Error("the ramp is over, its flag is not")
		}
	})
}

// The refusal says what happens.
func TestRampRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, rampConfig())
		recovered(t, b)
		runN(t, b, 1, nil) // the first call is admitted
		_, err := b.Allow()
		open, ok := errors.AsType[*OpenError](err)
		if !ok || open.State != Closed || open.RetryAfter() != 0 {
			t.Fatalf("got %v", err)
		}
		if want := `breaker: "b" is taking its traffic back by degrees after it opened: external`; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
		s := b.Stats()
		if s.RampShare != 0.1 || s.Rejected != 1 {
			t.Errorf("share %v, rejected %d; want 0.1, 1", s.RampShare, s.Rejected)
		}
	})
}

// Too many failures while traffic ramps up open again, as after a failed recovery.
func TestFailuresInTheRampOpenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		c := rampConfig()
		c.Rules = []Rule{FailureRateByTime{MinCalls: 1000}} // would not
		c.Observer = rec.observer()
		b := mustNew(t, c)
		recovered(t, b)
		after(5 * time.Second)
		admitted(b, 100, errDown)
		wantState(t, b, Open)
		if r := b.Stats().Reason; r.Rule != RuleRampFailures || r.Value != 1 || r.Threshold != 0.5 {
			t.Errorf("reason: got %+v", r)
		}
		if ds := rec.periods(); len(ds) != 2 || ds[1] != 2*time.Second {
			t.Errorf("periods: got %v, want 1s, 2s", ds)
		}
	})
}

// Without traffic the ramp ends by itself, a forced state ends it at once, and Force(Closed) begins none.
func TestRampEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, rampConfig())
		recovered(t, b)
		_ = b.Force(ForcedClosed, "")
		if got := admitted(b, 100, nil); got != 100 {
			t.Errorf("forced closed: got %d of 100", got)
		}
		_ = b.Force(Closed, "")
		if got := admitted(b, 100, nil); got != 100 {
			t.Errorf("given back: got %d of 100", got)
		}
		recovered(t, b)
		c := rampConfig()
		c.Ramp = Ramp{}
		if err := b.Reconfigure(c); err != nil {
			t.Fatal(err)
		}
		if got := admitted(b, 100, nil); got != 100 {
			t.Errorf("ramp switched off: got %d of 100", got)
		}
	})
}

// behaviours-breaker 16: one bad probe among many good ones does not open again.
func TestVerdictByRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe = Probe{Of: 20, Rate: 0.9, Concurrent: 20}
		b := mustNew(t, c)
		trip(t, b)
		runN(t, b, 1, errDown)
		runN(t, b, 17, nil)
		wantState(t, b, HalfOpen)
		runN(t, b, 1, nil) // the eighteenth: 90 % is reached
		wantState(t, b, Closed)
		if r := b.Stats().Reason; r.Value != 18 || r.Threshold != 18 || r.Detail != "of 20 probes" {
			t.Errorf("reason: got %+v", r)
		}

		trip(t, b)
		runN(t, b, 2, errDown)
		runN(t, b, 17, nil)
		wantState(t, b, HalfOpen)
		runN(t, b, 1, errDown) // the third: 90 % is out of reach
		wantState(t, b, Open)
	})
}

// behaviours-breaker 39: with a verdict by rate ignored probes delay nothing either.
func TestVerdictByRateIgnoresTheIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Probe = Probe{Of: 2, Rate: 0.5}
		b := mustNew(t, c)
		trip(t, b)
		runN(t, b, 100, errNeutral)
		wantState(t, b, HalfOpen)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
		trip(t, b)
		p := start(t, b)
		p.DoneAs(Fatal, errDown) // proves it
		wantState(t, b, Open)
	})
}

func TestNeedOfAVerdictByRate(t *testing.T) {
	for _, tc := range []struct {
		of   int
		rate float64
		want int
	}{{20, 0.9, 18}, {10, 0.9, 9}, {3, 0.5, 2}, {100, 0.29, 29}, {1, 0.1, 1}, {7, 1, 7}, {1_000_000, 0.999999, 999_999}} {
		if got := (Probe{Of: tc.of, Rate: tc.rate}).need(); got != tc.want {
			t.Errorf("%d of rate %v: got %d, want %d", tc.of, tc.rate, got, tc.want)
		}
	}
}

// behaviours-breaker 9: the verdict of a half-open that lasts too long is chosen.
func TestExpiry(t *testing.T) {
	for name, tc := range map[string]struct {
		probe      Probe
		good, bad  int
		want       State
		wantReason string
	}{
		"nothing seen, by evidence":       {Probe{}, 0, 0, HalfOpen, RuleOpenPeriodOver},
		"nothing seen, open":              {Probe{Expiry: ExpireOpen}, 0, 0, Open, RuleHalfOpenExpired},
		"nothing seen, closed":            {Probe{Expiry: ExpireClosed}, 0, 0, Closed, RuleRecovered},
		"rate holds, by evidence":         {Probe{Of: 100, Rate: 0.5}, 3, 2, Closed, RuleRecovered},
		"rate does not hold, by evidence": {Probe{Of: 100, Rate: 0.5}, 2, 3, Open, RuleHalfOpenExpired},
		"rate holds, open all the same":   {Probe{Of: 100, Rate: 0.5, Expiry: ExpireOpen}, 3, 2, Open, RuleHalfOpenExpired},
		"in a row, by evidence":           {Probe{Successes: 10}, 3, 0, Closed, RuleRecovered},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := behaviourConfig()
				c.Open.Base = 3 * time.Second
				tc.probe.Longest = 2 * time.Second
				c.Probe = tc.probe
				b := mustNew(t, c)
				b.Trip(Reason{})
				after(3 * time.Second)
				runN(t, b, tc.good, nil)
				runN(t, b, tc.bad, errDown)
				wantState(t, b, HalfOpen)
				after(2 * time.Second)
				wantState(t, b, tc.want)
				if got := b.Stats().Reason.Rule; got != tc.wantReason {
					t.Errorf("reason: got %s, want %s", got, tc.wantReason)
				}
			})
		})
	}
}
