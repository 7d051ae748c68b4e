package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"
)

// A holder counts who holds the breaker of one key.
type holder struct {
	mu sync.Mutex
	b  *Breaker
	n  int
}

func (h *holder) take(t *testing.T, b *Breaker) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n > 0 && h.b != b {
		t.Error("two breakers of one key at a time")
	}
	h.b = b
	h.n++
}

func (h *holder) drop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 {
		h.b = nil
	}
}

// Counted invariants under load with the collector at work (REQ-B15): one breaker
// a key, the bound holds, an open one stays open, and a closed one that somebody
// holds loses no result.
func TestSetStress(t *testing.T) {
	const workers, keys, doomed, limit = 8, 64, 16, 20
	s := mustSet(t, SetConfig[int]{
		Config: Config{Open: Backoff{Base: time.Hour, Max: time.Hour}},
		Max:    limit, Idle: time.Microsecond,
	})
	var holders [keys]holder
	for key := range doomed { // at most limit, so that none is forgotten
		s.Get(key).Trip(Reason{})
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2, uint64(w)))
			for i := range rounds(t, 3000) {
				key := rng.IntN(keys)
				b := s.Get(key)
				holders[key].take(t, b)
				if got := run(b, nil); got != (key >= doomed) {
					t.Errorf("key %d: admitted is %v", key, got)
				}
				if n := s.Len(); n > limit {
					t.Errorf("%d breakers, want at most %d", n, limit)
				}
				if rng.IntN(4) == 0 {
					runtime.Gosched() // so that others come while this one is held
				}
				if w == 0 && i%20 == 0 {
					runtime.GC()
				}
				if s.Get(key) != b {
					t.Error("got a copy of a breaker that is held")
				}
				holders[key].drop()
			}
		})
	}
	wg.Wait()
	stats := s.Stats()
	t.Logf("%+v", stats)
	if stats.Forgotten != 0 || stats.Evictions < uint64(rounds(t, 3000)) {
		t.Errorf("got %+v, want none forgotten, and evictions enough for a stress", stats)
	}
}

// Two first Gets of a key that are both under way: For waits for the other.
func TestConcurrentFirstGets(t *testing.T) {
	var asked, done sync.WaitGroup
	asked.Add(2)
	s := mustSet(t, SetConfig[string]{For: func(_ string, c Config) Config {
		asked.Done()
		asked.Wait()
		return c
	}})
	var got [2]*Breaker
	for i := range got {
		done.Go(func() { got[i] = s.Get("k") })
	}
	done.Wait()
	if got[0] != got[1] {
		t.Error("two breakers of one key")
	}
}

// Everything at once, for the race detector: no call may block or panic.
func TestSetStressOfTheWholeSurface(t *testing.T) {
	s := mustSet(t, SetConfig[int]{
		Config: Config{Open: Backoff{Base: time.Microsecond, Jitter: -1}},
		For: func(key int, c Config) Config {
			if key%7 == 0 {
				panic("no")
			}
			return c
		},
		Max: 5,
	})
	ops := []func(n int){
		func(n int) { run(s.Get(n%20), errDown) },
		func(n int) { run(s.Get(n%20), nil) },
		func(n int) { s.Get(n % 20).Trip(Reason{}) },
		func(n int) {
			_ = s.Get(n%20).Force([]State{Closed, ForcedOpen, ForcedClosed, Disabled}[n%4], "")
		},
		func(n int) { s.Remove(n % 20) },
		func(int) { s.Stats(); s.Len() },
		func(int) {
			for _, b := range s.All() {
				b.Stats()
			}
		},
		func(n int) {
			if n%50 == 0 {
				runtime.GC()
			}
		},
	}
	var wg sync.WaitGroup
	for _, op := range ops {
		wg.Go(func() {
			for n := range rounds(t, 3000) {
				op(n)
			}
		})
	}
	wg.Wait()
	if n := s.Len(); n > 5 {
		t.Errorf("%d breakers, want at most 5", n)
	}
}
