package breakermodel

import (
	"math"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A unit is the breaker's tick for thresholds of 8 to under 16 units: the greatest power of two, in
// nanoseconds, that is at most an eighth of the threshold. The calls of a measured breaker begin at
// whole units here, so that a tick holds one instant, and what the breaker counts by ticks is exact.
const unit = 1 << 22

// A fate is what a call says about the durations.
type fate int

const (
	running   fate = iota
	succeeded      // fast, or slow
	withdrawn      // slow if it was slow by its end, else nothing
)

// A track follows the calls for the latency rules of one threshold.
type track struct {
	limit   time.Duration
	running []*permit // not judged yet, in the order of their begin
	ripe    []judged
}

type judged struct {
	began time.Duration
	slow  bool
}

func (m *reference) track(limit time.Duration) *track {
	i := slices.IndexFunc(m.tracks, func(t *track) bool { return t.limit == limit })
	if i < 0 {
		return nil
	}
	return m.tracks[i]
}

func limitOf(r breaker.Rule) (time.Duration, bool) {
	rule, _ := plain(r)
	switch r := rule.(type) {
	case breaker.SlowCallRate:
		return r.Threshold, true
	case breaker.Percentile:
		return r.Threshold, true
	case breaker.CUSUM:
		return r.Threshold, true
	default:
		return 0, false
	}
}

// lowestLimit is from when a probe is slow.
func (m *reference) lowestLimit() (lowest time.Duration, ok bool) {
	for _, r := range m.cfg.Rules {
		limit, is := limitOf(r)
		if _, dry := plain(r); is && !dry && (!ok || limit < lowest) {
			lowest, ok = limit, true
		}
	}
	return lowest, ok
}

// begin judges what is due, and measures the call if the breaker is not open then.
func (m *reference) begin(p *permit) bool {
	if m.newest != m.now { // the first call of a tick
		m.judgeLatency()
	}
	if m.state == breaker.Open {
		return false
	}
	m.newest = m.now
	p.measured = m.cfg.Histogram || len(m.tracks) > 0
	for _, t := range m.tracks {
		t.running = append(t.running, p)
	}
	return true
}

func (m *reference) end(p *permit, f fate) { p.fate, p.ended = f, m.now }

func (m *reference) slow(p *permit) bool {
	return slices.ContainsFunc(m.tracks, func(t *track) bool { return m.now-p.start >= t.limit })
}

// judgeLatency hands the calls that are older than each threshold to its rules.
func (m *reference) judgeLatency() {
	for _, t := range m.tracks {
		for {
			batch, ok := t.oldest(m.now)
			if !ok {
				break
			}
			if m.ask(t, batch, batch[0].began) {
				return
			}
		}
		if m.ask(t, nil, m.now-t.limit-unit) {
			return
		}
	}
}

// oldest takes the calls of one instant off that are as old as the threshold, without those that
// ended before and say nothing.
func (t *track) oldest(now time.Duration) (batch []judged, ok bool) {
	for len(batch) == 0 && len(t.running) > 0 && now-t.running[0].start >= t.limit {
		began := t.running[0].start
		for len(t.running) > 0 && t.running[0].start == began {
			p := t.running[0]
			t.running = t.running[1:]
			slow := p.fate == running || p.ended-p.start >= t.limit
			if slow || p.fate == succeeded {
				batch = append(batch, judged{began, slow})
			}
		}
	}
	t.ripe = append(t.ripe, batch...)
	return batch, len(batch) > 0
}

// ask hands the calls of one instant, or none, to every rule of a threshold, and opens if one that
// is not dry holds. All calls from before horizon were handed in.
func (m *reference) ask(t *track, batch []judged, horizon time.Duration) bool {
	first := ""
	for i, r := range m.cfg.Rules {
		if limit, ok := limitOf(r); !ok || limit != t.limit {
			continue
		}
		rule, _ := plain(r)
		if _, byTime := rule.(breaker.Percentile); !byTime && len(batch) == 0 {
			continue
		}
		if m.opens(i, m.judged(i, rule, t, batch, horizon)) && first == "" {
			first = nameOf(rule)
		}
	}
	if first == "" || m.state != breaker.Closed {
		return false
	}
	m.open(first)
	return true
}

func nameOf(r breaker.Rule) string {
	switch r.(type) {
	case breaker.SlowCallRate:
		return breaker.RuleSlowCallRate
	case breaker.Percentile:
		return breaker.RulePercentile
	default:
		return breaker.RuleCUSUM
	}
}

func (m *reference) judged(i int, r breaker.Rule, t *track, batch []judged, horizon time.Duration) bool {
	w := &m.watches[i]
	switch r := r.(type) {
	case breaker.SlowCallRate:
		return slowOfLast(t.ripe, r)
	case breaker.Percentile:
		w.window = max(w.window, int64((horizon-w.origin)/r.Span))
		return w.overInARow(t.ripe, r)
	case breaker.CUSUM:
		w.add(r, batch)
		return w.sum >= r.Limit
	default:
		return false
	}
}

// slowOfLast judges the ten steps of which the last is that of the newest call.
func slowOfLast(ripe []judged, r breaker.SlowCallRate) bool {
	if len(ripe) == 0 {
		return false
	}
	step := r.Span / 10
	newest := ripe[len(ripe)-1].began / step
	var last []judged
	for _, c := range ripe {
		if c.began/step > newest-10 {
			last = append(last, c)
		}
	}
	slow := countSlow(last)
	return len(last) >= r.MinCalls && float64(slow)/float64(len(last)) > r.Rate
}

// overInARow judges the windows before the open one.
func (w *watch) overInARow(ripe []judged, r breaker.Percentile) bool {
	for back := range int64(r.Windows) {
		var calls []judged
		for _, c := range ripe {
			if int64((c.began-w.origin)/r.Span) == w.window-1-back {
				calls = append(calls, c)
			}
		}
		fast := len(calls) - countSlow(calls)
		if w.window-1-back < 0 || len(calls) < r.MinCalls || float64(fast)/float64(len(calls)) >= r.Quantile {
			return false
		}
	}
	return true
}

// add adds up the evidence of the calls of one instant, whose order is not known.
func (w *watch) add(r breaker.CUSUM, calls []judged) {
	slow := countSlow(calls)
	w.sum += float64(slow)*math.Log(r.Sick/r.Healthy) + float64(len(calls)-slow)*math.Log((1-r.Sick)/(1-r.Healthy))
	w.sum = max(0, w.sum)
}

func countSlow(calls []judged) (slow int) {
	for _, c := range calls {
		if c.slow {
			slow++
		}
	}
	return slow
}
