package limit

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// A Bulkhead lets at most Limit calls run at once (REQ-E1). Make it with
// [NewBulkhead]; it must not be copied. All its methods may be called at any time
// from any goroutine.
type Bulkhead struct {
	word    atomic.Uint64 // layout below
	peak    atomic.Uint64 // the most calls in flight so far
	refused atomic.Uint64

	mu struct {
		sync.Mutex
		maxWaiting int
		queue      list.List // of chan struct{}, oldest first; as many as the word says wait
	}
}

// The word of a bulkhead:
//
//	bits 0..19   calls in flight
//	bits 20..39  callers that wait, written only under Bulkhead.mu
//	bits 40..59  Limit, written only under Bulkhead.mu
//
// Legal changes, each one compare-and-swap or add: a call enters (in flight + 1,
// only while nobody waits and in flight < Limit); a call ends (in flight - 1, not
// below 0). Under mu: a caller begins to wait (waiting + 1), is given a slot
// (waiting - 1 and in flight + 1, only while in flight < Limit) or gives up
// (waiting - 1); Limit changes.
//
// No wake-up is lost, since who frees a slot learns from the same word whether
// anybody waits: either it sees a waiter, then takes mu and gives the slot away,
// or the waiter came later, and then sees the free slot itself before it sleeps.
const (
	fieldBits    = 20
	fieldMask    = 1<<fieldBits - 1
	waitingShift = fieldBits
	waitingOne   = 1 << waitingShift
	limitShift   = 2 * fieldBits
	limitMask    = fieldMask << limitShift
)

func inFlightOf(word uint64) uint64 { return word & fieldMask }
func waitingOf(word uint64) uint64  { return word >> waitingShift & fieldMask }
func limitOf(word uint64) uint64    { return word >> limitShift }

// hasRoom reports whether in flight is below the limit.
func hasRoom(word uint64) bool { return inFlightOf(word) < limitOf(word) }

// NewBulkhead makes an empty bulkhead. The error names every fault of the config.
func NewBulkhead(c BulkheadConfig) (*Bulkhead, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Bulkhead{}
	b.mu.maxWaiting = c.MaxWaiting
	b.word.Store(uint64(c.Limit) << limitShift)
	return b, nil
}

// A Permit is one call in flight. The zero value, and a permit that was released,
// do nothing. Do not copy a permit: a second Release by a copy would end another
// call's slot, though never one below none in flight. A permit that is never
// released holds its slot for good: defer Release.
type Permit struct {
	b    *Bulkhead
	held bool
}

// Acquire takes a slot if one is free and nobody waits for it. It never waits.
func (b *Bulkhead) Acquire() (Permit, bool) {
	if !b.enter() {
		b.refused.Add(1)
		return Permit{}, false
	}
	return Permit{b: b, held: true}, true
}

// enter ends: each further turn needs a change of the word since the turn before.
func (b *Bulkhead) enter() bool {
	for {
		word := b.word.Load()
		if waitingOf(word) > 0 || !hasRoom(word) {
			return false
		}
		if b.word.CompareAndSwap(word, word+1) {
			b.notePeak(inFlightOf(word + 1))
			return true
		}
	}
}

// notePeak ends: the peak only grows, up to the largest Limit.
func (b *Bulkhead) notePeak(n uint64) {
	for peak := b.peak.Load(); n > peak; peak = b.peak.Load() {
		if b.peak.CompareAndSwap(peak, n) {
			return
		}
	}
}

// Release ends the call, once: it gives the slot to the caller that has waited
// longest, if any.
func (p *Permit) Release() {
	if p.held {
		p.held = false
		p.b.leave()
	}
}

// leave ends: each further turn needs a change of the word since the turn before.
func (b *Bulkhead) leave() {
	for {
		word := b.word.Load()
		if inFlightOf(word) == 0 {
			return // by the copy of a permit
		}
		if b.word.CompareAndSwap(word, word-1) {
			if waitingOf(word) > 0 {
				b.grant()
			}
			return
		}
	}
}

// Reconfigure changes the limits of a running bulkhead. Calls in flight and
// waiting callers stay, also if there are more than allowed now; a larger Limit is
// given to waiting callers at once. The error names every fault; nothing has
// changed then.
func (b *Bulkhead) Reconfigure(c BulkheadConfig) error {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.maxWaiting = c.MaxWaiting
	b.setLimitLocked(uint64(c.Limit))
	b.grantLocked()
	return nil
}

// setLimitLocked ends: each further turn needs a call that entered or ended since
// the turn before.
func (b *Bulkhead) setLimitLocked(limit uint64) {
	for {
		word := b.word.Load()
		if b.word.CompareAndSwap(word, word&^limitMask|limit<<limitShift) {
			return
		}
	}
}

// BulkheadStats is a snapshot of a bulkhead. InFlight, Waiting and Limit are of
// one moment. Counters run from NewBulkhead and only grow.
type BulkheadStats struct {
	InFlight int // calls that run; above Limit for a while after it was lowered
	Waiting  int // callers in AcquireWithin
	Limit    int
	Peak     int    // the most calls in flight since NewBulkhead
	Refused  uint64 // callers that got no slot: none was free in their time, too many waited, or their context ended
}

// Stats returns what the bulkhead counted, by three atomic loads.
func (b *Bulkhead) Stats() BulkheadStats {
	word := b.word.Load()
	return BulkheadStats{
		InFlight: int(inFlightOf(word)),
		Waiting:  int(waitingOf(word)),
		Limit:    int(limitOf(word)),
		Peak:     int(max(b.peak.Load(), inFlightOf(word))), // a call enters before it notes the peak
		Refused:  b.refused.Load(),
	}
}
