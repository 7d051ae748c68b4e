package breaker

import (
	"fmt"
	"math"
	"time"
)

// A Rule opens a closed breaker. The rules are [ConsecutiveFailures],
// [FailureRateByCount], [FailureRateByTime], [SlowCallRate], [Percentile], [CUSUM] and
// [Signal]; [DryRun] makes one of them report instead of opening.
//
// Rules of failures are judged when a call fails: one whose minimum of calls is reached by a
// success is judged at the next failure. Latency rules are judged when a call begins, or a slow
// one ends, be it a success. A Signal is judged when it is observed. No other success opens.
type Rule interface {
	withDefaults() Rule
	// check returns the faults of the rule at the named field, joined.
	check(field string) error
	// detector makes what measures for the rule in one breaker.
	detector() detector
}

// A detector measures for one rule. All its methods run under Breaker.mu.
type detector interface {
	// reset forgets everything that was measured.
	reset(t tally)
	// inherit takes over what a detector of the same rule measured before
	// Reconfigure; one of another rule is left alone and false returned.
	inherit(from detector, t tally) bool
}

// A failureDetector is judged at each failure.
type failureDetector interface {
	detector
	// failed takes in the failure that t already holds and judges.
	failed(t tally) (Reason, bool)
}

// A tally is what a breaker counted, since it was made.
type tally struct {
	now       time.Duration // since the clock's base
	successes uint64
	failures  uint64
	streak    uint64 // failures since the last success
}

func (t tally) calls() uint64 { return t.successes + t.failures }

// ConsecutiveFailures opens at the Count-th failure with no success between.
// Time plays no part: failures in a row do not age out.
type ConsecutiveFailures struct {
	// Count is how many failures in a row open, at least 1. Default: 5.
	Count int
}

func (r ConsecutiveFailures) withDefaults() Rule {
	setDefault(&r.Count, 5)
	return r
}

func (r ConsecutiveFailures) check(field string) error {
	if r.Count < 1 {
		return fault(field+".Count", r.Count, "use at least 1, or 0 for 5")
	}
	return nil
}

func (r ConsecutiveFailures) detector() detector { return &streakDetector{r} }

// streakDetector measures nothing itself: the breaker keeps the streak, for its
// statistics too.
type streakDetector struct{ rule ConsecutiveFailures }

func (*streakDetector) reset(tally) {}

func (d *streakDetector) failed(t tally) (Reason, bool) {
	return Reason{
		Rule:  RuleConsecutiveFailures,
		Value: float64(t.streak), Threshold: float64(d.rule.Count),
	}, t.streak >= uint64(d.rule.Count)
}

func (*streakDetector) inherit(from detector, _ tally) bool {
	_, ok := from.(*streakDetector)
	return ok
}

func checkRate(field string, rate float64) error {
	if rate > 0 && rate < 1 {
		return nil
	}
	mend := "use a share above 0 and below 1, or 0 for 0.5"
	if rate == 1 {
		mend = "no rate is above 1; use ConsecutiveFailures, or a share below 1"
	}
	return fault(field+".Rate", rate, mend)
}

func checkMinCalls(field string, n, standard int) error {
	if n < 1 {
		return fault(field+".MinCalls", n, fmt.Sprintf("use at least 1, or 0 for %d", standard))
	}
	return nil
}

func checkSpan(field string, d time.Duration, standard string) error {
	if d < minSpan {
		return fault(field+".Span", d, fmt.Sprintf("use at least %v, or 0 for %s", minSpan, standard))
	}
	return checkLongest(map[string]time.Duration{field + ".Span": d})
}

// fills is what a rule needs to be able to decide at all.
type fills struct {
	span      time.Duration // 0: no window of time
	minCalls  int
	threshold time.Duration // 0: not a latency rule
}

// rateReason judges bad failures of n calls. It divides, so that 29 of 100 is
// not above a rate of 0.29: 0.29*100 is less than 29 in floating point.
func rateReason(rule string, bad, n uint64, rate float64, minCalls int) (Reason, bool) {
	if n == 0 {
		return Reason{}, false
	}
	share := float64(bad) / float64(n)
	if n < uint64(minCalls) || share <= rate || math.IsNaN(share) {
		return Reason{}, false
	}
	return Reason{
		Rule: rule, Value: share, Threshold: rate,
		Detail: fmt.Sprintf("%d of %d calls", bad, n),
	}, true
}
