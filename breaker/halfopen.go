package breaker

import (
	"sync/atomic"
	"time"
)

// A slot holds the reservation of one half-open probe, nil while it is free.
// nil to probe, and an expired probe to another: by the caller who reserves,
// lock-free. A probe to nil: by its Done under Breaker.mu, and by a caller whose
// reservation turns out stale. A reservation is a fresh pointer, so that no
// compare-and-swap mistakes one for another.
//
// A probe that is still under way when its half-open ends keeps its slot in the
// next one, until it reports or its lease is over: the target never sees more
// than Probe.Concurrent of them, whatever its result is worth by then.
type slot = atomic.Pointer[probe]

// A probe is a reservation: a lease on a slot. It is immutable.
type probe struct {
	slot  *slot
	start time.Duration // since the clock's base
	lease time.Duration
}

// expired reports whether the lease is over. A clock that jumped back by more
// than a lease ends it too (REQ-B18).
func (p *probe) expired(now time.Duration) bool {
	held := now - p.start
	return held >= p.lease || -held > p.lease
}

// newSlots makes n slots, keeping those of old that fit.
func newSlots(old []*slot, n int) []*slot {
	slots := append([]*slot(nil), old[:min(n, len(old))]...)
	for len(slots) < n {
		slots = append(slots, new(slot))
	}
	return slots
}

// reserve takes a slot under the half-open state word w. It returns nil if
// none is free, and stale if the breaker moved on meanwhile.
func (b *Breaker) reserve(w uint64, owner bool) (p *probe, stale bool) {
	s := b.settings.Load()
	if s.Probe.Reserved && !owner {
		return nil, false
	}
	now := b.clock.since()
	for _, sl := range s.slots {
		held := sl.Load()
		if held != nil && !held.expired(now) {
			continue
		}
		p = &probe{slot: sl, start: now, lease: s.Probe.Lease}
		if !sl.CompareAndSwap(held, p) {
			continue
		}
		// The slot may have been free only because the breaker left this
		// half-open: look again, and give a stale reservation back.
		if b.word.Load() == w && b.settings.Load() == s {
			return p, false
		}
		sl.CompareAndSwap(p, nil)
		return nil, true
	}
	return nil, false
}

func (b *Breaker) recordProbe(p *probe, word uint64, o Outcome, err error) {
	text := errorText(err)
	b.mu.Lock()
	defer b.unlockAndDeliver()
	// The slot is free only after the verdict, so that a decisive result admits
	// nobody in between.
	defer p.slot.CompareAndSwap(p, nil)
	if generationOf(b.word.Load()) != generationOf(word) || p.slot.Load() != p {
		b.late.Add(1) // an older generation, or the lease went to another caller
		return
	}
	switch o {
	case Ignored:
		b.ignored.Add(1)
	case Success:
		b.cell.Add(cellOne)
		b.mu.probeSuccesses++
		b.judgeHalfOpenLocked()
	default:
		b.failLocked()
		b.openLocked(Reason{Rule: RuleProbeFailure}.withError(text))
	}
}

// judgeHalfOpenLocked closes the breaker if what was seen in this half-open
// says so (REQ-B5, REQ-B7). A failure never comes here: it opens at once.
func (b *Breaker) judgeHalfOpenLocked() {
	settled, tolerable := true, true
	for _, d := range b.mu.signals {
		settled = settled && d.settled()
		tolerable = tolerable && d.tolerable()
	}
	need := b.settings.Load().Probe.Successes
	if b.mu.probeSuccesses >= need && settled || b.mu.expired && b.mu.probeSuccesses > 0 && tolerable {
		b.mu.closedAt = b.clock.since()
		b.moveLocked(Closed, Reason{
			Rule: RuleRecovered, Value: float64(b.mu.probeSuccesses), Threshold: float64(need), Detail: "probes in a row",
		})
	}
}

// expireLocked gives the verdict when Probe.Longest has passed.
func (b *Breaker) expireLocked() {
	b.mu.expired = true
	b.judgeHalfOpenLocked()
	if b.State() != HalfOpen || !b.hasSignalLocked() {
		return
	}
	longest := b.settings.Load().Probe.Longest.Seconds()
	b.openLocked(Reason{
		Rule: RuleHalfOpenExpired, Value: longest, Threshold: longest, Unit: "s",
		Detail: "no probe succeeded, or a signal was not observed",
	})
}

func (b *Breaker) hasSignalLocked() bool {
	for _, d := range b.mu.signals {
		if !d.rule.inert() {
			return true
		}
	}
	return false
}
