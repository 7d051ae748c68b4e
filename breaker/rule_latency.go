package breaker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// A latencyDetector is that of a latency rule: the package documentation says what such a rule sees.
type latencyDetector interface {
	detector
	// limit is the threshold.
	limit() time.Duration
	// ripened takes in the calls of one tick and judges.
	ripened(r ripe) (Reason, bool)
}

// A settler judges also by what did not begin.
type settler interface {
	// settle judges what is complete: every tick that began before horizon was handed to ripened.
	settle(horizon time.Duration) (Reason, bool)
}

const defaultThreshold = 50 * time.Millisecond

func checkThreshold(field string, d time.Duration) error {
	if d < minThreshold {
		return fault(field+".Threshold", d, fmt.Sprintf("use at least %v, or 0 for %v", minThreshold, defaultThreshold))
	}
	return checkLongest(map[string]time.Duration{field + ".Threshold": d})
}

const minThreshold = 100 * time.Microsecond

// SlowCallRate opens when more than Rate of the calls that began in the last Span were
// slow, hung ones included: see Latency in the package documentation. The window moves in ten steps.
type SlowCallRate struct {
	// Threshold is how long a call lasts that is slow, at least 100µs. Default: 50ms.
	Threshold time.Duration
	// Span is the length of the window, at least 10ms. Default: 10s.
	Span time.Duration
	// Rate is the share of slow calls that is still allowed, above 0 and below 1.
	// Default: 0.5.
	Rate float64
	// MinCalls is how many calls the window must hold before it is judged, at
	// least 1. Default: 20.
	MinCalls int
}

func (r SlowCallRate) withDefaults() Rule {
	setDefault(&r.Threshold, defaultThreshold)
	setDefault(&r.Span, 10*time.Second)
	setDefault(&r.Rate, 0.5)
	setDefault(&r.MinCalls, 20)
	return r
}

func (r SlowCallRate) check(field string) error {
	return errors.Join(checkThreshold(field, r.Threshold), checkSpan(field, r.Span, "10s"),
		checkRate(field, r.Rate), checkMinCalls(field, r.MinCalls, 20))
}

func (r SlowCallRate) detector() detector {
	return &slowWindow{rule: r, width: r.Span / steps}
}

func (r SlowCallRate) fills() fills { return fills{r.Span, r.MinCalls, r.Threshold} }

// slowWindow keeps ten steps.
type slowWindow struct {
	rule  SlowCallRate
	width time.Duration
	step  int64 // the newest one, counted from the clock's base
	calls [steps]uint64
	slow  [steps]uint64
}

func (w *slowWindow) limit() time.Duration { return w.rule.Threshold }

func (w *slowWindow) reset(tally) { *w = slowWindow{rule: w.rule, width: w.width} }

func (w *slowWindow) ripened(r ripe) (Reason, bool) {
	w.roll(int64(r.at / w.width))
	w.calls[w.step%steps] += r.calls
	w.slow[w.step%steps] += r.slow
	return w.judge()
}

func (w *slowWindow) roll(step int64) {
	for s := max(w.step+1, step-steps+1); s <= step; s++ {
		w.calls[s%steps], w.slow[s%steps] = 0, 0
	}
	w.step = max(w.step, step)
}

func (w *slowWindow) judge() (Reason, bool) {
	calls, slow := uint64(0), uint64(0)
	for i := range steps {
		calls += w.calls[i]
		slow += w.slow[i]
	}
	r, over := rateReason(RuleSlowCallRate, slow, calls, w.rule.Rate, w.rule.MinCalls)
	if over {
		r.Detail += fmt.Sprintf(" lasted for %v or more", w.rule.Threshold)
	}
	return r, over
}

func (w *slowWindow) inherit(from detector, _ tally) bool {
	old, ok := from.(*slowWindow)
	if !ok || old.rule.Threshold != w.rule.Threshold {
		return false
	}
	if old.width == w.width {
		w.step, w.calls, w.slow = old.step, old.calls, old.slow
	}
	return true
}

// Percentile opens when a percentile of the durations was over Threshold in so many
// windows in a row: a P99 over 50 ms says that more than 1 % of the calls were slow, which
// two counters decide exactly, hung calls included: see Latency in the package
// documentation. A window with fewer than MinCalls calls ends the row.
//
// With 100 calls a window and 0.5 % slow ones, which is healthy, one window in eleven is
// over by chance: at low rates [CUSUM] has far fewer false openings, and opens sooner.
type Percentile struct {
	// Quantile is which percentile, as a share above 0 and below 1. Default: 0.99.
	Quantile float64
	// Threshold is how long a call lasts that is slow, at least 100µs. Default: 50ms.
	Threshold time.Duration
	// Span is the length of one window, at least 10ms. Default: 1s.
	Span time.Duration
	// Windows is how many in a row must be over, at least 1. Default: 3.
	Windows int
	// MinCalls is how many calls a window must hold to be judged, at least 1: the rule is
	// blind where fewer than MinCalls begin in a Span. Default: 100.
	MinCalls int
}

func (r Percentile) withDefaults() Rule {
	setDefault(&r.Quantile, 0.99)
	setDefault(&r.Threshold, defaultThreshold)
	setDefault(&r.Span, time.Second)
	setDefault(&r.Windows, 3)
	setDefault(&r.MinCalls, 100)
	return r
}

func (r Percentile) check(field string) error {
	errs := []error{checkThreshold(field, r.Threshold), checkSpan(field, r.Span, "1s"), checkMinCalls(field, r.MinCalls, 100)}
	if !(r.Quantile > 0 && r.Quantile < 1) { // NaN too
		errs = append(errs, fault(field+".Quantile", r.Quantile, "use a share above 0 and below 1, or 0 for 0.99"))
	}
	if r.Windows < 1 {
		errs = append(errs, fault(field+".Windows", r.Windows, "use at least 1, or 0 for 3"))
	}
	return errors.Join(errs...)
}

func (r Percentile) detector() detector { return &percentileDetector{rule: r} }

func (r Percentile) fills() fills { return fills{r.Span, r.MinCalls, r.Threshold} }

type percentileDetector struct {
	rule        Percentile
	origin      time.Duration // the windows are counted from here: since the last reset
	window      int64         // the open one
	calls, slow uint64
	row         int  // windows in a row that were over
	newest      ripe // of them, begin left out
}

func (d *percentileDetector) limit() time.Duration { return d.rule.Threshold }

func (d *percentileDetector) reset(t tally) {
	*d = percentileDetector{rule: d.rule, origin: t.now}
}

func (d *percentileDetector) ripened(r ripe) (Reason, bool) {
	reason, over := d.settle(r.at)
	d.calls += r.calls
	d.slow += r.slow
	return reason, over
}

// settle holds as long as the newest windows that are over say so.
func (d *percentileDetector) settle(horizon time.Duration) (Reason, bool) {
	if window := int64((horizon - d.origin) / d.rule.Span); window > d.window {
		d.close()
		if window > d.window+1 { // nothing began in the windows between
			d.row = 0
		}
		d.window, d.calls, d.slow = window, 0, 0
	}
	if d.row < d.rule.Windows {
		return Reason{}, false
	}
	return d.reason(), true
}

// close judges the open window.
func (d *percentileDetector) close() {
	if d.calls < uint64(d.rule.MinCalls) || float64(d.calls-d.slow)/float64(d.calls) >= d.rule.Quantile {
		d.row = 0
		return
	}
	d.row++
	d.newest = ripe{calls: d.calls, slow: d.slow}
}

func (d *percentileDetector) reason() Reason {
	n := d.newest
	return Reason{
		Rule: RulePercentile, Value: float64(n.slow) / float64(n.calls), Threshold: 1 - d.rule.Quantile,
		Detail: fmt.Sprintf("P%g over %v in %d windows in a row, in the newest %d of %d calls",
			math.Round(d.rule.Quantile*1e6)/1e4, d.rule.Threshold, d.row, n.slow, n.calls),
	}
}

func (d *percentileDetector) inherit(from detector, _ tally) bool {
	old, ok := from.(*percentileDetector)
	if !ok || old.rule.Threshold != d.rule.Threshold {
		return false
	}
	d.row, d.newest = old.row, old.newest
	if old.rule.Span == d.rule.Span {
		d.origin, d.window, d.calls, d.slow = old.origin, old.window, old.calls, old.slow
	}
	return true
}

// CUSUM opens when slow calls, hung ones included, are more frequent than Healthy: a
// sequential test (Page, Continuous Inspection Schemes, 1954) that adds up the evidence of every call, ln(Sick/Healthy) for a slow one
// and ln((1-Sick)/(1-Healthy)) for another, never below 0, and opens at Limit. It needs no window and
// no minimum of calls: with the defaults eleven slow calls in a row open it.
//
// docs/latency.md says how soon it opens, how often falsely, and what to set for
// which rate of calls.
type CUSUM struct {
	// Threshold is how long a call lasts that is slow, at least 100µs. Default: 50ms.
	Threshold time.Duration
	// Healthy is the share of slow calls of a healthy target, above 0. Default: 0.005.
	Healthy float64
	// Sick is the share of slow calls that must be told from it, above Healthy and
	// below 1. Default: 0.02.
	Sick float64
	// Limit is the evidence that opens, above 0 and up to 1000, in natural logarithms of a
	// likelihood ratio. Above 100 calls a second 14 + ln(rate/100) keeps false openings as rare as
	// they are there (docs/latency.md). Default: 14.
	Limit float64
}

func (r CUSUM) withDefaults() Rule {
	setDefault(&r.Threshold, defaultThreshold)
	setDefault(&r.Healthy, 0.005)
	setDefault(&r.Sick, 0.02)
	setDefault(&r.Limit, 14)
	return r
}

func (r CUSUM) check(field string) error {
	errs := []error{checkThreshold(field, r.Threshold)}
	if !(r.Healthy > 0 && r.Healthy < 1) {
		errs = append(errs, fault(field+".Healthy", r.Healthy, "use a share above 0 and below Sick, or 0 for 0.005"))
	}
	if !(r.Sick > r.Healthy && r.Sick < 1) {
		errs = append(errs, fault(field+".Sick", r.Sick, fmt.Sprintf("use a share above Healthy, %v, and below 1, or 0 for 0.02", r.Healthy)))
	}
	if !(r.Limit > 0 && r.Limit <= 1000) {
		errs = append(errs, fault(field+".Limit", r.Limit, "use a number above 0 and up to 1000, or 0 for 14"))
	}
	return errors.Join(errs...)
}

func (r CUSUM) detector() detector {
	return &cusumDetector{rule: r, up: math.Log(r.Sick) - math.Log(r.Healthy), down: math.Log1p(-r.Sick) - math.Log1p(-r.Healthy)}
}

func (r CUSUM) fills() fills { return fills{threshold: r.Threshold} }

type cusumDetector struct {
	rule        CUSUM
	up, down    float64
	sum         float64
	calls, slow uint64 // since the sum was 0
}

func (d *cusumDetector) limit() time.Duration { return d.rule.Threshold }

func (d *cusumDetector) reset(tally) { d.sum, d.calls, d.slow = 0, 0, 0 }

// ripened takes the calls of a tick together: their order is not known.
func (d *cusumDetector) ripened(r ripe) (Reason, bool) {
	d.sum += float64(r.slow)*d.up + float64(r.calls-r.slow)*d.down
	d.calls += r.calls
	d.slow += r.slow
	switch {
	case d.sum <= 0:
		d.reset(tally{})
		return Reason{}, false
	case d.sum < d.rule.Limit:
		return Reason{}, false
	}
	return Reason{
		Rule: RuleCUSUM, Value: d.sum, Threshold: d.rule.Limit,
		Detail: fmt.Sprintf("%d of the last %d calls lasted for %v or more", d.slow, d.calls, d.rule.Threshold),
	}, true
}

func (d *cusumDetector) inherit(from detector, _ tally) bool {
	old, ok := from.(*cusumDetector)
	if !ok || old.rule.Threshold != d.rule.Threshold {
		return false
	}
	d.sum, d.calls, d.slow = old.sum, old.calls, old.slow
	return true
}
