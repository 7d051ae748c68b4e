package breaker

import (
	"testing"
	"time"
)

// Guards of the count of successes where calls are timed: one that was not slow is counted by the cell
// of a latency window alone, and must not be lost with it, nor count twice.

func wantCounts(t *testing.T, b *Breaker, successes, late uint64) {
	t.Helper()
	if s := b.Stats(); s.Successes != successes || s.Late != late {
		t.Fatalf("got %d successes, %d late; want %d, %d", int64(s.Successes), s.Late, successes, late)
	}
}

// fastOf is how many calls of the present tick ended in time, by the cell of the first window.
func fastOf(b *Breaker, clk *hookClock) uint64 {
	c, _ := b.measure.Load().windows[0].at(clk.now)
	return c.word.Load() & fastMask
}

// lateIn starts a call, and ends it with a success while a change of state goes by, and another call
// begins in the same tick, which is returned: the end of the first one is counted in the cell of the second.
func lateIn(t *testing.T, b *Breaker, clk *hookClock) (next *Permit) {
	t.Helper()
	p := start(t, b)
	clk.onSince = func() {
		force(t, b)
		next = start(t, b)
	}
	p.Done(nil)
	if next == nil {
		t.Fatal("the end asked for no time")
	}
	return next
}

// A change of state in the midst of a quick end makes it late.
func TestQuickEndLooksAgain(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	lateIn(t, b, clk)
	wantCounts(t, b, 0, 1)
}

// The same between the two steps of the end of a timed call that is not quick.
func TestCountFastLooksAgain(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	p := start(t, b)
	n := b.measure.Load().windows[0].end(p.began, clk.now)
	force(t, b)
	b.countFast(p.word, n)
	wantCounts(t, b, 0, 1)
}

// A call of an older generation ends none of the newer one, in the same tick: that one may hang.
func TestStaleEndsAreNotInTheWindow(t *testing.T) {
	for name, rules := range map[string][]Rule{
		"quick": {SlowCallRate{}},
		"timed": {SlowCallRate{}, FailureRateByTime{}},
	} {
		t.Run(name, func(t *testing.T) {
			b, clk := newHooked(t, slowConfig(rules...))
			done, answered := start(t, b), start(t, b)
			force(t, b)
			start(t, b)
			done.Done(nil)
			answered.Answered()
			if got := fastOf(b, clk); got != 0 {
				t.Errorf("got %d calls that ended in time, want 0", got)
			}
			answered.Done(nil)
			wantCounts(t, b, 0, 2)
		})
	}
}

// A call that was answered ends once in its window: another one may hang.
func TestAnsweredCallEndsOnce(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	p := start(t, b)
	start(t, b)
	p.Answered()
	p.Answered()
	p.Done(nil)
	if got := fastOf(b, clk); got != 1 {
		t.Errorf("got %d calls that ended in time, want 1", got)
	}
	wantCounts(t, b, 1, 0)
}

// A tick of which every call was withdrawn may still hold a late success.
func TestWithdrawnTickKeepsItsSuccesses(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	lateIn(t, b, clk).DoneAs(Ignored, nil)
	clk.now += time.Second
	runN(t, b, 1, nil) // judges
	wantCounts(t, b, 1, 1)
}

// Late successes are no reason to take the calls of a tick for slow.
func TestMoreFastCallsThanBegan(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{MinCalls: 1}))
	lateIn(t, b, clk).Done(nil)
	clk.now += time.Second
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
	wantCounts(t, b, 2, 1)
}

// A change of state, a judged tick and a window that goes leave the successes that were counted.
func TestSuccessesOutliveTheirCell(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	runN(t, b, 3, nil)
	force(t, b)
	wantCounts(t, b, 3, 0)
	runN(t, b, 2, nil)
	clk.now += time.Second
	runN(t, b, 1, nil) // judges
	wantCounts(t, b, 6, 0)
	reconfigure(t, b, slowConfig(CUSUM{Threshold: time.Second}))
	wantCounts(t, b, 6, 0)
	reconfigure(t, b, slowConfig(ConsecutiveFailures{}))
	wantCounts(t, b, 6, 0)
}

// A window that is gone takes no call any more, of whoever still has it in hand.
func TestClosedWindowCountsNothing(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}))
	runN(t, b, 1, nil)
	gone := b.measure.Load().windows[0]
	reconfigure(t, b, slowConfig(ConsecutiveFailures{}))
	if gone.begin(clk.now) || gone.end(clk.now, clk.now) != 0 || gone.fast() != 0 {
		t.Error("got a call in a window that is gone")
	}
	wantCounts(t, b, 1, 0)
}

// The cells of the first window have counted successes, those of another only the same calls again:
// it stays the first, and no other takes its place.
func TestFirstWindowStaysFirst(t *testing.T) {
	long, short := CUSUM{Threshold: time.Second}, SlowCallRate{}
	b, _ := newHooked(t, slowConfig(short))
	runN(t, b, 3, nil)
	reconfigure(t, b, slowConfig(long, short))
	wantCounts(t, b, 3, 0)
	runN(t, b, 2, nil)
	wantCounts(t, b, 5, 0)
	reconfigure(t, b, slowConfig(long))
	wantCounts(t, b, 5, 0)
	runN(t, b, 1, nil)
	wantCounts(t, b, 6, 0)
}

// Successes that are counted by a latency rule still move the time windows on.
func TestTimedSuccessesMoveTheTimeWindow(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{}, FailureRateByTime{}))
	before := b.edge.Load()
	clk.now += 5 * time.Second
	runN(t, b, 1, nil)
	if b.edge.Load() <= before {
		t.Error("the time window stands still")
	}
}

// Whoever takes a part back is told when it went with a tick, and is counted there. From a cell that is free or
// closed nothing went anywhere.
func TestTakeBackSaysWhatWent(t *testing.T) {
	l := newLatencyWindow(50*ms, 0)
	c, tag := l.at(0)
	_, next := l.at(latencyTicks * l.tick()) // the same cell
	for name, tc := range map[string]struct {
		in, word, after uint64
		want            bool
	}{
		"still there":           {tag, tag | beganOne | fastOne, tag | beganOne, true},
		"went with a tick":      {tag, next | fastOne, next | fastOne, false},
		"went, the cell closed": {tag, closedCell, closedCell, false},
		"a free cell, closed":   {0, closedCell, closedCell, true},
	} {
		c.word.Store(tc.word)
		if got := c.takeBack(tc.in, fastOne); got != tc.want || c.word.Load() != tc.after {
			t.Errorf("%s: got %t and %#x, want %t and %#x", name, got, c.word.Load(), tc.want, tc.after)
		}
	}
}
