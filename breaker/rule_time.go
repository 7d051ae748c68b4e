package breaker

import (
	"errors"
	"math/bits"
	"time"
)

// FailureRateByTime opens when more than Rate of the calls that ended in the
// last Span failed. The window moves in ten steps.
//
// A call counts when it ends. Every failure reads the clock; of the successes
// each one at low rates, one of up to 64 at high rates, so that up to 63
// successes may count a step or more too early, and then leave the window
// earlier: against exact steps the rule opens never later, and earlier only
// where those few successes decide. A breaker that counts in stripes
// (docs/adr/0030) takes one of 64 in each of them: after the rate has fallen from
// more than a thousand a step to a few, one hundred may be too early, and at the worst 1,008.
type FailureRateByTime struct {
	// Span is the length of the window, at least 10ms. Default: 10s.
	Span time.Duration
	// Rate is the share of failures that is still allowed, above 0 and below 1.
	// Default: 0.5.
	Rate float64
	// MinCalls is how many calls the window must hold before it is judged, at
	// least 1. Default: 20.
	MinCalls int
}

const (
	steps        = 10
	minSpan      = 10 * time.Millisecond
	maxSampling  = 64 // successes to one reading of the clock
	looksPerStep = 32 // readings within one step after which half as many are enough
)

func (r FailureRateByTime) withDefaults() Rule {
	setDefault(&r.Span, 10*time.Second)
	setDefault(&r.Rate, 0.5)
	setDefault(&r.MinCalls, 20)
	return r
}

func (r FailureRateByTime) check(field string) error {
	return errors.Join(checkRate(field, r.Rate), checkMinCalls(field, r.MinCalls, 20), checkSpan(field, r.Span, "10s"))
}

func (r FailureRateByTime) fills() fills { return fills{span: r.Span, minCalls: r.MinCalls} }

func (r FailureRateByTime) detector() detector {
	return &timeWindow{rule: r, width: r.Span / steps}
}

// timeWindow keeps ten steps. Failures are put into the step of their end;
// successes are the difference of the breaker's cumulative count between the
// moments at which somebody looked at the clock.
type timeWindow struct {
	rule  FailureRateByTime
	width time.Duration
	step  int64  // the newest step, counted from the clock's base
	mark  uint64 // the cumulative count of successes that the steps hold
	every uint64 // successes to one reading of the clock: 1, 2, 4 … 64
	ok    [steps]uint64
	bad   [steps]uint64
}

func (w *timeWindow) reset(t tally) {
	*w = timeWindow{rule: w.rule, width: w.width, step: max(0, int64(t.now/w.width)), mark: t.successes, every: 1}
}

func (w *timeWindow) failed(t tally) (Reason, bool) {
	w.roll(t.now, t.successes)
	w.bad[w.step%steps]++
	bad, ok := uint64(0), t.successes-min(w.mark, t.successes)
	for i := range steps {
		bad += w.bad[i]
		ok += w.ok[i]
	}
	return rateReason(RuleFailureRateByTime, bad, bad+ok, w.rule.Rate, w.rule.MinCalls)
}

// roll moves the window to now: all successes before it that are not in a step
// yet go into the newest one. A clock that runs backwards moves nothing
// (REQ-B18).
func (w *timeWindow) roll(now time.Duration, successes uint64) {
	step := int64(now / w.width)
	if step <= w.step {
		return
	}
	fresh := successes - min(w.mark, successes)
	w.ok[w.step%steps] += fresh
	w.mark = max(w.mark, successes)
	passed := step - w.step
	for s := max(w.step+1, step-steps+1); s <= step; s++ {
		w.ok[s%steps], w.bad[s%steps] = 0, 0
	}
	w.step = step
	w.every = sampling(fresh / uint64(passed))
}

// edge is when the newest step ends.
func (w *timeWindow) edge() time.Duration { return time.Duration(w.step+1) * w.width }

// sampling is how many successes go to one reading of the clock when a step
// saw that many, so that a step gets 16 readings or more: 1, 2, 4 … 64.
func sampling(perStep uint64) uint64 {
	n := max(1, perStep/(looksPerStep/2))
	return min(maxSampling, uint64(1)<<(bits.Len64(n)-1))
}

// inherit puts what the old window held into the steps of the new width, each
// old step where it began.
func (w *timeWindow) inherit(from detector, t tally) bool {
	old, ok := from.(*timeWindow)
	if !ok {
		return false
	}
	old.roll(t.now, t.successes)
	w.reset(t)
	w.mark, w.every = old.mark, old.every
	for s := max(0, old.step-steps+1); s <= old.step; s++ {
		to := int64(time.Duration(s) * old.width / w.width)
		if to > w.step-steps {
			w.ok[to%steps] += old.ok[s%steps]
			w.bad[to%steps] += old.bad[s%steps]
		}
	}
	return true
}
