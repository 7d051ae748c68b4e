package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Counted invariants under load, for the race detector: never more in flight
// than the limit, each caller answered (a lost wake-up would hang the
// test), each refusal counted once, and at the end every slot is free.
func TestStressBulkhead(t *testing.T) {
	const workers, limit = 16, 3
	b := mustBulkhead(t, BulkheadConfig{Limit: limit, MaxWaiting: 8})
	var running, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(w)))
			for range rounds(t, 3000) {
				p, ok := acquireSomehow(t, b, rng)
				if !ok {
					refused.Add(1)
					continue
				}
				if n := running.Add(1); n > limit {
					t.Errorf("%d in flight, want at most %d", n, limit)
				}
				if rng.IntN(2) == 0 {
					runtime.Gosched()
				}
				running.Add(-1)
				p.Release()
				p.Release()
			}
		})
	}
	wg.Wait()
	t.Logf("%+v", b.Stats())
	wantStats(t, b, BulkheadStats{Limit: limit, Peak: limit, Refused: uint64(refused.Load())})
}

// acquireSomehow asks in one of the ways, some of which give up at once or soon.
func acquireSomehow(t *testing.T, b *Bulkhead, rng *rand.Rand) (Permit, bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	maxWait := time.Hour
	switch rng.IntN(5) {
	case 0:
		return b.Acquire()
	case 1:
		maxWait = time.Duration(rng.IntN(50)) * time.Microsecond
	case 2:
		go cancel()
	case 3:
		cancel()
	}
	p, err := b.AcquireWithin(ctx, maxWait)
	if err != nil && !errors.Is(err, ErrFull) && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	return p, err == nil
}

// Every waiter gets its turn although all the slots are freed and asked for at the
// same time as the limit changes: nobody gives up here, so a lost wake-up hangs.
func TestStressBulkheadLosesNoWakeUp(t *testing.T) {
	const workers, most = 8, 4
	b := mustBulkhead(t, BulkheadConfig{Limit: 1, MaxWaiting: workers})
	var running, served atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range workers {
		wg.Go(func() {
			for range rounds(t, 3000) {
				p, err := b.AcquireWithin(t.Context(), time.Hour)
				if err != nil {
					t.Errorf("got %v", err)
					return
				}
				if n := running.Add(1); n > most {
					t.Errorf("%d in flight, want at most %d", n, most)
				}
				served.Add(1)
				running.Add(-1)
				p.Release()
			}
		})
	}
	var changes sync.WaitGroup
	changes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if err := b.Reconfigure(BulkheadConfig{Limit: 1 + n%most, MaxWaiting: workers}); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
		}
	})
	wg.Wait()
	close(done)
	changes.Wait()
	if got, want := served.Load(), int64(workers*rounds(t, 3000)); got != want {
		t.Errorf("served %d, want %d", got, want)
	}
	if s := b.Stats(); s.InFlight != 0 || s.Waiting != 0 || s.Refused != 0 || s.Peak > most {
		t.Errorf("at the end: %+v", s)
	}
}

// A lowered limit holds from the return of Reconfigure on.
func TestStressBulkheadLimitHoldsAtOnce(t *testing.T) {
	b := mustBulkhead(t, BulkheadConfig{Limit: 8})
	var wg sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				acquireAndRelease(b)
			}
		})
	}
	for range rounds(t, 5000) {
		if err := b.Reconfigure(BulkheadConfig{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		// Those that were in flight may still be: from here on their number only falls to 1.
		before := b.Stats().InFlight
		if now := b.Stats().InFlight; now > max(before, 1) {
			t.Fatalf("%d in flight became %d under a limit of 1", before, now)
		}
		if err := b.Reconfigure(BulkheadConfig{Limit: 8}); err != nil {
			t.Fatal(err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// together runs f on n goroutines that begin at once, and waits for them.
func together(n int, f func()) {
	var ready, wg sync.WaitGroup
	ready.Add(n)
	for range n {
		wg.Go(func() {
			ready.Done()
			ready.Wait()
			f()
		})
	}
	wg.Wait()
}

// Tight loops on one word: no change of it is lost, whoever else changes it.
// Each call keeps one slot more than it gives back.
func TestStressBulkheadCountsEveryCall(t *testing.T) {
	const workers = 4
	each := rounds(t, 100_000)
	b := mustBulkhead(t, BulkheadConfig{Limit: maxLimit})
	var calls atomic.Int64
	together(workers, func() {
		for range each {
			b.Acquire()
			acquireAndRelease(b)
			if n := calls.Add(1); n%8 == 0 {
				if err := b.Reconfigure(BulkheadConfig{Limit: maxLimit - int(n/8%2)}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if s := b.Stats(); s.InFlight != workers*each || s.Waiting != 0 || s.Refused != 0 {
		t.Errorf("at the end: %+v, want %d in flight", s, workers*each)
	}
}

// The peak is that of the calls that were in flight at once.
func TestStressBulkheadPeak(t *testing.T) {
	const workers = 4
	for range rounds(t, 3000) {
		b := mustBulkhead(t, BulkheadConfig{})
		together(workers, func() { b.Acquire() })
		if got := int(b.peak.Load()); got != workers {
			t.Fatalf("peak: got %d, want %d", got, workers)
		}
	}
}
