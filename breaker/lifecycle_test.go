package breaker

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// behaviours-breaker 44, first half: nothing keeps a goroutine or memory.
func TestDroppedBreakersLeaveNothing(t *testing.T) {
	before, heap := runtime.NumGoroutine(), heapInUse()
	for i := range 10_000 {
		c := lagConfig()
		c.Open = Backoff{Base: time.Hour, Max: time.Hour}
		c.Rules = append(c.Rules, ConsecutiveFailures{}, FailureRateByCount{}, FailureRateByTime{})
		b := mustNew(t, c)
		run(b, errDown)
		switch i % 3 {
		case 0:
			b.Trip(Reason{}) // its timer is pending
		case 1:
			b.Trip(Reason{})
			b.wake(1) // half-open, with the timer of Longest
		}
	}
	wantGoroutines(t, before)
	if got := int64(heapInUse()) - int64(heap); got > 5<<20 { // with the breakers it would be over 20 MB
		t.Errorf("heap grew by %d bytes after 10,000 breakers were dropped, want under 5 MB", got)
	}
}

func wantGoroutines(t *testing.T, want int) {
	t.Helper()
	for i := 0; i < 1_000_000 && runtime.NumGoroutine() > want; i++ {
		runtime.Gosched() // a timer of an earlier test may be at work just now
	}
	if got := runtime.NumGoroutine(); got > want {
		t.Errorf("goroutines: got %d, want %d", got, want)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// 10,000 breakers that are kept and idle, with latency rules and open ones among them, have no goroutine.
func TestIdleBreakersHaveNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	idle := make([]*Breaker, 10_000)
	for i := range idle {
		idle[i] = mustNew(t, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}, Rules: []Rule{ConsecutiveFailures{}, CUSUM{}, lagRule()}})
		run(idle[i], nil)
		if i%2 == 0 {
			idle[i].Trip(Reason{})
		}
	}
	wantGoroutines(t, before)
	runtime.KeepAlive(idle)
}

// behaviours-breaker 47; REQ-B6: openings double up to the cap.
func TestOpenPeriodsDoubleUpToMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		b := mustNew(t, Config{
			Open:     Backoff{Base: 10 * time.Second, Max: 300 * time.Second, Jitter: -1},
			Observer: rec.observer(),
		})
		runN(t, b, 5, errDown)
		probes := 0
		for began := time.Now(); time.Since(began) < time.Hour; after(time.Second) {
			if run(b, errDown) {
				probes++
			}
		}
		got := rec.periods()
		var want []time.Duration
		for _, s := range []int{10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300, 300, 300, 300, 300} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("open periods: got %v, want %v", got, want)
		}
		if probes < 14 || probes > 17 {
			t.Errorf("probes in an hour: got %d, want about 16", probes)
		}
	})
}

// behaviours-breaker 48; known mistake 1: jitter is drawn once an opening.
func TestJitterSpreadsProbesAndIsDrawnOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const period, limit = 10 * time.Second, 2 * time.Second
		lowest, highest := time.Hour, time.Duration(0)
		for range 1000 {
			b := mustNew(t, Config{Open: Backoff{Base: period, Jitter: limit}})
			b.Trip(Reason{})
			left := b.Stats().RetryAfter
			for range 100 {
				if again := b.Stats().RetryAfter; again != left {
					t.Fatalf("asked again at the same instant: got %v, want %v", again, left)
				}
			}
			lowest, highest = min(lowest, left), max(highest, left)
		}
		if lowest < period || highest > period+limit || highest-lowest < period*15/100 {
			t.Errorf("openings from %v to %v, want within 10s to 12s and spread over at least 1.5s", lowest, highest)
		}
	})
}

// The opening ends when RetryAfter said, jitter included.
func TestRetryAfterIsTheTimeLeft(t *testing.T) { // REQ-B4
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{})
		b.Trip(Reason{})
		_, err := b.Allow()
		refusal, ok := errors.AsType[*OpenError](err)
		if !ok {
			t.Fatalf("got %v, want an OpenError", err)
		}
		left := refusal.RetryAfter()
		after(400 * time.Millisecond)
		if got, want := refusal.RetryAfter(), left-400*time.Millisecond; got != want {
			t.Errorf("after 400ms: got %v, want %v", got, want)
		}
		after(left - 400*time.Millisecond - time.Nanosecond)
		wantState(t, b, Open)
		after(time.Nanosecond)
		wantState(t, b, HalfOpen)
		if got := refusal.RetryAfter(); got != 0 {
			t.Errorf("after the period: got %v, want 0", got)
		}
	})
}

// REQ-B18: a clock that jumps never blocks traffic for good.
func TestImpossibleClock(t *testing.T) {
	clk := &fakeClock{now: 100 * time.Hour}
	b, err := newBreaker(Config{Rules: []Rule{FailureRateByTime{MinCalls: 5}}, Open: Backoff{Jitter: -1}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	clk.now -= 150*time.Hour + 3*time.Second // before its own base
	runN(t, b, 5, errDown)
	wantState(t, b, Open)
	refusal := b.refusal.Load()
	clk.now -= 10 * time.Hour
	if got := refusal.RetryAfter(); got != time.Second {
		t.Errorf("RetryAfter: got %v, want at most the period of 1s", got)
	}
	clk.advance(20 * time.Hour)
	wantState(t, b, HalfOpen)
	start(t, b)              // a probe that is lost
	clk.now -= 3 * time.Hour // and its lease would last for hours
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
}
