package main

import (
	"math"
	"math/bits"
	"time"
)

const (
	ringSize      = 32
	ticksPerLimit = 8
	lastSlack     = 8

	basePeriod    = time.Second // the open period, without jitter
	longestPeriod = 30 * time.Second
)

// tickShift is the binary logarithm of a tick in nanoseconds.
func tickShift(threshold time.Duration) uint {
	return uint(bits.Len64(uint64(threshold/ticksPerLimit)) - 1)
}

// A model is a breaker with one latency rule, call by call: closed, open, and half-open with one
// probe. It has no lock and no packed word, and is told at its begin whether a call
// will be slow. Instants must not go back.
type model struct {
	rule      detector
	threshold time.Duration
	shift     uint
	cells     [ringSize]cell
	ripens    time.Duration

	state      state
	generation int
	probing    bool
	period     time.Duration // 0: clean
	until      time.Duration // the end of the open period
	openedAt   time.Duration // the newest opening
	openings   int           // from closed
}

type state int

const (
	closed state = iota
	open
	halfOpen
)

// A cell holds the calls of one tick.
type cell struct {
	used        bool
	tick        uint64
	calls, slow uint64
	last        time.Duration
}

// A ticket is a call under way.
type ticket struct {
	generation  int
	slow, probe bool
}

func newModel(rule detector, threshold time.Duration) *model {
	return &model{rule: rule, threshold: threshold, shift: tickShift(threshold)}
}

func (m *model) tick() time.Duration { return 1 << m.shift }

// begin asks for a call.
func (m *model) begin(now time.Duration, slow bool) (ticket, bool) {
	if m.state == open && now >= m.until {
		m.enter(halfOpen, now)
	}
	switch m.state {
	case open:
		return ticket{}, false
	case halfOpen:
		if m.probing {
			return ticket{}, false
		}
		m.probing = true
		return ticket{m.generation, slow, true}, true
	default:
		return m.count(now, slow)
	}
}

func (m *model) count(now time.Duration, slow bool) (ticket, bool) {
	tick := uint64(now) >> m.shift
	c := &m.cells[tick%ringSize]
	if !c.used || c.tick != tick || now >= m.ripens {
		if m.judge(now) {
			return ticket{}, false
		}
	}
	c.add(now, m.tick(), tick, slow)
	return ticket{m.generation, slow, false}, true
}

func (c *cell) add(now, width time.Duration, tick uint64, slow bool) {
	switch first := !c.used; {
	case first:
		*c = cell{used: true, tick: tick, last: max(c.last, now)}
	case now > c.last:
		c.last = now + width/lastSlack
	}
	c.calls++
	if slow {
		c.slow++
	}
}

// end is the end of a call. That of one which was not slow changes nothing: it was counted so.
func (m *model) end(now time.Duration, t ticket) {
	switch {
	case t.generation != m.generation:
	case t.probe && t.slow:
		m.open(now)
	case t.probe:
		m.period = 0
		m.enter(closed, now)
	case t.slow:
		m.judge(now)
	}
}

// ignore takes back a call that has just begun.
func (m *model) ignore(now time.Duration, t ticket) {
	switch c := &m.cells[uint64(now)>>m.shift%ringSize]; {
	case t.generation != m.generation:
	case t.probe:
		m.probing = false
	default:
		c.calls--
	}
}

// judge hands every ripe tick to the rule.
func (m *model) judge(now time.Duration) (opened bool) {
	if m.harvest(now) || m.rule.settle(now-m.threshold-m.tick()) {
		m.openings++
		m.open(now)
		return true
	}
	return false
}

func (m *model) harvest(now time.Duration) (opens bool) {
	m.ripens = math.MaxInt64
	oldest := uint64(now) >> m.shift
	for i := range m.cells {
		if m.cells[i].used {
			oldest = min(oldest, m.cells[i].tick)
		}
	}
	for i := range uint64(ringSize) {
		c := &m.cells[(oldest+i)%ringSize]
		if !c.used {
			continue
		}
		begin := time.Duration(c.tick << m.shift)
		if at := m.ripeAt(c, begin); at > now {
			m.ripens = min(m.ripens, at)
			continue
		}
		c.used = false
		if c.calls > 0 && m.rule.ripened(begin, c.calls, c.slow) {
			return true
		}
	}
	return false
}

func (m *model) ripeAt(c *cell, begin time.Duration) time.Duration {
	return min(c.last, begin+m.tick()) + m.threshold
}

func (m *model) open(now time.Duration) {
	m.period = min(max(2*m.period, basePeriod), longestPeriod)
	m.until, m.openedAt = now+m.period, now
	m.enter(open, now)
}

func (m *model) enter(s state, now time.Duration) {
	m.state, m.probing = s, false
	m.generation++
	if s != open {
		m.rule.reset(now)
	}
	for i := range m.cells {
		m.cells[i].used = false
	}
}
