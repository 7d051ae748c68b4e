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
	used       bool
}

// reference is the machine of docs/states.md, written down as it reads. Time
// is handed to it; it handles what was due before it does anything else.
type reference struct {
	cfg breaker.Config // with every field set
	now time.Duration

	state      breaker.State
	generation uint64
	rule       string // of the newest transition

	results  []result // since the state was entered, or the breaker closed
	streak   uint64
	breaches int
	newest   float64
	seen     bool

	period   time.Duration
	closedAt time.Duration
	dueAt    time.Duration // of the timer of the state; 0: none
	expired  bool
	probeOK  int
	slots    []*permit

	successes, failures, ignored, late, rejected, openings uint64
}

// advance moves the time and runs the timers that are due, in order.
func (m *reference) advance(d time.Duration) {
	until := m.now + d
	for m.dueAt != 0 && m.dueAt <= until {
		m.now, m.dueAt = m.dueAt, 0
		if m.state == breaker.Open {
			m.enter(breaker.HalfOpen, breaker.RuleOpenPeriodOver)
		} else {
			m.expire()
		}
	}
	m.now = until
}

func (m *reference) expire() {
	m.expired = true
	m.judge()
	if _, ok := m.signal(); ok && m.state == breaker.HalfOpen {
		m.open(breaker.RuleHalfOpenExpired)
	}
}

func (m *reference) enter(s breaker.State, rule string) {
	m.state, m.rule, m.dueAt = s, rule, 0
	m.generation++
	if s != breaker.Open {
		m.results, m.streak, m.breaches, m.seen = nil, 0, 0, false
	}
	switch s {
	case breaker.Open:
		m.dueAt = m.now + m.period
	case breaker.HalfOpen:
		m.dueAt = m.now + m.cfg.Probe.Longest
		m.expired, m.probeOK = false, 0
	default:
	}
}

func (m *reference) open(rule string) {
	o := m.cfg.Open
	switch relapse := o.Sticky > 0 && m.now-m.closedAt <= o.Sticky; {
	case m.period == 0, m.state == breaker.Closed && !relapse:
		m.period = o.Base
	default:
		m.period = min(2*m.period, o.Max)
	}
	m.openings++
	m.enter(breaker.Open, rule)
}

func (m *reference) allow(owner bool) *permit {
	p := &permit{state: m.state, generation: m.generation, slot: -1, start: m.now}
	switch m.state {
	case breaker.Closed, breaker.ForcedClosed, breaker.Disabled:
		return p
	case breaker.HalfOpen:
		for i, held := range m.slots {
			free := held == nil || m.now-held.start >= m.cfg.Probe.Lease
			if free && (owner || !m.cfg.Probe.Reserved) {
				p.slot = i
				m.slots[i] = p
				return p
			}
		}
	default:
	}
	m.rejected++
	return nil
}

func (m *reference) done(p *permit, o breaker.Outcome) {
	if p.used {
		return
	}
	p.used = true
	lost := p.slot >= 0 && m.slots[p.slot] != p
	stale := p.generation != m.generation || lost
	if p.slot >= 0 && !lost {
		m.slots[p.slot] = nil
	}
	switch {
	case p.state == breaker.Disabled:
	case o == breaker.Ignored && p.slot < 0:
		m.ignored++
	case stale:
		m.late++
	case p.slot >= 0:
		m.probed(o)
	case o == breaker.Success:
		m.successes++
		m.streak = 0
		m.results = append(m.results, result{m.now, true})
	default:
		m.failed(o)
	}
}

func (m *reference) probed(o breaker.Outcome) {
	switch o {
	case breaker.Success:
		m.successes++
		m.streak = 0
		m.probeOK++
		m.judge()
	case breaker.Ignored:
		m.ignored++
	default:
		m.failures++
		m.streak++
		m.open(breaker.RuleProbeFailure)
	}
}

func (m *reference) failed(o breaker.Outcome) {
	m.failures++
	m.streak++
	m.results = append(m.results, result{m.now, false})
	if m.state != breaker.Closed {
		return
	}
	if o == breaker.Fatal {
		m.open(breaker.RuleFatal)
		return
	}
	for _, r := range m.cfg.Rules {
		if name, holds := m.holds(r); holds {
			m.open(name)
			return
		}
	}
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

func (m *reference) signal() (breaker.Signal, bool) {
	for _, r := range m.cfg.Rules {
		if s, ok := r.(breaker.Signal); ok {
			return s, true
		}
	}
	return breaker.Signal{}, false
}

func (m *reference) judge() {
	s, ok := m.signal()
	settled := !ok || m.seen && m.newest <= s.Reenter
	tolerable := !ok || m.seen && m.newest <= s.Trip
	if m.probeOK >= m.cfg.Probe.Successes && settled || m.expired && m.probeOK > 0 && tolerable {
		m.closedAt = m.now
		m.enter(breaker.Closed, breaker.RuleRecovered)
	}
}

func (m *reference) observe(v float64) {
	s, ok := m.signal()
	if !ok || m.state == breaker.Open || m.state == breaker.ForcedOpen || m.state == breaker.Disabled {
		return
	}
	m.newest, m.seen = v, true
	if v > s.Trip {
		m.breaches++
	} else {
		m.breaches = 0
	}
	switch {
	case m.state == breaker.Closed && m.breaches >= s.Breaches, m.state == breaker.HalfOpen && v > s.Trip:
		m.open(s.Name)
	case m.state == breaker.HalfOpen:
		m.judge()
	}
}

func (m *reference) trip() {
	if m.state == breaker.Closed || m.state == breaker.HalfOpen {
		m.open(breaker.RuleExternal)
	}
}

func (m *reference) force(s breaker.State) {
	if m.state == s && s != breaker.Closed {
		return
	}
	m.period = 0
	m.enter(s, breaker.RuleForced)
}

func (m *reference) probesInFlight() (n int) {
	for _, p := range m.slots {
		if p != nil && m.now-p.start < m.cfg.Probe.Lease {
			n++
		}
	}
	return n
}

func (m *reference) retryAfter() time.Duration {
	if m.state != breaker.Open {
		return 0
	}
	return m.dueAt - m.now
}
