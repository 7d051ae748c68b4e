package breaker

import (
	"math/rand/v2"
	"time"
	"weak"
)

// openLocked opens for a period that REQ-B6 gives, from Closed or HalfOpen.
func (b *Breaker) openLocked(r Reason) {
	b.mu.backoff = b.nextPeriodLocked()
	b.openForLocked(b.mu.backoff, r)
}

// tripForLocked opens for d, and leaves the period from which later openings go on.
func (b *Breaker) tripForLocked(d time.Duration, r Reason) {
	if b.isCleanLocked() {
		b.mu.backoff = 0
	}
	b.openForLocked(d, r)
}

// openForLocked opens for d, from Closed or HalfOpen.
func (b *Breaker) openForLocked(d time.Duration, r Reason) {
	b.mu.period = d
	b.mu.openReason = r
	if b.mu.openings++; b.mu.openings > 1 && b.State() == Closed {
		b.mu.relapses.add(b.clock.since())
	}
	b.moveLocked(Open, r)
}

// extendLocked makes the present open period end no sooner than d from now.
func (b *Breaker) extendLocked(d time.Duration) {
	refusal := *b.refusal.Load()
	if refusal.RetryAfter() >= d {
		return
	}
	refusal.longest = d + refusal.jitter
	refusal.retryAt = b.clock.since() + refusal.longest
	b.mu.stopTimer()
	b.mu.alarm++
	b.armLocked(refusal.longest)
	b.refusal.Store(&refusal)
}

// nextPeriodLocked is the next open period, before jitter: Base, or twice the
// period before after a failed recovery, or a relapse in the ramp or within Sticky of a close.
func (b *Breaker) nextPeriodLocked() time.Duration {
	o := b.settings.Load().Open
	switch {
	case b.mu.backoff == 0, b.isCleanLocked():
		return o.Base
	case b.mu.backoff > o.Max/2:
		return o.Max
	default:
		return max(2*b.mu.backoff, o.Base)
	}
}

// isCleanLocked reports whether the breaker has closed for good: an opening now is no relapse.
func (b *Breaker) isCleanLocked() bool {
	sticky := b.settings.Load().Open.Sticky
	relapse := b.ramp.on || sticky > 0 && b.clock.since()-b.mu.closedAt <= sticky
	return b.State() == Closed && !relapse
}

// moveLocked changes the state: every change goes through here. The cells move
// to the new generation before the word does, so that a call which is admitted
// under the new word finds its cell ready; a result in between is one of the
// old generation and dropped.
func (b *Breaker) moveLocked(to State, r Reason) {
	if b.mu.stopTimer != nil {
		b.mu.stopTimer()
		b.mu.stopTimer = nil
	}
	b.mu.alarm++
	word := b.loadWord()
	from, generation := stateOf(word), generationOf(word)+1
	step := generation&cellGenMask - (generation-1)&cellGenMask
	b.cellsLocked(func(c *cell) { c.word.Add(step) })
	b.mu.since, b.mu.reason = b.clock.wall(), r
	b.ramp.on = from == HalfOpen && to == Closed && r.Rule == RuleRecovered && b.settings.Load().Ramp.For > 0
	b.enterLocked(to)
	b.storeWord(pack(generation, to, b.flagsLocked()))
	b.mu.fast += b.measure.Load().forget() // after the word: see begin
	if from != to {
		b.pushLocked(event{transition: &Transition{
			Name: b.name, From: from, To: to, At: b.mu.since, Generation: generation, Reason: r, OpenPeriod: b.mu.period,
		}})
	}
}

// enterLocked prepares a state before the state word names it.
func (b *Breaker) enterLocked(to State) {
	b.leaveLocked()
	if to != Open {
		b.cleanLocked()
	}
	refusal := &OpenError{Name: b.name, State: to, Reason: b.mu.openReason, clock: b.clock}
	s := b.settings.Load()
	switch to {
	case Open:
		refusal.jitter = jitter(s.Open.Jitter)
		refusal.longest = b.mu.period + refusal.jitter
		refusal.retryAt = b.clock.since() + refusal.longest
		b.armLocked(refusal.longest)
	case HalfOpen:
		b.mu.probeSuccesses, b.mu.probeFailures, b.mu.expired = 0, 0, false
		b.armLocked(s.Probe.Longest)
	case ForcedOpen:
		refusal.Reason = b.mu.reason
	case Closed:
		if !b.ramp.on {
			return
		}
		b.ramp.begin(b.tallyLocked())
		b.armLocked(s.Ramp.For)
	default:
		return
	}
	b.refusal.Store(refusal)
}

// leaveLocked adds up the time of the state that ends, which the state word still names.
func (b *Breaker) leaveLocked() {
	now := b.clock.since()
	if refuses(b.State()) {
		b.mu.refusing += max(0, now-b.mu.enteredAt)
	}
	b.mu.enteredAt = now
}

// cleanLocked forgets what the rules measured.
func (b *Breaker) cleanLocked() {
	t := b.tallyLocked()
	b.mu.streak, b.mu.streakMark = 0, t.successes
	t.streak = 0
	for _, in := range b.mu.detectors {
		in.reset(t)
		in.firing = false
	}
	b.retimeLocked()
}

// jitter draws from 0 to limit; it is asked once an opening (REQ-B6).
func jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return rand.N(limit + 1) //nolint:gosec // spreads probes, guards nothing
}

// armLocked sets the timer of a state. It does not keep a dropped breaker
// alive: a breaker has no Close, and one with a Signal would re-arm for ever.
func (b *Breaker) armLocked(d time.Duration) {
	ref, alarm := weak.Make(b), b.mu.alarm
	b.mu.stopTimer = b.clock.after(d, func() {
		if b := ref.Value(); b != nil {
			b.wake(alarm)
		}
	})
}

// wake is what the timer of a state does. One that was stopped too late, because the state
// has changed or its open period was lengthened meanwhile, does nothing.
func (b *Breaker) wake(alarm uint64) {
	b.mu.Lock()
	defer b.unlockAndDeliver()
	if alarm == b.mu.alarm {
		b.wakeLocked()
	}
}

func (b *Breaker) wakeLocked() {
	word := b.loadWord()
	switch stateOf(word) {
	case Open:
		b.moveLocked(HalfOpen, Reason{Rule: RuleOpenPeriodOver})
	case HalfOpen:
		b.expireLocked()
	case Closed:
		b.ramp.on = false
		b.storeWord(pack(generationOf(word), Closed, b.flagsLocked()))
	default:
	}
}
