package breaker

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A latencyWindow counts, for the rules of one threshold, how many calls began and how
// many of them ended within the threshold, by the tick in which they began. Once every
// call of a tick is older than the threshold, those that have not ended in time are slow:
// a call that hangs counts before it returns, and once (behaviours-breaker 29).
//
// A tick is a sixteenth to an eighth of the threshold, so that its ring is half empty; a tick
// that is over is judged by the first call that begins once it is ripe, or by the
// first of a later tick.
type latencyWindow struct {
	threshold time.Duration // immutable
	shift     uint          // a tick is 2^shift ns; immutable
	born      time.Duration // calls that began before it are not in it; immutable
	cells     [latencyTicks]latencyCell
	ripens    atomic.Int64 // when the oldest tick that is over and not judged is ripe; written under Breaker.mu
}

// A latencyCell holds one tick:
//
//	bits 0..21   calls that ended within the threshold
//	bits 22..43  calls that began
//	bits 44..62  the tick, modulo 2^19
//	bit  63      the cell is in use; a free cell is 0
//
// Zero to in use: by compare-and-swap, by the first call of a tick. In use to zero: under
// Breaker.mu, when it is judged or forgotten. Calls add to it; the sum tells whether
// it still is their tick, and if not they take their part away again. What is taken away goes by
// compare-and-swap: an add of a negative number to a cell that was emptied meanwhile
// would look like millions of slow calls.
type latencyCell struct {
	word atomic.Uint64
	last atomic.Int64 // no call of the tick began later, and hardly any long before
}

const (
	latencyTicks  = 32
	ticksPerLimit = 8 // at least, in one threshold
	lastSlack     = 8 // how many times a tick its last is moved, at most

	fastOne   = 1
	fastMask  = 1<<22 - 1
	beganOne  = 1 << 22
	beganBits = 44
	tickMask  = ^uint64(1<<beganBits - 1)
	inUse     = 1 << 63

	closedCell = inUse >> 1 // neither free nor in use
)

func newLatencyWindow(threshold, now time.Duration) *latencyWindow {
	tick := uint64(threshold / ticksPerLimit)
	return &latencyWindow{threshold: threshold, shift: uint(bits.Len64(tick) - 1), born: now}
}

func (l *latencyWindow) tick() time.Duration { return 1 << l.shift }

// at is the cell of an instant, and what its word must hold above the counts.
func (l *latencyWindow) at(instant time.Duration) (*latencyCell, uint64) {
	tick := uint64(instant) >> (l.shift & 63) // a shift that the compiler need not check
	return &l.cells[tick%latencyTicks], inUse | tick<<beganBits
}

// due reports whether something may be ripe at now that nobody has judged: a tick that was
// ripe to come, or the ticks before this one, if no call has begun in this one yet.
func (l *latencyWindow) due(now time.Duration) bool {
	c, tag := l.at(now)
	return c.word.Load()&tickMask != tag || int64(now) >= l.ripens.Load()
}

// begin counts a call that begins now. It fails, and the call goes unmeasured, where
// nobody could judge what is still in the cell.
func (l *latencyWindow) begin(now time.Duration) bool {
	c, tag := l.at(now)
	switch w := c.word.Load(); {
	case w&tickMask == tag:
		c.raiseLast(now, now+l.tick()/lastSlack)
	case w == 0:
		c.raiseLast(now, now) // first: it tells which tick the word means
		if c.word.CompareAndSwap(0, tag|beganOne) {
			return true
		}
	}
	return c.add(tag, beganOne)
}

// raiseLast moves last to a later instant if now is not covered. It only ever grows: a tick must
// not be ripe before its last call.
func (c *latencyCell) raiseLast(now, to time.Duration) {
	for {
		last := c.last.Load()
		if int64(now) <= last || c.last.CompareAndSwap(last, int64(to)) {
			return
		}
	}
}

// add counts for the tick of tag only.
func (c *latencyCell) add(tag, n uint64) bool {
	return c.word.Load()&tickMask == tag && c.put(tag, n)&tickMask == tag
}

// put is add where the tick was right a moment ago, and returns the sum.
func (c *latencyCell) put(tag, n uint64) (sum uint64) {
	sum = c.word.Add(n)
	if sum&tickMask != tag {
		c.takeBack(sum&tickMask, n)
	}
	return sum
}

// takeBack takes n out of a cell that has the tick of tag. Once that is emptied, n went with it, and
// false is returned. The loop ends: each further turn needs a change by somebody else.
func (c *latencyCell) takeBack(tag, n uint64) bool {
	for {
		w := c.word.Load()
		if w&tickMask != tag {
			return tag&inUse == 0
		}
		if c.word.CompareAndSwap(w, w-n) {
			return true
		}
	}
}

// end counts the end of a call that began then, if it was not slow and its tick has not been
// judged, and returns how many of the tick were counted so; 0 if it was not.
func (l *latencyWindow) end(began, now time.Duration) (fast uint64) {
	if began < l.born || now-began >= l.threshold {
		return 0
	}
	c, tag := l.at(began)
	if c.word.Load()&tickMask != tag {
		return 0
	}
	sum := c.word.Add(fastOne)
	if sum&tickMask == tag {
		return sum & fastMask
	}
	if c.takeBack(sum&tickMask, fastOne) {
		return 0
	}
	return 1 // it went with the tick that the cell was emptied of
}

// withdraw takes a call back that ended before it could be slow and says nothing about
// how fast the target is.
func (l *latencyWindow) withdraw(began, now time.Duration) {
	if began >= l.born && now-began < l.threshold {
		c, tag := l.at(began)
		c.takeBack(tag, beganOne)
	}
}

// A ripe is what became of the calls of one tick.
type ripe struct {
	at                time.Duration // begin of the tick, since the clock's base
	calls, fast, slow uint64
}

// harvest empties the ripe cells, the oldest first, and hands them to take until that says
// stop. It runs under Breaker.mu.
func (l *latencyWindow) harvest(now time.Duration, take func(ripe) (stop bool)) {
	next := time.Duration(math.MaxInt64)
	defer func() { l.ripens.Store(int64(next)) }()
	oldest := l.oldest(uint64(now) >> l.shift)
	for i := range uint64(latencyTicks) {
		c := &l.cells[(oldest+i)%latencyTicks]
		w := c.word.Load()
		if w&inUse == 0 {
			continue
		}
		if at := l.ripeAt(c, w); at > now {
			next = min(next, at)
			continue
		}
		if take(l.empty(c)) {
			return
		}
	}
}

// oldest is the oldest tick in use. After an idle time that may be any one, and the ring begins with it.
func (l *latencyWindow) oldest(newest uint64) uint64 {
	oldest := newest
	for i := range l.cells {
		if w := l.cells[i].word.Load(); w&inUse != 0 {
			oldest = min(oldest, l.tickOf(&l.cells[i], w))
		}
	}
	return oldest
}

// empty takes what is in a cell out of it.
func (l *latencyWindow) empty(c *latencyCell) ripe {
	w := c.word.Swap(0)
	began, fast := w&^tickMask>>22, w&fastMask
	return ripe{
		at:    time.Duration(l.tickOf(c, w) << l.shift),
		calls: began, fast: fast, slow: began - min(fast, began),
	}
}

// ripeAt is when no call of a cell can end within the threshold any more.
func (l *latencyWindow) ripeAt(c *latencyCell, w uint64) time.Duration {
	begin := time.Duration(l.tickOf(c, w) << l.shift)
	end, last := begin+l.tick(), time.Duration(c.last.Load())
	if last < begin || last > end {
		last = end
	}
	return last + l.threshold
}

// tickOf is the tick of a word: of those that fit the newest that is not later than the cell's last. It may be
// later than the instant for which somebody judges, who has waited meanwhile.
func (l *latencyWindow) tickOf(c *latencyCell, w uint64) uint64 {
	const mask = inUse>>beganBits - 1
	last := uint64(c.last.Load()) >> l.shift
	return last - (last-w>>beganBits)&mask
}

// forget empties every cell, and returns how many calls had ended within the threshold. A cell that is
// not in use holds at most what a call takes away again.
func (l *latencyWindow) forget() (fast uint64) {
	for i := range l.cells {
		if c := &l.cells[i]; c.word.Load()&inUse != 0 {
			fast += c.word.Swap(0) & fastMask
		}
	}
	return fast
}

// close is forget for good: nothing is counted any more.
func (l *latencyWindow) close() (fast uint64) {
	for i := range l.cells {
		if w := l.cells[i].word.Swap(closedCell); w&inUse != 0 {
			fast += w & fastMask
		}
	}
	return fast
}

// fast is how many calls of the ticks that are not judged have ended within the threshold.
func (l *latencyWindow) fast() (n uint64) {
	for i := range l.cells {
		if w := l.cells[i].word.Load(); w&inUse != 0 {
			n += w & fastMask
		}
	}
	return n
}
