package breaker

import "time"

// A memory is what is left of a breaker of a [Set] that is not closed: enough to
// go on as if there had been no other. It is immutable, and does not keep its
// breaker alive.
type memory struct {
	state      State
	generation uint64
	since      time.Time
	reason     Reason // of the newest transition
	period     time.Duration
	backoff    time.Duration
	refusal    *OpenError
	stopTimer  func() bool // of the breaker's own timer, nil if it has none
}

// rememberLocked brings the memory up to date. It is called at the end of each
// critical section that can change the state, so that whoever finds the breaker
// collected finds its last state here; for a breaker outside a Set it does nothing.
func (b *Breaker) rememberLocked() {
	if b.memory == nil {
		return
	}
	word, refusal, m := b.loadWord(), b.refusal.Load(), b.memory.Load()
	switch {
	case stateOf(word) == Closed:
		if m != nil {
			b.memory.Store(nil)
		}
	case m == nil, m.generation != generationOf(word), m.refusal != refusal:
		b.memory.Store(&memory{
			state: stateOf(word), generation: generationOf(word), since: b.mu.since, reason: b.mu.reason,
			period: b.mu.period, backoff: b.mu.backoff, refusal: refusal, stopTimer: b.mu.stopTimer,
		})
	}
}

// withoutTimer is m once its breaker was collected: the timer would find
// nothing, and takes as much as the rest.
func (m *memory) withoutTimer() *memory {
	if m.stopTimer == nil {
		return m
	}
	m.stopTimer()
	rest := *m
	rest.stopTimer = nil
	return &rest
}

// restore puts a breaker that nobody has yet into the state of m: a refusal says
// what it said, the open period ends when it would have, and the next transition
// follows that of m.
func (b *Breaker) restore(m *memory) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.since, b.mu.reason = m.since, m.reason
	b.mu.period, b.mu.backoff = m.period, m.backoff
	if m.refusal != nil {
		b.mu.openReason = m.refusal.Reason
		b.refusal.Store(m.refusal)
	}
	b.cell.word.Add(m.generation & cellGenMask)
	b.storeWord(pack(m.generation, m.state, b.flagsLocked()))
	if m.state == Open || m.state == HalfOpen {
		b.armLocked(m.left(b))
	}
}

// overdue is wake for a restored breaker whose state should have ended before.
func (b *Breaker) overdue(m *memory) {
	b.mu.Lock()
	defer b.unlockAndDeliver()
	if m.left(b) == 0 && generationOf(b.loadWord()) == m.generation {
		b.wakeLocked()
	}
}

// left is how long the state of m still lasts, if only time ends it.
func (m *memory) left(b *Breaker) time.Duration {
	switch m.state {
	case Open:
		return m.refusal.RetryAfter()
	case HalfOpen:
		longest := b.settings.Load().Probe.Longest
		return min(max(0, longest-b.clock.wall().Sub(m.since)), longest)
	default:
		return longestDuration
	}
}
