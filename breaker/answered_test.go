package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

// A caller who reads a body slowly does not make its target slow, nor does a slow answer
// become quick; the outcome counts once, when it is reported.
func TestAnsweredEndsTheDuration(t *testing.T) {
	for name, tc := range map[string]struct {
		answered time.Duration
		err      error
		want     State
	}{
		"quick answer, slow reader":    {10 * ms, nil, Closed},
		"slow answer":                  {60 * ms, nil, Open},
		"quick answer, the body fails": {10 * ms, errDown, Closed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 5}, FailureRateByCount{Calls: 100, MinCalls: 100}))
				ps := startN(t, b, 5)
				after(tc.answered)
				for _, p := range ps {
					p.Answered()
					p.Answered()
				}
				if s := b.Stats(); s.Successes != 0 || s.Failures != 0 {
					t.Errorf("answered: got %d successes, %d failures; want none yet", s.Successes, s.Failures)
				}
				after(500 * ms)
				run(b, nil) // judges
				wantState(t, b, tc.want)
				doneAll(ps, tc.err)
				s := b.Stats()
				if got := s.Successes + s.Failures + s.Late; tc.want == Closed && got != 6 || tc.err != nil && s.Failures != 5 {
					t.Errorf("done: got %d successes, %d failures, %d late", s.Successes, s.Failures, s.Late)
				}
			})
		})
	}
}

// A row of calls that were answered and then failed is a row of failures.
func TestAnsweredCallsThatFailAreARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(CUSUM{}, ConsecutiveFailures{Count: 5}))
		ps := startN(t, b, 5)
		for _, p := range ps {
			p.Answered()
		}
		doneAll(ps, errDown)
		wantState(t, b, Open)
	})
}

func TestAnsweredProbe(t *testing.T) {
	for answered, want := range map[time.Duration]State{10 * ms: Closed, 60 * ms: Open} {
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, slowConfig(CUSUM{}))
			b.Trip(Reason{})
			after(time.Second)
			p := start(t, b)
			after(answered)
			p.Answered()
			after(500 * ms)
			p.Answered()
			p.Done(nil)
			wantState(t, b, want)
		})
	}
	var zero Permit
	zero.Answered() // does nothing
}
