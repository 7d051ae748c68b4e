package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func wantStats(t *testing.T, b *Bulkhead, want BulkheadStats) {
	t.Helper()
	if got := b.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}
}

// take asks for a slot that must be there.
func take(t *testing.T, b *Bulkhead) *Permit {
	t.Helper()
	p, ok := b.Acquire()
	if !ok {
		t.Fatalf("Acquire: refused (%+v)", b.Stats())
	}
	return &p
}

func wantFull(t *testing.T, b *Bulkhead) {
	t.Helper()
	if p, ok := b.Acquire(); ok {
		p.Release()
		t.Errorf("Acquire: got a slot of a full bulkhead")
	}
}

func TestBulkheadCapsCallsInFlight(t *testing.T) { // REQ-E1
	b := mustBulkhead(t, BulkheadConfig{Limit: 2})
	first, second := take(t, b), take(t, b)
	wantFull(t, b)
	first.Release()
	wantStats(t, b, BulkheadStats{InFlight: 1, Limit: 2, Peak: 2, Refused: 1})
	take(t, b).Release()
	second.Release()
	wantStats(t, b, BulkheadStats{Limit: 2, Peak: 2, Refused: 1})
}

// A second Release does nothing; that of a copy, which the documentation
// forbids, never ends more calls than there are.
func TestReleaseCountsOnce(t *testing.T) {
	b := mustBulkhead(t, BulkheadConfig{Limit: 2})
	first, second := take(t, b), take(t, b)
	first.Release()
	first.Release()
	wantStats(t, b, BulkheadStats{InFlight: 1, Limit: 2, Peak: 2})
	double := *second
	second.Release()
	double.Release()
	wantStats(t, b, BulkheadStats{Limit: 2, Peak: 2})
	new(Permit).Release()
	take(t, b)
	take(t, b)
	wantFull(t, b)
}

// A queue of callers in a bubble: each writes what it got.
type line struct {
	t    *testing.T
	b    *Bulkhead
	mu   sync.Mutex
	said []string
}

func (l *line) say(who string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprint(who, ":", err))
}

// join starts a caller that waits, and keeps its slot for hold.
func (l *line) join(ctx context.Context, who string, maxWait, hold time.Duration) {
	go func() {
		p, err := l.b.AcquireWithin(ctx, maxWait)
		l.say(who, err)
		if err == nil {
			time.Sleep(hold)
		}
		p.Release()
	}()
	synctest.Wait()
}

func (l *line) want(want ...string) {
	l.t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := fmt.Sprint(l.said); got != fmt.Sprint(want) {
		l.t.Errorf("got %v, want %v", got, want)
	}
}

func inBubble(t *testing.T, c BulkheadConfig, f func(l *line)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&line{t: t, b: mustBulkhead(t, c)}) })
}

func TestWaitersAreServedInOrder(t *testing.T) {
	inBubble(t, BulkheadConfig{Limit: 1, MaxWaiting: 3}, func(l *line) {
		held := take(l.t, l.b)
		for _, who := range []string{"a", "b", "c"} {
			l.join(l.t.Context(), who, time.Minute, time.Second)
		}
		l.join(l.t.Context(), "d", time.Minute, 0) // one too many
		wantStats(l.t, l.b, BulkheadStats{InFlight: 1, Waiting: 3, Limit: 1, Peak: 1, Refused: 1})
		held.Release()
		wantFull(l.t, l.b) // nobody overtakes
		l.want("d:"+ErrFull.Error(), "a:<nil>")
		time.Sleep(time.Second)
		l.want("d:"+ErrFull.Error(), "a:<nil>", "b:<nil>")
		time.Sleep(2 * time.Second)
		l.want("d:"+ErrFull.Error(), "a:<nil>", "b:<nil>", "c:<nil>")
		wantStats(l.t, l.b, BulkheadStats{Limit: 1, Peak: 1, Refused: 2})
	})
}

// Also in the instant after a slot was freed and before it is given away.
func TestNobodyOvertakesAtAFreeSlot(t *testing.T) {
	b := mustBulkhead(t, BulkheadConfig{Limit: 1})
	take(t, b)
	place := b.join()
	b.word.Add(^uint64(0)) // the first half of leave
	wantFull(t, b)
	b.grant() // the second
	if b.giveUp(place) {
		t.Error("the waiting caller did not get the slot")
	}
}

func TestWaitEnds(t *testing.T) {
	inBubble(t, BulkheadConfig{Limit: 1}, func(l *line) {
		begin := time.Now()
		held := take(l.t, l.b)
		if _, err := l.b.AcquireWithin(l.t.Context(), 50*ms); !errors.Is(err, ErrFull) || time.Since(begin) != 50*ms {
			l.t.Errorf("after %v: got %v, want ErrFull after 50ms", time.Since(begin), err)
		}
		for _, none := range []time.Duration{0, -time.Second} {
			if _, err := l.b.AcquireWithin(l.t.Context(), none); !errors.Is(err, ErrFull) {
				l.t.Errorf("no wait: got %v, want ErrFull", err)
			}
		}
		ctx, cancel := context.WithTimeout(l.t.Context(), 20*ms)
		defer cancel()
		if _, err := l.b.AcquireWithin(ctx, time.Hour); err != context.DeadlineExceeded { //nolint:errorlint // returned as it is
			l.t.Errorf("got %v, want the context's error", err)
		}
		if _, err := l.b.AcquireWithin(ctx, time.Hour); err != context.DeadlineExceeded { //nolint:errorlint // returned as it is
			l.t.Errorf("a context that ended before: got %v", err)
		}
		wantStats(l.t, l.b, BulkheadStats{InFlight: 1, Limit: 1, Peak: 1, Refused: 5})
		held.Release()
		if p, err := l.b.AcquireWithin(ctx, 0); err != nil { // no wait, no look at the context
			l.t.Errorf("a free slot: got %v", err)
		} else {
			p.Release()
		}
	})
}

// Who gives up leaves its place to the next, and takes no slot along.
func TestCancelledWaiterLeaksNoSlot(t *testing.T) {
	inBubble(t, BulkheadConfig{Limit: 1, MaxWaiting: 3}, func(l *line) {
		held := take(l.t, l.b)
		ctx, cancel := context.WithCancel(l.t.Context())
		l.join(ctx, "a", time.Minute, time.Second)
		l.join(l.t.Context(), "b", 10*ms, time.Second)
		l.join(l.t.Context(), "c", time.Minute, time.Second)
		cancel()
		l.want("a:context canceled")
		time.Sleep(10 * ms)
		l.want("a:context canceled", "b:"+ErrFull.Error())
		wantStats(l.t, l.b, BulkheadStats{InFlight: 1, Waiting: 1, Limit: 1, Peak: 1, Refused: 2})
		held.Release()
		l.want("a:context canceled", "b:"+ErrFull.Error(), "c:<nil>")
		time.Sleep(time.Second)
		synctest.Wait()
		wantStats(l.t, l.b, BulkheadStats{Limit: 1, Peak: 1, Refused: 2})
	})
}

func TestBulkheadReconfigure(t *testing.T) { // REQ-B16 for a bulkhead
	inBubble(t, BulkheadConfig{Limit: 1, MaxWaiting: 4}, func(l *line) {
		held := take(l.t, l.b)
		for _, who := range []string{"a", "b", "c"} {
			l.join(l.t.Context(), who, time.Minute, time.Second)
		}
		wantErrors(l.t, l.b.Reconfigure(BulkheadConfig{Limit: -1, MaxWaiting: 1 << 20}), "Limit is -1", "MaxWaiting is 1048576")
		if err := l.b.Reconfigure(BulkheadConfig{Limit: 3, MaxWaiting: -1}); err != nil {
			l.t.Fatal(err)
		}
		synctest.Wait()
		wantStats(l.t, l.b, BulkheadStats{InFlight: 3, Waiting: 1, Limit: 3, Peak: 3})
		if _, err := l.b.AcquireWithin(l.t.Context(), time.Minute); !errors.Is(err, ErrFull) {
			l.t.Errorf("nobody may wait any more: got %v", err)
		}
		if err := l.b.Reconfigure(BulkheadConfig{Limit: 1}); err != nil {
			l.t.Fatal(err)
		}
		wantStats(l.t, l.b, BulkheadStats{InFlight: 3, Waiting: 1, Limit: 1, Peak: 3, Refused: 1})
		held.Release() // 2 in flight, over the new limit
		synctest.Wait()
		wantStats(l.t, l.b, BulkheadStats{InFlight: 2, Waiting: 1, Limit: 1, Peak: 3, Refused: 1})
		time.Sleep(time.Second) // a and b end, c begins
		synctest.Wait()
		wantStats(l.t, l.b, BulkheadStats{InFlight: 1, Limit: 1, Peak: 3, Refused: 1})
		time.Sleep(time.Second)
	})
}

// A slot that comes as the wait ends is taken or given on, never lost: all three
// events at one instant, many times.
func TestSlotAtTheEndOfTheWait(t *testing.T) {
	for range rounds(t, 300) {
		inBubble(t, BulkheadConfig{Limit: 1}, func(l *line) {
			held := take(l.t, l.b)
			ctx, cancel := context.WithTimeout(l.t.Context(), 10*ms)
			defer cancel()
			l.join(ctx, "a", 10*ms, 0)
			time.Sleep(10 * ms)
			held.Release()
			synctest.Wait()
			if s := l.b.Stats(); s.InFlight != 0 || s.Waiting != 0 || len(l.said) != 1 {
				l.t.Errorf("%+v, %v", s, l.said)
			}
			take(l.t, l.b).Release()
		})
	}
}

func TestBulkheadHoldsTheMost(t *testing.T) {
	b := mustBulkhead(t, BulkheadConfig{Limit: maxLimit})
	for range maxLimit {
		if _, ok := b.Acquire(); !ok {
			t.Fatalf("refused: %+v", b.Stats())
		}
	}
	wantFull(t, b)
	wantStats(t, b, BulkheadStats{InFlight: maxLimit, Limit: maxLimit, Peak: maxLimit, Refused: 1})
}
