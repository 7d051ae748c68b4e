package breakermodel

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A result is one that counted, in the generation of the reference.
type result struct {
	at time.Duration
	ok bool
}

// A permit is what the reference knows of an admitted call.
type permit struct {
	state      breaker.State
	generation uint64
	slot       int // of a probe, else -1
	start      time.Duration
	lease      time.Duration // of a probe
	used       bool
	measured   bool // its duration counts for the latency rules
	fate       fate
	ended      time.Duration
}

// reference is the machine of docs/states.md, written down as it reads. Time
// is handed to it; it handles what was due before it does anything else.
type reference struct {
	cfg breaker.Config // with every field set
	now time.Duration

	state      breaker.State
	generation uint64
	rule       string // of the newest transition

	results []result // since the state was entered, or the breaker closed
	streak  uint64
	watches []watch       // one a rule, in their order
	tracks  []*track      // one a threshold of the latency rules, in the order of the rules
	newest  time.Duration // begin of the newest call that is measured
	ramp    ramp

	period      time.Duration // of the newest opening
	backoff     time.Duration // the same, but for those of tripFor
	closedAt    time.Duration
	dueAt       time.Duration // of the timer of the state; 0: none
	expired     bool
	probeOK     int
	probeFailed int
	slots       []*permit

	successes, failures, ignored, late, rejected, openings, wouldOpen uint64
}

// A watch is what the reference remembers of one rule.
type watch struct {
	firing bool // a dry rule has reported, and holds still

	breaches int // in a row, above the Trip of a Signal
	newest   float64
	seen     bool

	sum    float64       // of a CUSUM
	origin time.Duration // of the windows of a Percentile
	window int64         // the open one
}

func newReference(c breaker.Config) *reference {
	m := &reference{cfg: c, slots: make([]*permit, c.Probe.Concurrent), watches: make([]watch, len(c.Rules)), newest: -1}
	for _, r := range c.Rules {
		if limit, ok := limitOf(r); ok && m.track(limit) == nil {
			m.tracks = append(m.tracks, &track{limit: limit})
		}
	}
	return m
}

// plain is a rule without its DryRun, and whether it had one.
func plain(r breaker.Rule) (rule breaker.Rule, dry bool) {
	if d, ok := r.(breaker.DryRun); ok {
		return d.Rule, true
	}
	return r, false
}

// advance moves the time and runs the timers that are due, in order.
func (m *reference) advance(d time.Duration) {
	until := m.now + d
	for m.dueAt != 0 && m.dueAt <= until {
		m.now, m.dueAt = m.dueAt, 0
		switch m.state {
		case breaker.Open:
			m.enter(breaker.HalfOpen, breaker.RuleOpenPeriodOver)
		case breaker.HalfOpen:
			m.expire()
		default:
			m.ramp.on = false
		}
	}
	m.now = until
}

func (m *reference) enter(s breaker.State, rule string) {
	m.state, m.rule, m.dueAt = s, rule, 0
	m.generation++
	m.ramp.on = false
	m.newest = -1
	for _, t := range m.tracks {
		t.running, t.ripe = nil, nil
	}
	if s != breaker.Open {
		m.results, m.streak = nil, 0
		for i := range m.watches {
			m.watches[i] = watch{origin: m.now}
		}
	}
	if s == breaker.HalfOpen {
		m.dueAt = m.now + m.cfg.Probe.Longest
		m.expired, m.probeOK, m.probeFailed = false, 0, 0
	}
}

// open opens for Base, or after a failed recovery or a relapse for twice the period before.
func (m *reference) open(rule string) {
	o := m.cfg.Open
	if m.backoff == 0 || !m.relapses() {
		m.backoff = o.Base
	} else {
		m.backoff = min(2*m.backoff, o.Max)
	}
	m.openFor(m.backoff, rule)
}

func (m *reference) relapses() bool {
	sticky := m.cfg.Open.Sticky
	return m.state == breaker.HalfOpen || m.ramp.on || sticky > 0 && m.now-m.closedAt <= sticky
}

func (m *reference) openFor(d time.Duration, rule string) {
	m.openings++
	m.period = d
	m.enter(breaker.Open, rule)
	m.dueAt = m.now + d
}

func (m *reference) allow(owner bool) *permit {
	p := &permit{slot: -1, start: m.now}
	switch m.state {
	case breaker.Disabled:
	case breaker.Closed, breaker.ForcedClosed:
		if m.ramp.on && !m.ramp.admits(m.now, m.cfg.Ramp) || !m.begin(p) {
			m.rejected++
			return nil
		}
	case breaker.HalfOpen:
		if !m.reserve(p, owner) {
			m.rejected++
			return nil
		}
	default:
		m.rejected++
		return nil
	}
	p.state, p.generation = m.state, m.generation
	return p
}

func (m *reference) done(p *permit, o breaker.Outcome) {
	if p.used {
		return
	}
	p.used = true
	lost := p.slot >= 0 && m.slots[p.slot] != p
	stale := p.generation != m.generation || lost
	switch {
	case p.state == breaker.Disabled:
	case o == breaker.Ignored && p.slot < 0:
		m.ignored++
		m.end(p, withdrawn)
	case stale:
		m.late++
	case p.slot >= 0:
		m.probed(p, o)
	case o == breaker.Success:
		m.successes++
		m.streak = 0
		m.results = append(m.results, result{m.now, true})
		m.end(p, succeeded)
		if m.slow(p) {
			m.judgeLatency()
		}
	default:
		m.failed(p, o)
	}
	if p.slot >= 0 && !lost {
		m.slots[p.slot] = nil
	}
}

func (m *reference) failed(p *permit, o breaker.Outcome) {
	m.failures++
	m.streak++
	m.results = append(m.results, result{m.now, false})
	opens := m.judgeFailure()
	if o == breaker.Fatal {
		opens = breaker.RuleFatal
	}
	if opens != "" && m.state == breaker.Closed {
		m.open(opens)
		return
	}
	m.end(p, withdrawn)
	if p.measured {
		m.judgeLatency()
	}
}

// judgeFailure names the first rule that holds, or nothing.
func (m *reference) judgeFailure() (opens string) {
	for i, r := range m.cfg.Rules {
		rule, _ := plain(r)
		name, holds := m.holds(rule)
		if name != "" && m.opens(i, holds) && opens == "" {
			opens = name
		}
	}
	if opens == "" && m.ramp.on && m.ramp.failed(m.successes, m.failures, m.cfg.Ramp) {
		return breaker.RuleRampFailures
	}
	return opens
}

// opens is what the verdict of a rule means: a dry one reports, once as long as it holds.
func (m *reference) opens(i int, holds bool) bool {
	if _, dry := plain(m.cfg.Rules[i]); !dry {
		return holds
	}
	if m.state == breaker.Closed {
		if holds && !m.watches[i].firing {
			m.wouldOpen++
		}
		m.watches[i].firing = holds
	}
	return false
}

// holds judges one rule at a failure, from the list of results.
func (m *reference) holds(r breaker.Rule) (name string, holds bool) {
	switch r := r.(type) {
	case breaker.ConsecutiveFailures:
		return breaker.RuleConsecutiveFailures, m.streak >= uint64(r.Count)
	case breaker.FailureRateByCount:
		last := m.results[max(0, len(m.results)-r.Calls):]
		return breaker.RuleFailureRateByCount, over(last, r.Rate, r.MinCalls)
	case breaker.FailureRateByTime:
		step := r.Span / 10
		oldest := m.now/step - 9
		var last []result
		for _, x := range m.results {
			if x.at/step >= oldest {
				last = append(last, x)
			}
		}
		return breaker.RuleFailureRateByTime, over(last, r.Rate, r.MinCalls)
	default:
		return "", false
	}
}

func over(last []result, rate float64, minCalls int) bool {
	bad := 0
	for _, x := range last {
		if !x.ok {
			bad++
		}
	}
	return len(last) >= minCalls && float64(bad)/float64(len(last)) > rate
}

func (m *reference) trip() {
	if m.state == breaker.Closed || m.state == breaker.HalfOpen {
		m.open(breaker.RuleExternal)
	}
}

func (m *reference) tripFor(d time.Duration) {
	d = min(max(d, m.cfg.Open.Base), m.cfg.Open.Max)
	switch m.state {
	case breaker.Closed, breaker.HalfOpen:
		if !m.relapses() {
			m.backoff = 0
		}
		m.openFor(d, breaker.RuleExternal)
	case breaker.Open:
		m.dueAt = max(m.dueAt, m.now+d)
	default:
	}
}

func (m *reference) force(s breaker.State) {
	if m.state == s && s != breaker.Closed {
		return
	}
	m.period, m.backoff = 0, 0
	m.enter(s, breaker.RuleForced)
}

func (m *reference) reconfigure(c breaker.Config) {
	m.cfg = c
	for i, r := range c.Rules {
		_, dry := plain(r)
		m.watches[i].firing = m.watches[i].firing && dry
	}
}

func (m *reference) retryAfter() time.Duration {
	if m.state != breaker.Open {
		return 0
	}
	return m.dueAt - m.now
}
