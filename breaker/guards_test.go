package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Guards against what only happens between two steps of another goroutine. These tests make it happen:
// by a clock that does something when it is asked, by words from before, or by a lock that
// is held. docs/mutations.md lists what each of them is for.

// A hookClock does something once, the next time that it is asked for an instant.
type hookClock struct {
	fakeClock
	onSince, onWall func()
}

func (c *hookClock) since() time.Duration {
	call(&c.onSince)
	return c.fakeClock.since()
}

func (c *hookClock) wall() time.Time {
	call(&c.onWall)
	return c.fakeClock.wall()
}

func call(hook *func()) {
	if f := *hook; f != nil {
		*hook = nil
		f()
	}
}

func newHooked(t *testing.T, c Config) (*Breaker, *hookClock) {
	t.Helper()
	clk := &hookClock{fakeClock: fakeClock{now: time.Hour}}
	c.Open.Jitter = -1
	b, err := newBreaker(c, clk)
	if err != nil {
		t.Fatal(err)
	}
	return b, clk
}

func force(t *testing.T, b *Breaker) {
	t.Helper()
	if err := b.Force(Closed, ""); err != nil {
		t.Fatal(err)
	}
}

// begun is how many calls the breaker's only latency window holds, of those in use and not.
func begun(b *Breaker) (n uint64) {
	for i := range b.measure.Load().windows[0].cells {
		n += b.measure.Load().windows[0].cells[i].word.Load() &^ tickMask >> 22
	}
	return n
}

func wantBegun(t *testing.T, b *Breaker, want uint64) {
	t.Helper()
	if got := begun(b); got != want {
		t.Fatalf("calls in the window: got %d, want %d", got, want)
	}
}

// Every cell is of the new generation before the word is.
func TestCellMovesBeforeTheWord(t *testing.T) {
	b, clk := busy(t, Config{})
	clk.onWall = func() {
		b.cellsLocked(func(c *cell) {
			if sameGeneration(c.word.Load(), b.loadWord()) {
				t.Error("a cell is of the generation of the word, in the midst of a move")
			}
		})
	}
	b.Trip(Reason{})
	if clk.onWall != nil {
		t.Fatal("the move asked for no time")
	}
}

// A call that begins in the midst of a move, under the word before, is forgotten with it.
func TestWindowsAreForgottenAfterTheWord(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	runN(t, b, 1, nil) // so that the next one needs no lock
	clk.onWall = func() { start(t, b) }
	force(t, b)
	wantBegun(t, b, 0)
}

// A call that was admitted under the word before is not counted under the next one.
func TestStaleBeginsAreTakenBack(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	stale := b.loadWord()
	force(t, b)
	start(t, b)
	if _, ok := b.quickBegin(stale); ok {
		t.Error("quickBegin: got ok under a word from before")
	}
	wantBegun(t, b, 1)
	if got := b.begin(&Permit{b: b, word: stale}, clk.now); got != again {
		t.Errorf("begin: got %d under a word from before, want %d", got, again)
	}
	wantBegun(t, b, 1)
}

// A caller that was about to be refused and finds the breaker closed, while Reconfigure is about to switch the timing of
// calls on: its permit says that the call is not timed, so no window may hold it, or it is slow (REQ-B16).
func TestCallBeforeTimingIsOn(t *testing.T) {
	b, _ := newHooked(t, slowConfig(SlowCallRate{}))
	start(t, b)
	b.storeWord(b.loadWord() &^ measuredFlag) // the measure is there, the word of Reconfigure is not
	if _, err := b.allow(); err != nil {
		t.Fatal(err)
	}
	wantBegun(t, b, 1)
}

// An ignored call of an older generation takes nothing from the newer one, in the same tick.
func TestStaleIgnoredCallWithdrawsNothing(t *testing.T) {
	b, _ := newHooked(t, slowConfig(SlowCallRate{}))
	p := start(t, b)
	force(t, b)
	start(t, b)
	p.DoneAs(Ignored, nil)
	wantBegun(t, b, 1)
}

// A call goes into every window or into none.
func TestCallIsInEveryWindowOrInNone(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}, CUSUM{Threshold: 200 * ms}))
	m := b.measure.Load()
	c, tag := m.windows[1].at(clk.now)
	c.word.Store(tag ^ 1<<beganBits) // another tick, not judged yet
	if m.begin(clk.now) {
		t.Error("begin: got true where the second window has no room")
	}
	wantBegun(t, b, 0)
}

// Nobody waits for the lock of a closed breaker: neither a call that finds a tick to be judged, which then goes
// unmeasured, nor a success that finds a step to be begun. (A fault here hangs.)
func TestClosedPathNeverWaits(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}, FailureRateByTime{}))
	l := b.measure.Load().windows[0]
	runN(t, b, 1, nil)
	clk.now += latencyTicks * l.tick() // the same cell
	b.mu.Lock()
	p := start(t, b)
	clk.now += 2 * time.Second
	p.Done(nil)
	b.mu.Unlock()
	if p := start(t, b); p.word&measuredFlag == 0 {
		t.Error("with the lock free again: the call goes unmeasured")
	}
	if s := b.Stats(); s.Successes != 2 {
		t.Errorf("got %d successes, want 2", s.Successes)
	}
}

// The end of a call that could not be measured is not looked for in the tick that had its cell.
func TestCallWithoutRoomIsUnmeasured(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	runN(t, b, 1, nil)
	clk.now += latencyTicks * b.measure.Load().windows[0].tick()
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := start(t, b); p.word&measuredFlag != 0 {
		t.Error("got a measured call, where its cell holds another tick")
	}
}

// A caller that was about to reserve when the settings changed asks again under the new ones.
func TestReservationUnderOldSettingsIsGivenBack(t *testing.T) {
	c := Config{Probe: Probe{Concurrent: 2, Successes: 2}}
	b, clk := newHooked(t, c)
	b.Trip(Reason{})
	clk.advance(time.Second)
	start(t, b)
	clk.onSince = func() {
		c.Probe.Concurrent = 1
		if err := b.Reconfigure(c); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Allow(); err == nil {
		t.Error("got a second probe, where the settings allow one")
	}
}

// Calls that add to a cell while it is emptied take their part away again, and no more.
func TestCellStress(t *testing.T) {
	l := newLatencyWindow(50*ms, 0)
	c, tag := l.at(0)
	var adders sync.WaitGroup
	for _, op := range []func(){
		func() { c.add(tag, beganOne) },
		func() { l.end(0, 0) },
		func() { l.withdraw(0, 0) },
	} {
		adders.Go(func() {
			for range rounds(t, 1_000_000) {
				if w := c.word.Load(); w&fastMask < 1<<20 && w&^tickMask>>22-1<<20 < 1<<21 { // counts have 22 bits
					op()
				}
			}
		})
	}
	var over atomic.Bool
	go func() { adders.Wait(); over.Store(true) }()
	for !over.Load() {
		c.word.CompareAndSwap(0, tag|1<<21*beganOne)
		for range 50 { // while it is in use
			if w := c.word.Load(); w&inUse != 0 && w&tickMask != tag {
				t.Fatalf("got %#x: the tick of nobody", w)
			}
		}
		l.forget()
	}
	l.forget()
	if got := c.word.Load(); got != 0 {
		t.Errorf("got %#x in a cell that is free, want 0", got)
	}
}

// The same of the quick way of a call.
func TestQuickBeginStress(t *testing.T) {
	b := mustNew(t, slowConfig(SlowCallRate{}))
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for range 100_000 {
				b.quickBegin(b.loadWord())
			}
		})
	}
	over := make(chan struct{})
	go func() { callers.Wait(); close(over) }()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		run(b, nil)
		force(t, b)
	}
	wantBegun(t, b, 0)
}

// A part that went into a cell which was emptied meanwhile is taken away again; once that cell is emptied too, nothing is.
func TestPartOfAnEmptiedCellIsTakenBack(t *testing.T) {
	l := newLatencyWindow(50*ms, 0)
	c, tag := l.at(0)
	if sum := c.put(tag, fastOne); sum&tickMask == tag || c.word.Load() != 0 {
		t.Errorf("a free cell: got the sum %#x and then %#x", sum, c.word.Load())
	}
	c.word.Store(fastOne) // of somebody who has not taken it away yet
	l.forget()
	if got := c.word.Load(); got != fastOne {
		t.Errorf("forget took away from a cell that is free: got %#x", got)
	}
	c.word.Store(tag | beganOne)
	c.takeBack(0, fastOne)
	if got := c.word.Load(); got != tag|beganOne {
		t.Errorf("taken from what came after: got %#x, want %#x", got, tag|beganOne)
	}
}

// A period that TripFor lengthens keeps the jitter that was drawn for the opening.
func TestLongerPeriodKeepsItsJitter(t *testing.T) {
	clk := &fakeClock{}
	b, err := newBreaker(Config{}, clk)
	if err != nil {
		t.Fatal(err)
	}
	b.Trip(Reason{})
	drawn := *b.refusal.Load()
	drawn.jitter = 7 * ms
	b.refusal.Store(&drawn)
	b.TripFor(5*time.Second, Reason{})
	if got := b.Stats().RetryAfter; got != 5*time.Second+7*ms {
		t.Errorf("RetryAfter: got %v, want 5.007s", got)
	}
}

// A call that began before a window was made is not in it, also if another began in the same tick after that.
func TestCallsFromBeforeAWindowAreNotInIt(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	ps := []*Permit{start(t, b), start(t, b)}
	clk.now += 1
	if err := b.Reconfigure(slowConfig(CUSUM{Threshold: 60 * ms})); err != nil {
		t.Fatal(err)
	}
	start(t, b)
	ps[0].DoneAs(Ignored, nil)
	ps[1].Done(nil)
	wantBegun(t, b, 1)
	c, _ := b.measure.Load().windows[0].at(clk.now)
	if got := c.word.Load() & fastMask; got != 0 {
		t.Errorf("got %d calls that ended in time, want 0", got)
	}
}

// A tick is ripe only once its last call is as old as the threshold.
func TestTickIsRipeAfterItsLastCall(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{Rate: 0.4, MinCalls: 1}))
	l := b.measure.Load().windows[0]
	clk.now = clk.now>>l.shift<<l.shift + l.tick() // the begin of a tick
	runN(t, b, 1, nil)
	clk.now += l.tick() - 1 // the last instant of it
	p := start(t, b)
	clk.now += 50*ms - 1
	other := start(t, b) // looks for what is ripe
	wantState(t, b, Closed)
	p.Done(nil) // just in time
	other.Done(nil)
	clk.now += 100 * ms
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
}

// A tick that gets ripe in the midst of another one is judged by the next call, not by the next tick's first.
func TestRipeTickIsJudgedByTheNextCall(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{Rate: 0.1, MinCalls: 1}))
	tick := b.measure.Load().windows[0].tick()
	clk.now = clk.now.Truncate(tick)
	start(t, b) // hangs
	clk.now += (50 * ms).Truncate(tick)
	start(t, b) // the first one of a tick: nothing is ripe
	clk.now += 50*ms%tick - 1
	start(t, b) // moves the last of its tick on, so that the next one is quick
	clk.now++
	if run(b, nil) {
		t.Errorf("got a call, want a refusal: %+v", b.Stats())
	}
}

// A cell in use is never seen with the last of an older tick, from which its own could not be told.
func TestLastTellsTheTickStress(t *testing.T) {
	l := newLatencyWindow(50*ms, 0)
	c, _ := l.at(0)
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		for i := range rounds(t, 1_000_000) {
			l.begin(time.Duration(i) * latencyTicks * l.tick()) // the same cell each time
			c.word.Store(0)
		}
	}()
	for !over.Load() {
		w := c.word.Load()
		last := time.Duration(c.last.Load())
		if _, tag := l.at(last); w&inUse != 0 && w&tickMask != tag && c.word.Load() == w {
			t.Fatalf("tick %d is in use, its last is of tick %d", w&^inUse>>beganBits, last>>l.shift)
		}
	}
}
