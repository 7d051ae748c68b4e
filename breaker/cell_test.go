package breaker

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"
)

// busy is a breaker that has its stripes.
func busy(t *testing.T, c Config) (*Breaker, *hookClock) {
	t.Helper()
	b, clk := newHooked(t, c)
	b.makeRoom(&b.cell)
	if b.stripes.Load() == nil {
		t.Fatal("no stripes")
	}
	return b, clk
}

// countIn is what Done does for a success, in a cell of the test's choice.
func countIn(b *Breaker, c *cell, word uint64) {
	if !c.count(word) {
		b.amend(c, word)
	}
}

// A breaker has one cell until it has counted cellRoom successes, and loses none of them when it gets its stripes.
func TestBusyBreakerHasStripes(t *testing.T) {
	b, _ := newHooked(t, Config{})
	runN(t, b, cellRoom, nil)
	if b.stripes.Load() != nil {
		t.Errorf("stripes after %d successes, want them with the next one", cellRoom)
	}
	runN(t, b, 1, nil)
	if b.stripes.Load() == nil {
		t.Errorf("no stripes after %d successes", cellRoom+1)
	}
	runN(t, b, 99, nil)
	wantCounts(t, b, cellRoom+100, 0)
	if sum := b.cell.word.Load(); sum&cellFull != 0 {
		t.Errorf("the first cell is still full: %x", sum)
	}
}

// The same with a time window, whose successes are counted elsewhere.
func TestBusyTimedBreakerHasStripes(t *testing.T) {
	b, _ := newHooked(t, Config{Rules: []Rule{FailureRateByTime{}}})
	runN(t, b, cellRoom+100, nil)
	if b.stripes.Load() == nil {
		t.Errorf("no stripes after %d successes", cellRoom+100)
	}
	wantCounts(t, b, cellRoom+100, 0)
}

// Every cell is of the new generation after a change of state: what began before it is late, what began after
// it counts, in whichever cell.
func TestEveryCellMoves(t *testing.T) {
	b, _ := busy(t, Config{})
	cells := uint64(len(b.stripes.Load())) + 1
	before := b.loadWord()
	force(t, b)
	after := b.loadWord()
	b.cellsLocked(func(c *cell) { countIn(b, c, before) })
	wantCounts(t, b, 0, cells)
	b.cellsLocked(func(c *cell) { countIn(b, c, after) })
	wantCounts(t, b, cells, cells)
}

// Stripes that are made late are of the generation of the breaker, not of the first.
func TestStripesBeginInTheGeneration(t *testing.T) {
	b, _ := newHooked(t, Config{})
	force(t, b)
	b.makeRoom(&b.cell)
	b.cellsLocked(func(c *cell) { countIn(b, c, b.loadWord()) })
	wantCounts(t, b, uint64(len(b.stripes.Load()))+1, 0)
}

// The same for a breaker that goes on from what its Set remembers, beyond the generations that a cell can tell apart.
func TestStripesOfARestoredBreaker(t *testing.T) {
	b, _ := newHooked(t, Config{})
	b.restore(&memory{state: ForcedOpen, generation: 3<<cellGenBits - 2})
	for range 2 { // before and after the cells begin with 0 again
		force(t, b)
		before := b.Stats().Successes
		b.makeRoom(&b.cell)
		b.cellsLocked(func(c *cell) { countIn(b, c, b.loadWord()) })
		wantCounts(t, b, before+stripeCount+1, 0)
	}
}

// A full cell whose generation ends before it gets room: the success is late, and the cell has room.
func TestFullCellInAChangeOfState(t *testing.T) {
	b, _ := busy(t, Config{})
	c, word := &b.stripes.Load()[5].cell, b.loadWord()
	c.word.Add(cellFull)
	if c.count(word) {
		t.Fatal("a full cell had room")
	}
	force(t, b)
	b.amend(c, word)
	wantCounts(t, b, 0, 1)
	if c.word.Load()&cellFull != 0 {
		t.Errorf("still full: %x", c.word.Load())
	}
}

// A success in any cell ends a row of failures.
func TestSuccessInAnyCellEndsTheStreak(t *testing.T) {
	b, _ := busy(t, Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}})
	b.cellsLocked(func(c *cell) {
		runN(t, b, 1, errDown)
		countIn(b, c, b.loadWord())
	})
	wantState(t, b, Closed)
	runN(t, b, 2, errDown)
	wantState(t, b, Open)
}

// A cell that is full gets room, without a wait, and counts on; its generation stays.
func TestFullCellGetsRoom(t *testing.T) {
	b, _ := busy(t, Config{})
	force(t, b)
	for _, c := range []*cell{&b.cell, &b.stripes.Load()[3].cell} {
		before := b.Stats().Successes
		c.word.Add((countMask + 1 - c.word.Load()>>cellGenBits&countMask - 2) << cellGenBits) // two are missing
		b.Stats()
		counted := b.Stats().Successes
		for n := range uint64(5) {
			if n == 2 { // nobody waits for the lock; a fault here hangs
				b.mu.Lock()
				countIn(b, c, b.loadWord())
				b.mu.Unlock()
			} else {
				countIn(b, c, b.loadWord())
			}
			if got := b.Stats().Successes - counted; got != n+1 {
				t.Fatalf("after %d successes: got %d (before: %d)", n+1, got, before)
			}
		}
		if c.word.Load()&cellFull != 0 {
			t.Errorf("still full: %x", c.word.Load())
		}
	}
}

// turn lets the next success of this goroutine be counted in the stripe beside the one before: each takes the word of
// its neighbour.
func turn(b *Breaker) {
	s := b.stripes.Load()
	first := s[0].word.Load()
	for i := range stripeCount - 1 {
		s[i].word.Store(s[i+1].word.Load())
	}
	s[stripeCount-1].word.Store(first)
}

// A time window sees each step of a steady stream, at whatever rate, also where its successes are counted in all
// stripes in turn, and each stripe looks at the clock by its own count.
func TestTimeWindowSeesEachStepOfStripes(t *testing.T) {
	for _, perStep := range []time.Duration{1, 3, 40, 300, 2_000, 30_000} {
		b, clk := busy(t, Config{Rules: []Rule{FailureRateByTime{}}})
		for n := range 20 * perStep {
			clk.now += time.Second / perStep
			runN(t, b, 1, nil)
			turn(b)
			if behind := clk.now - time.Duration(b.edge.Load()); behind >= time.Second {
				t.Fatalf("%d calls a step: after %d of them a step was not seen, %v ago", perStep, n, behind)
			}
		}
	}
}

// After a high rate has fallen, the next look comes within twice as many successes as at the high rate, where the stripes
// are used in turn; wherever they are counted, within as many as all stripes may count between two looks of theirs. From
// then on each success looks.
func TestTimeWindowSeesThatTheRateFell(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for name, tc := range map[string]struct {
		turns func() int
		most  int
	}{
		"in turn":   {func() int { return 1 }, 2 * maxSampling},
		"by chance": {func() int { return rng.IntN(stripeCount) }, stripeCount * (maxSampling - 1)},
	} {
		b, clk := busy(t, Config{Rules: []Rule{FailureRateByTime{}}})
		call := func(pause time.Duration) {
			clk.now += pause
			runN(t, b, 1, nil)
			for range tc.turns() {
				turn(b)
			}
		}
		for range 100_000 {
			call(time.Second / 20_000)
		}
		unseen := 0
		for n := range 3_000 {
			edge := b.edge.Load()
			if call(time.Second); b.edge.Load() == edge {
				unseen = n + 1
			}
		}
		if unseen > tc.most {
			t.Errorf("%s: success %d did not look, want at most %d that do not", name, unseen, tc.most)
		}
	}
}

// The count goes on over any number of successes that fits into a cell between two looks at it, and one less.
func TestCountBetweenTwoLooks(t *testing.T) {
	b, _ := busy(t, Config{})
	want := uint64(0)
	for _, n := range []uint64{1, 1 << 38, 1<<39 - 1<<33, 5} {
		b.stripes.Load()[2].word.Add(n << cellGenBits)
		want += n
		wantCounts(t, b, want, 0)
		b.stripes.Load()[3].word.Add(^uint64(cellOne - 1))
		want--
		wantCounts(t, b, want, 0)
	}
}

// Goroutines whose stacks lie side by side count in different cells, whatever the size of the stacks.
func TestStacksAreSpreadOverTheStripes(t *testing.T) {
	for size, least := range map[uintptr]int{2 << 10: 16, 4 << 10: 12, 8 << 10: 12, 16 << 10: 16, 32 << 10: 8, 64 << 10: 4} {
		seen := map[uintptr]bool{}
		for i := range uintptr(64) {
			seen[stripeOf(0x100f27+i*size)] = true
		}
		if len(seen) < least {
			t.Errorf("stacks of %d bytes: got %d stripes, want at least %d", size, len(seen), least)
		}
	}
}

// No success is lost or counted twice while many goroutines make a breaker busy, for the race detector (REQ-B14).
func TestStressOfStripes(t *testing.T) {
	b := mustNew(t, Config{})
	const workers = 8
	calls := rounds(t, 2*cellRoom/workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range calls {
				run(b, nil)
			}
		})
	}
	wg.Wait()
	wantCounts(t, b, uint64(workers*calls), 0)
}

// The word is aligned for 32-bit processors too, wherever a Breaker is: it comes first, and the atomic fields beside it
// ask for 8 bytes.
func TestWordIsAligned(t *testing.T) {
	type holder struct {
		_ byte
		b Breaker
	}
	if first := reflect.TypeFor[Breaker]().Field(0).Name; first != "word" {
		t.Errorf("a Breaker begins with %s, want its word", first)
	}
	if at := unsafe.Offsetof(holder{}.b); at != 8 {
		t.Errorf("a Breaker begins at byte %d behind one byte, want 8", at)
	}
}
