package breaker

import (
	"fmt"
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

// reserve takes a slot under the half-open state word of the permit.
func (b *Breaker) reserve(permit *Permit, owner bool) answer {
	s := b.settings.Load()
	if s.Probe.Reserved && !owner {
		return refuse
	}
	now := b.clock.since()
	for _, sl := range s.slots {
		held := sl.Load()
		if held != nil && !held.expired(now) {
			continue
		}
		p := &probe{slot: sl, start: now, lease: s.Probe.Lease}
		if !sl.CompareAndSwap(held, p) {
			continue
		}
		// The slot may have been free only because the breaker left this
		// half-open: look again, and give a stale reservation back.
		if b.loadWord() == permit.word && b.settings.Load() == s {
			permit.probe = p
			return pass
		}
		sl.CompareAndSwap(p, nil)
		return again
	}
	return refuse
}

func (b *Breaker) recordProbe(permit *Permit, word uint64, o Outcome, err error) {
	p := permit.probe
	text := errorText(err)
	b.mu.Lock()
	defer b.unlockAndDeliver()
	// The slot is free only after the verdict, so that a decisive result admits
	// nobody in between.
	defer p.slot.CompareAndSwap(p, nil)
	if generationOf(b.loadWord()) != generationOf(word) || p.slot.Load() != p {
		b.late.Add(1) // an older generation, or the lease went to another caller
		return
	}
	if o == Ignored {
		b.ignored.Add(1)
		return
	}
	held := b.clock.since() - p.start
	if permit.began != 0 {
		held = permit.began - p.start
	}
	m := b.measure.Load()
	m.record(held)
	switch {
	case o == Success && !m.slow(held):
		b.cell.word.Add(cellOne)
		b.mu.probeSuccesses++
		b.judgeHalfOpenLocked()
	case o == Success:
		b.cell.word.Add(cellOne)
		b.probeFailedLocked(o, Reason{Rule: RuleProbeSlow, Value: held.Seconds(), Threshold: m.limit.Seconds(), Unit: "s"})
	default:
		b.failLocked()
		b.probeFailedLocked(o, Reason{Rule: RuleProbeFailure}.withError(text))
	}
}

// probeFailedLocked opens again: at once, or with a verdict by rate as soon as that is out
// of reach.
func (b *Breaker) probeFailedLocked(o Outcome, r Reason) {
	b.mu.probeFailures++
	p := b.settings.Load().Probe
	if p.Of == 0 || o == Fatal || b.mu.probeFailures > p.Of-p.need() {
		b.openLocked(r)
		return
	}
	b.judgeHalfOpenLocked()
}

// need is how many probes must succeed: in a row, or of Of.
func (p Probe) need() int {
	if p.Of == 0 {
		return p.Successes
	}
	n := int(p.Rate * float64(p.Of))
	for n > 0 && float64(n-1)/float64(p.Of) >= p.Rate {
		n--
	}
	for float64(n)/float64(p.Of) < p.Rate {
		n++
	}
	return max(n, 1)
}

// judgeHalfOpenLocked closes the breaker if what was seen in this half-open
// says so (REQ-B5, REQ-B7).
func (b *Breaker) judgeHalfOpenLocked() {
	settled, tolerable := true, true
	for _, in := range b.mu.detectors {
		if d, ok := in.detector.(*signalDetector); ok && !in.dry {
			settled = settled && d.settled()
			tolerable = tolerable && d.tolerable()
		}
	}
	p := b.settings.Load().Probe
	need := p.need()
	switch {
	case b.mu.probeSuccesses >= need && settled:
		b.recoverLocked(need, p.detail())
	case b.mu.expired && b.goodSoFarLocked(p) && tolerable: // fewer than asked for: all there were
		b.recoverLocked(b.mu.probeSuccesses, fmt.Sprintf("of the %d probes until Probe.Longest", b.mu.probeSuccesses+b.mu.probeFailures))
	}
}

// goodSoFarLocked judges the probes of a half-open that has lasted too long.
func (b *Breaker) goodSoFarLocked(p Probe) bool {
	good, all := b.mu.probeSuccesses, b.mu.probeSuccesses+b.mu.probeFailures
	return good > 0 && (p.Of == 0 || float64(good)/float64(all) >= p.Rate)
}

func (p Probe) detail() string {
	if p.Of == 0 {
		return "probes in a row"
	}
	return fmt.Sprintf("of %d probes", p.Of)
}

func (b *Breaker) recoverLocked(need int, detail string) {
	b.mu.closedAt = b.clock.since()
	b.moveLocked(Closed, Reason{
		Rule: RuleRecovered, Value: float64(b.mu.probeSuccesses), Threshold: float64(need), Detail: detail,
	})
}

// expireLocked gives the verdict when Probe.Longest has passed.
func (b *Breaker) expireLocked() {
	b.mu.expired = true
	p := b.settings.Load().Probe
	if p.Expiry == ExpireClosed {
		b.recoverLocked(b.mu.probeSuccesses, "Probe.Longest passed")
		return
	}
	if p.Expiry == ExpireByEvidence {
		b.judgeHalfOpenLocked()
		if b.State() != HalfOpen || b.mu.probeFailures == 0 && !b.hasSignalLocked() {
			return
		}
	}
	longest := p.Longest.Seconds()
	b.openLocked(Reason{
		Rule: RuleHalfOpenExpired, Value: longest, Threshold: longest, Unit: "s",
		Detail: "too few probes succeeded, or a signal was not observed",
	})
}

func (b *Breaker) hasSignalLocked() bool {
	for _, in := range b.mu.detectors {
		if d, ok := in.detector.(*signalDetector); ok && !in.dry && !d.rule.inert() {
			return true
		}
	}
	return false
}
