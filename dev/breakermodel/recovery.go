package breakermodel

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

func (m *reference) reserve(p *permit, owner bool) bool {
	if m.cfg.Probe.Reserved && !owner {
		return false
	}
	for i, held := range m.slots {
		if held == nil || m.now-held.start >= held.lease {
			p.slot, p.lease = i, m.cfg.Probe.Lease
			m.slots[i] = p
			return true
		}
	}
	return false
}

func (m *reference) probed(p *permit, o breaker.Outcome) {
	limit, limited := m.lowestLimit()
	switch {
	case o == breaker.Ignored:
		m.ignored++
	case o != breaker.Success:
		m.failures++
		m.streak++
		m.probeFails(breaker.RuleProbeFailure, o)
	case limited && m.now-p.start >= limit:
		m.successes++
		m.streak = 0
		m.probeFails(breaker.RuleProbeSlow, o)
	default:
		m.successes++
		m.streak = 0
		m.probeOK++
		m.judge()
	}
}

func (m *reference) probeFails(rule string, o breaker.Outcome) {
	m.probeFailed++
	p := m.cfg.Probe
	if p.Of == 0 || o == breaker.Fatal || p.Of-m.probeFailed < need(p) {
		m.open(rule)
		return
	}
	m.judge()
}

// need is the fewest successes that are a share of Rate of Of.
func need(p breaker.Probe) int {
	if p.Of == 0 {
		return p.Successes
	}
	n := 1
	for float64(n)/float64(p.Of) < p.Rate {
		n++
	}
	return n
}

// judge closes if what was seen in this half-open says so.
func (m *reference) judge() {
	settled, tolerable := true, true
	for i, s := range m.signals() {
		w := m.watches[i]
		settled = settled && w.seen && w.newest <= s.Reenter
		tolerable = tolerable && w.seen && w.newest <= s.Trip
	}
	p := m.cfg.Probe
	good := m.probeOK > 0 && (p.Of == 0 || float64(m.probeOK)/float64(m.probeOK+m.probeFailed) >= p.Rate)
	if m.probeOK >= need(p) && settled || m.expired && good && tolerable {
		m.recover()
	}
}

func (m *reference) recover() {
	m.closedAt = m.now
	m.enter(breaker.Closed, breaker.RuleRecovered)
	if m.cfg.Ramp.For > 0 {
		m.dueAt = m.now + m.cfg.Ramp.For
		m.ramp = ramp{on: true, began: m.now, sum: oneCall - 1, successes: m.successes, failures: m.failures}
	}
}

func (m *reference) expire() {
	m.expired = true
	switch m.cfg.Probe.Expiry {
	case breaker.ExpireClosed:
		m.recover()
	case breaker.ExpireOpen:
		m.open(breaker.RuleHalfOpenExpired)
	default:
		m.judge()
		if m.state == breaker.HalfOpen && (m.probeFailed > 0 || len(m.signals()) > 0) {
			m.open(breaker.RuleHalfOpenExpired)
		}
	}
}

// signals are those that have a say, by their place in the rules.
func (m *reference) signals() map[int]breaker.Signal {
	found := map[int]breaker.Signal{}
	for i, r := range m.cfg.Rules {
		if s, ok := r.(breaker.Signal); ok {
			found[i] = s
		}
	}
	return found
}

func (m *reference) observe(v float64) {
	for i, r := range m.cfg.Rules {
		rule, dry := plain(r)
		if s, ok := rule.(breaker.Signal); ok {
			m.observed(i, s, v, dry)
			return
		}
	}
}

func (m *reference) observed(i int, s breaker.Signal, v float64, dry bool) {
	if m.state == breaker.Open || m.state == breaker.ForcedOpen || m.state == breaker.Disabled {
		return
	}
	w := &m.watches[i]
	w.newest, w.seen = v, true
	if v > s.Trip {
		w.breaches++
	} else {
		w.breaches = 0
	}
	switch {
	case m.state == breaker.Closed:
		if m.opens(i, w.breaches >= s.Breaches) {
			m.open(s.Name)
		}
	case m.state == breaker.HalfOpen && v > s.Trip && !dry:
		m.open(s.Name)
	case m.state == breaker.HalfOpen:
		m.judge()
	default:
	}
}

func (m *reference) probesInFlight() (n int) {
	for _, p := range m.slots {
		if p != nil && m.now-p.start < p.lease {
			n++
		}
	}
	return n
}

// A ramp admits a call whenever the sum of the shares passes a whole number.
type ramp struct {
	on                  bool
	began               time.Duration
	sum                 uint64 // in 2^-32 of a call
	successes, failures uint64 // at the recovery
}

const oneCall = 1 << 32

func (r *ramp) share(now time.Duration, s breaker.Ramp) float64 {
	if !r.on || now-r.began >= s.For {
		return 1
	}
	return s.From + (1-s.From)*(float64(now-r.began)/float64(s.For))
}

func (r *ramp) admits(now time.Duration, s breaker.Ramp) bool {
	before := r.sum >> 32
	r.sum += uint64(r.share(now, s) * oneCall)
	return r.sum>>32 > before
}

func (r *ramp) failed(successes, failures uint64, s breaker.Ramp) bool {
	bad := failures - r.failures
	calls := bad + successes - r.successes
	return calls >= uint64(s.MinCalls) && float64(bad)/float64(calls) > s.Rate
}
