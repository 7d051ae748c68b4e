package breaker

import (
	"slices"
	"time"
)

// A measure is what times the calls of a breaker. It is immutable, what it points to is
// not. A nil one measures nothing.
type measure struct {
	windows   []*latencyWindow // one a threshold
	window1   *latencyWindow   // that of windows, if it is the only one
	histogram *histogram
	limit     time.Duration // the lowest threshold of a rule that opens; 0: there is none
}

// measureLocked makes what the installed latency rules and the histogram need, and keeps
// what is there already.
func (b *Breaker) measureLocked(wantHistogram bool) {
	old, now := b.measure.Load(), b.clock.since()
	m := &measure{}
	for _, in := range b.mu.detectors {
		if d, ok := in.detector.(latencyDetector); ok {
			m.add(d.limit(), in.dry, old, now)
		}
	}
	if len(m.windows) == 0 && !wantHistogram {
		b.measure.Store(nil)
		return
	}
	if len(m.windows) == 1 {
		m.window1 = m.windows[0]
	}
	if m.histogram = new(histogram); old != nil {
		m.histogram = old.histogram
	}
	b.measure.Store(m)
}

func (m *measure) add(threshold time.Duration, dry bool, old *measure, now time.Duration) {
	if !dry && (m.limit == 0 || threshold < m.limit) {
		m.limit = threshold
	}
	if m.window(threshold) != nil {
		return
	}
	w := old.window(threshold)
	if w == nil {
		w = newLatencyWindow(threshold, now)
	}
	m.windows = append(m.windows, w)
}

func (m *measure) window(threshold time.Duration) *latencyWindow {
	if m == nil {
		return nil
	}
	i := slices.IndexFunc(m.windows, func(l *latencyWindow) bool { return l.threshold == threshold })
	if i < 0 {
		return nil
	}
	return m.windows[i]
}

// slow reports whether a probe took too long.
func (m *measure) slow(d time.Duration) bool { return m != nil && m.limit > 0 && d >= m.limit }

func (m *measure) record(d time.Duration) {
	if m != nil {
		m.histogram.record(d, 1)
	}
}

func (m *measure) forget() {
	if m == nil {
		return
	}
	for _, l := range m.windows {
		l.forget()
	}
}

// begin counts a call in every window, or in none.
func (m *measure) begin(now time.Duration) bool {
	for i, l := range m.windows {
		if !l.begin(now) {
			for _, before := range m.windows[:i] {
				before.withdraw(now, now)
			}
			return false
		}
	}
	return true
}

func (m *measure) due(now time.Duration) bool {
	for _, l := range m.windows {
		if l.due(now) {
			return true
		}
	}
	return false
}

// quickBegin is begin where nothing is due: one look at the clock, and one add for each
// threshold.
func (b *Breaker) quickBegin(word uint64) (now time.Duration, ok bool) {
	m := b.measure.Load()
	if m == nil || m.window1 == nil {
		return 0, false
	}
	now = b.clock.since()
	l := m.window1
	c, tag := l.at(now)
	if c.word.Load()&tickMask != tag || int64(now) >= l.ripens.Load() || int64(now) > c.last.Load() {
		return 0, false
	}
	if c.put(tag, beganOne)&tickMask != tag {
		return 0, false
	}
	if generationOf(b.word.Load()) != generationOf(word) {
		l.withdraw(now, now)
		return 0, false
	}
	return now, true
}

// begin starts to time a call, after the first one of a tick has judged the older
// ticks. Whoever does not get the lock leaves that to the next tick: the path never waits.
//
// A change of state forgets the windows after it has stored the word. So a begin that was
// not forgotten with the generation of its permit comes after the store, and sees here that
// the word has changed.
func (b *Breaker) begin(p *Permit, now time.Duration) answer {
	m := b.measure.Load()
	if m == nil { // Reconfigure has just switched it off
		p.word &^= measuredFlag
		return pass
	}
	if m.due(now) && b.judgeLatency(now) {
		return again
	}
	p.began = now
	if !m.begin(now) {
		p.word &^= measuredFlag
		return pass
	}
	if generationOf(b.word.Load()) != generationOf(p.word) {
		b.withdraw(now, now)
		return again
	}
	return pass
}

// end is the end of a call that succeeded.
func (b *Breaker) end(began time.Duration) {
	now, m := b.clock.since(), b.measure.Load()
	if m == nil {
		return
	}
	weight, slow := uint32(1), false
	for _, l := range m.windows {
		weight = weightOf(l.end(began, now))
		slow = slow || now-began >= l.threshold
	}
	if weight > 0 {
		m.histogram.record(now-began, weight)
	}
	if slow {
		b.judgeLatency(now)
	}
}

// endFailedLocked is the end of a call that failed: it is slow by its age, or nothing.
func (b *Breaker) endFailedLocked(began time.Duration) {
	now := b.clock.since()
	b.measure.Load().record(now - began)
	b.withdraw(began, now)
	b.judgeLatencyLocked(now)
}

func (b *Breaker) withdraw(began, now time.Duration) {
	m := b.measure.Load()
	if m == nil {
		return
	}
	for _, l := range m.windows {
		l.withdraw(began, now)
	}
}

// judgeLatency asks the latency rules, if the lock is free, and reports whether the
// breaker has moved.
func (b *Breaker) judgeLatency(now time.Duration) bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.unlockAndDeliver()
	return b.judgeLatencyLocked(now)
}

func (b *Breaker) judgeLatencyLocked(now time.Duration) (moved bool) {
	m := b.measure.Load()
	if m == nil {
		return false
	}
	for _, l := range m.windows {
		l.harvest(now, func(r ripe) bool {
			moved = b.ripenedLocked(l.threshold, r)
			return moved
		})
		if moved || b.settleLocked(l.threshold, now-l.threshold-l.tick()) {
			return true
		}
	}
	return false
}

func (b *Breaker) ripenedLocked(threshold time.Duration, r ripe) (opened bool) {
	return b.askLatencyLocked(threshold, func(d latencyDetector) (reason Reason, holds, judged bool) {
		reason, holds = d.ripened(r)
		return reason, holds, true
	})
}

func (b *Breaker) settleLocked(threshold, horizon time.Duration) (opened bool) {
	return b.askLatencyLocked(threshold, func(d latencyDetector) (reason Reason, holds, judged bool) {
		s, judged := d.(settler)
		if judged {
			reason, holds = s.settle(horizon)
		}
		return reason, holds, judged
	})
}

// askLatencyLocked asks the rules of one threshold, and opens if one of them says so.
func (b *Breaker) askLatencyLocked(threshold time.Duration, ask func(latencyDetector) (_ Reason, holds, judged bool)) (opened bool) {
	opens, reason := false, Reason{}
	for _, in := range b.mu.detectors {
		d, ok := in.detector.(latencyDetector)
		if !ok || d.limit() != threshold {
			continue
		}
		r, holds, judged := ask(d)
		if judged && b.opensLocked(in, r, holds) && !opens {
			opens, reason = true, r
		}
	}
	if !opens || b.State() != Closed {
		return false
	}
	b.openLocked(reason)
	return true
}

// latencyLocked is Stats.Latency.
func (b *Breaker) latencyLocked(now time.Duration) Latency {
	m := b.measure.Load()
	if m == nil {
		return Latency{}
	}
	return b.mu.readings.latency(m.histogram, now)
}
