package breaker

import (
	"slices"
	"time"
)

// A measure is what times the calls of a breaker. It is immutable, what it points to is
// not. A nil one measures nothing.
type measure struct {
	windows   []*latencyWindow // one a threshold; the cells of the first one count successes too
	window1   *latencyWindow   // that of windows, if it is the only one
	clock     *realClock       // the breaker's, if it is a real one: a call through an interface less
	histogram *histogram
	born      time.Duration // of the histogram
	limit     time.Duration // the lowest threshold of a rule that opens; 0: there is none
}

// measureLocked makes what the installed latency rules and the histogram need, and keeps
// what is there already.
func (b *Breaker) measureLocked(wantHistogram bool) {
	old, now := b.measure.Load(), b.clock.since()
	m := &measure{}
	defer b.replacedLocked(old)
	for _, in := range b.mu.detectors {
		if d, ok := in.detector.(latencyDetector); ok {
			m.add(d.limit(), in.dry, old, now)
		}
	}
	if len(m.windows) == 0 && !wantHistogram {
		b.measure.Store(nil)
		return
	}
	m.windows = old.keepFirst(m.windows, now)
	if len(m.windows) == 1 {
		m.window1 = m.windows[0]
		m.clock, _ = b.clock.(*realClock)
	}
	if old != nil {
		m.histogram, m.born = old.histogram, old.born
	} else {
		m.histogram, m.born = new(histogram), now
		b.mu.readings = nil // those of one that was switched off
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

// keepFirst makes the first of the old windows the first of the new ones: its cells have counted
// successes. If it is gone, a new one takes its place, for the others have not.
func (m *measure) keepFirst(windows []*latencyWindow, now time.Duration) []*latencyWindow {
	if m == nil || len(m.windows) == 0 || len(windows) == 0 {
		return windows
	}
	if i := slices.Index(windows, m.windows[0]); i >= 0 {
		windows[0], windows[i] = windows[i], windows[0]
	} else {
		windows[0] = newLatencyWindow(windows[0].threshold, now)
	}
	return windows
}

// replacedLocked keeps the successes that the cells of a dropped first window have counted. Calls that
// still have it in hand find it closed.
func (b *Breaker) replacedLocked(old *measure) {
	if old == nil || len(old.windows) == 0 {
		return
	}
	if first := old.windows[0]; b.measure.Load().window(first.threshold) != first {
		b.mu.fast += first.close()
	}
}

// fastLocked is how many successes were counted in cells of the first window.
func (b *Breaker) fastLocked() uint64 {
	m := b.measure.Load()
	if m == nil || len(m.windows) == 0 {
		return b.mu.fast
	}
	return b.mu.fast + m.windows[0].fast()
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

// forget empties the windows, and returns what the first one held of successes.
func (m *measure) forget() (fast uint64) {
	if m == nil {
		return 0
	}
	for i, l := range m.windows {
		if n := l.forget(); i == 0 {
			fast = n
		}
	}
	return fast
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
	if m.clock != nil {
		now = time.Since(m.clock.base)
	} else {
		now = b.clock.since()
	}
	l := m.window1
	c, tag := l.at(now)
	if c.word.Load()&tickMask != tag || int64(now) >= l.ripens.Load() || int64(now) > c.last.Load() {
		return 0, false
	}
	if c.put(tag, beganOne)&tickMask != tag {
		return 0, false
	}
	if b.loadWord() != word {
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
	if m.due(now) && b.judgeLatency() {
		return again
	}
	p.began = now
	if !m.begin(now) {
		p.word &^= measuredFlag
		return pass
	}
	if generationOf(b.loadWord()) != generationOf(p.word) {
		b.withdraw(now, now)
		return again
	}
	return pass
}

// quickEnd is endTimed for a call that was not slow, where there is one threshold and no
// time window; else it does nothing.
func (b *Breaker) quickEnd(word uint64, began time.Duration) bool {
	m := b.measure.Load()
	if m == nil || m.window1 == nil || word&timedFlag != 0 || b.loadWord() != word {
		return false
	}
	l, took := m.window1, -began
	if m.clock != nil {
		took += time.Since(m.clock.base)
	} else {
		took += b.clock.since()
	}
	c, tag := l.at(began)
	if began < l.born || took >= l.threshold || c.word.Load()&tickMask != tag {
		return false
	}
	n := c.word.Add(fastOne)
	if n&tickMask != tag {
		return !c.takeBack(n&tickMask, fastOne) // see latencyWindow.end
	}
	if w := b.loadWord(); w != word && generationOf(w) != generationOf(word) {
		b.undo(&b.cell) // see countFast
	}
	if weight := weightOf(n & fastMask); weight > 0 {
		m.histogram.record(took, weight)
	}
	return true
}

// endTimed is the end of a timed call that succeeded. Where the first window counts it as
// not slow, that is its count as a success too: an add is the dearest part of a call.
func (b *Breaker) endTimed(word uint64, began time.Duration) {
	now, m := b.clock.since(), b.measure.Load()
	if generationOf(b.loadWord()) != generationOf(word) {
		b.late.Add(1)
		return
	}
	n := uint64(0)
	if m != nil && len(m.windows) > 0 {
		n = m.windows[0].end(began, now)
	}
	if n == 0 {
		b.countSuccess(word)
	} else {
		b.countFast(word, n)
	}
	if m != nil {
		b.endOthers(m, began, now, weightOf(n))
	}
}

// answered is the end of a timed call's duration, before its outcome is known. The cell of
// successes takes back what the first window counts as one.
func (b *Breaker) answered(word uint64, began time.Duration) {
	now, m := b.clock.since(), b.measure.Load()
	if m == nil || generationOf(b.loadWord()) != generationOf(word) {
		return
	}
	n := uint64(0)
	if len(m.windows) > 0 {
		if n = m.windows[0].end(began, now); n > 0 {
			b.cell.word.Add(^uint64(cellOne - 1))
		}
	}
	b.endOthers(m, began, now, weightOf(n))
}

// countFast looks again after a success was counted in a cell of the first window. If the
// state has changed, that cell was or will be emptied into Breaker.mu.fast, so the cell of
// successes takes it back.
func (b *Breaker) countFast(word, n uint64) {
	switch {
	case generationOf(b.loadWord()) != generationOf(word):
		b.undo(&b.cell)
	case word&timedFlag != 0 && n&b.sampling.Load() == 0:
		b.rollWindows()
	}
}

// endOthers is what else there is to do at the end of a call that succeeded.
func (b *Breaker) endOthers(m *measure, began, now time.Duration, weight uint32) {
	if weight > 0 {
		m.histogram.record(now-began, weight)
	}
	slow := false
	for i, l := range m.windows {
		if i > 0 {
			l.end(began, now)
		}
		slow = slow || now-began >= l.threshold
	}
	if slow {
		b.judgeLatency()
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
func (b *Breaker) judgeLatency() bool {
	if !b.mu.TryLock() {
		return false
	}
	defer b.unlockAndDeliver()
	return b.judgeLatencyLocked(b.clock.since())
}

func (b *Breaker) judgeLatencyLocked(now time.Duration) (moved bool) {
	m := b.measure.Load()
	if m == nil {
		return false
	}
	for i, l := range m.windows {
		l.harvest(now, func(r ripe) bool {
			if i == 0 {
				b.mu.fast += r.fast // also where every call of the tick was withdrawn, and only a late one is left
			}
			moved = r.calls > 0 && b.ripenedLocked(l.threshold, r)
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
	if b.mu.readings == nil {
		b.mu.readings = new(readings)
	}
	return b.mu.readings.latency(m.histogram, m.born, now)
}
