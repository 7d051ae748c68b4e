package breaker

import (
	"sync/atomic"
	"unsafe"
)

// A cell counts successes, by one atomic add each:
//
//	bits 0..23   generation, modulo 2^24, written only under Breaker.mu
//	bits 24..62  successes, cumulative, modulo 2^39
//	bit  63      the count is full: a success sets it, makeRoom clears it
//
// The result of the add tells whether the generation of the call still holds;
// if not, the adder takes its one away again. The count is above the
// generation so that its overflow falls off the word. A new generation is
// added as a difference, never stored, so that an add and its undo balance
// whatever happens between them.
//
// A breaker has one cell, and once that has counted cellRoom successes 16 more, its stripes, so that processors which
// call at the same time do not wait for one cache line. What was counted is the sum of all; one cell by itself says
// nothing, and may hold less than 0.
type cell struct{ word atomic.Uint64 }

const (
	cellGenBits = 24
	cellGenMask = 1<<cellGenBits - 1
	cellOne     = 1 << cellGenBits
	cellFull    = 1 << 63

	countBits = 39
	countMask = 1<<countBits - 1

	stripeCount = 16

	// cellRoom is how many successes a breaker counts, however long that takes, before it has stripes: 2 KB are too
	// much for one that is seldom called.
	cellRoom = 1 << 16
)

// Stripes are the cells of a breaker that is often called. Two goroutines on different processors meet in one
// of them once in 16 times.
type stripes [stripeCount]struct {
	cell

	_ [lineSize - unsafe.Sizeof(cell{})]byte
}

// lineSize keeps two cells from sharing a cache line, or the pair of lines that
// processors fetch together.
const lineSize = 128

// near is a cell that this goroutine has to itself, most likely, if here is the address of something on its stack:
// Go names no processor, and this costs nothing to ask (docs/adr/0030).
func (b *Breaker) near(here uintptr) *cell {
	if s := b.stripes.Load(); s != nil {
		return &s[stripeOf(here)].cell
	}
	return &b.cell
}

// stripeOf spreads stacks of 2 to 64 KB, which lie side by side, over the stripes: nine times an address is the sum of it and
// of itself three bits higher, one multiplication that a processor has for addresses.
func stripeOf(here uintptr) uintptr { return here * 9 >> 14 % stripeCount }

// count adds a success of a call that was admitted under word, and reports whether it fits: into the cell as it was
// before, which is what the processor tells.
func (c *cell) count(word uint64) bool {
	return fits(c.word.Add(cellOne)-cellOne, word)
}

// fits reports whether the word of a cell is of the generation of a permit's word, and not full. If not, amend does
// the rest.
func fits(sum, word uint64) bool { return (sum^word)&(cellGenMask|cellFull) == 0 }

// sameGeneration reports whether the word of a cell still counts for the generation of a
// permit's word.
func sameGeneration(sum, word uint64) bool { return (sum^word)&cellGenMask == 0 }

// amend is what remains to do for a success that a cell has counted and that does not fit. It looks at the cell
// again: a success that filled it, and whose generation has ended since, is late.
func (b *Breaker) amend(c *cell, word uint64) {
	now := c.word.Load()
	if !sameGeneration(now, word) {
		b.undo(c)
	}
	if now&cellFull != 0 {
		b.makeRoom(c)
	}
}

// undo takes back a success of an older generation.
func (b *Breaker) undo(c *cell) {
	c.word.Add(^uint64(cellOne - 1))
	b.late.Add(1)
}

// makeRoom gives the breaker its stripes, and room to a cell that is full. Whoever does not get the lock leaves it
// to the next one: the closed path never waits.
func (b *Breaker) makeRoom(c *cell) {
	if !b.mu.TryLock() {
		return
	}
	defer b.mu.Unlock()
	if b.stripes.Load() == nil {
		b.stripeLocked()
	}
	if c.word.Load()&cellFull != 0 {
		c.word.Add(cellFull) // it falls off the word
	}
}

// stripeLocked makes the stripes. Each begins with some successes more than the one before, which the first cell gives,
// so that they do not all look at the clock at once where they are used in turn (Breaker.sampling).
func (b *Breaker) stripeLocked() {
	s := new(stripes)
	for i := range s {
		given := uint64(i * maxSampling / stripeCount * cellOne)
		b.cell.word.Add(-given)
		s[i].word.Store(given | generationOf(b.loadWord())&cellGenMask)
	}
	b.stripes.Store(s)
}

// cellsLocked calls f with every cell.
func (b *Breaker) cellsLocked(f func(*cell)) {
	f(&b.cell)
	if s := b.stripes.Load(); s != nil {
		for i := range s {
			f(&s[i].cell)
		}
	}
}

// successesLocked is what the cells have counted since New. A late success that is not undone
// yet may make a count one too high for a moment, so the difference from the count before
// may be below 0; but never by as much as slack.
func (b *Breaker) successesLocked() uint64 {
	sum := uint64(0)
	b.cellsLocked(func(c *cell) { sum += c.word.Load() >> cellGenBits })
	const slack = 1 << 32
	b.mu.successes += (sum-firstCount-b.mu.successes+slack)&countMask - slack
	return b.mu.successes
}

// firstCount is what the first cell holds at New: it is full after cellRoom successes.
const firstCount = countMask + 1 - cellRoom
