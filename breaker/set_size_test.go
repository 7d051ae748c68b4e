package breaker

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"
)

// REQ-B3: a call by key allocates nothing.
func TestGetAllocatesNothing(t *testing.T) {
	texts, numbers := mustSet(t, SetConfig[string]{}), mustSet(t, SetConfig[int]{})
	pairs := mustSet(t, SetConfig[[2]string]{})
	key := strings.Repeat("k", 40)
	for name, f := range map[string]func(){
		"string": func() { run(texts.Get(key), nil) },
		"int":    func() { run(numbers.Get(1<<30), nil) },
		"struct": func() { run(pairs.Get([2]string{key, "b"}), nil) },
		"Stats":  func() { texts.Stats() },
	} {
		f()
		if got := testing.AllocsPerRun(1000, f); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

// The sizes that the documentation of Set states (REQ-B3), without a goroutine.
func TestDocumentedSetSizes(t *testing.T) {
	n := rounds(t, 100_000)
	s := mustSet(t, SetConfig[int]{Max: n})
	goroutines := runtime.NumGoroutine()
	before := heapInUse()
	for i := range n {
		run(s.Get(i), nil)
	}
	wantBytes(t, "kept", (heapInUse()-before)/uint64(n), 1300)
	evictKept(s)
	wantBytes(t, "evicted", (heapInUse()-before)/uint64(n), 300)
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("goroutines: got %d, want %d", got, goroutines)
	}
	runtime.KeepAlive(s)
}

func TestDocumentedSizeOfARememberedKey(t *testing.T) {
	const n = 10_000
	before := heapInUse()
	s := mustSet(t, SetConfig[int]{Max: n, Config: Config{Open: Backoff{Base: time.Hour, Max: time.Hour}}})
	for i := range n {
		s.Get(i).Trip(Reason{})
	}
	evictAll(s)
	wantSetStats(t, s, SetStats{Remembered: n, Evictions: n})
	wantBytes(t, "remembered", (heapInUse()-before)/n, 600)
	runtime.KeepAlive(s)
}

func wantBytes(t *testing.T, what string, got, want uint64) {
	t.Helper()
	t.Logf("%s: %d bytes a key", what, got)
	if got > want {
		t.Errorf("%s: got %d bytes a key, documented as at most %d", what, got, want)
	}
}

// A breaker that is held keeps neither its set nor the breakers of other keys.
func TestDroppedSetLeavesNothing(t *testing.T) {
	held, dropped := heldOfDroppedSet(t)
	heapInUse()
	if dropped.Value() != nil {
		t.Error("the set is alive, want it collected")
	}
	runN(t, held, 5, errDown)
	wantState(t, held, Open)
}

func heldOfDroppedSet(t *testing.T) (held *Breaker, dropped weak.Pointer[Set[string]]) {
	t.Helper()
	s := mustSet(t, SetConfig[string]{})
	s.Get("other")
	return s.Get("held"), weak.Make(s)
}
