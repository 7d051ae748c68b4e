package breaker

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"
)

func mustSet[K comparable](t *testing.T, c SetConfig[K]) *Set[K] {
	t.Helper()
	s, err := NewSet(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// evictAll evicts what the set keeps, and looks what was collected.
func evictAll[K comparable](s *Set[K]) {
	s.mu.Lock()
	for len(s.mu.pools[kept].entries) > 0 {
		s.evictLocked(s.mu.pools[kept].next())
	}
	s.mu.Unlock()
	heapInUse() // collects
	s.mu.Lock()
	defer s.mu.Unlock()
	for range len(s.mu.pools[evicted].entries) {
		s.sweepLocked()
	}
}

func wantSetStats[K comparable](t *testing.T, s *Set[K], want SetStats) {
	t.Helper()
	if got := s.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
	}
}

func TestSetConfigFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		c    SetConfig[string]
		want []string
	}{
		"zero":      {},
		"Max":       {SetConfig[string]{Max: -1}, []string{"breaker: Max is -1: use 1 to 1000000, or 0 for 10000"}},
		"Max, over": {SetConfig[string]{Max: 1_000_001}, []string{"breaker: Max is 1000001"}},
		"Idle":      {SetConfig[string]{Idle: -1}, []string{"breaker: Idle is -1ns: use 0 to switch it off"}},
		"all at once": {
			SetConfig[string]{Max: -1, Idle: 366 * 24 * time.Hour, Config: Config{Open: Backoff{Base: -1}}},
			[]string{"Open.Base is -1ns", "Max is -1", "Idle is 8784h0m0s: use at most 8760h0m0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewSet(tc.c)
			if (err != nil) != (tc.want != nil) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}

// REQ-B15: one shared instance a key, never a copy.
func TestSetHasOneBreakerAKey(t *testing.T) {
	s := mustSet(t, SetConfig[string]{Config: Config{Name: "emit"}})
	a, b := s.Get("a"), s.Get("b")
	if a == b || s.Get("a") != a || s.Get("b") != b {
		t.Error("want one breaker for each key, the same each time")
	}
	if got := a.Name() + " " + mustSet(t, SetConfig[int]{}).Get(7).Name(); got != "emit/a 7" {
		t.Errorf("names: got %q, want %q", got, "emit/a 7")
	}
	var keys []string
	for key, br := range s.All() {
		if br != s.Get(key) {
			t.Errorf("All: another breaker for %q", key)
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	if !slices.Equal(keys, []string{"a", "b"}) || s.Len() != 2 {
		t.Errorf("All: got %q, want a and b; Len %d", keys, s.Len())
	}
	for range s.All() {
		break
	}
	s.Remove("a")
	s.Remove("c")
	if s.Get("a") == a {
		t.Error("after Remove: got the old breaker")
	}
}

// REQ-B15: an evicted breaker that somebody holds is the one of its key.
func TestEvictedBreakerThatIsHeldIsFoundAgain(t *testing.T) {
	s := mustSet(t, SetConfig[string]{})
	held := s.Get("held")
	permit := start(t, s.Get("under way")) // a permit holds its breaker
	s.Get("neither").Trip(Reason{})
	evictAll(s)
	wantSetStats(t, s, SetStats{Evicted: 2, Remembered: 1, Evictions: 3})
	if s.Get("held") != held || s.Get("under way") != permit.b {
		t.Error("got a copy of a breaker that somebody holds")
	}
	wantSetStats(t, s, SetStats{Len: 2, Remembered: 1, Evictions: 3})
	permit.Done(errDown)
	if got := s.Get("under way").Stats().Failures; got != 1 {
		t.Errorf("failures: got %d, want 1", got)
	}
}

// REQ-B15: an evicted open breaker stays open, with all that its callers and its
// observer can see.
func TestCollectedBreakerGoesOnWhereItWas(t *testing.T) {
	lag := lagConfig()
	lag.Open, lag.Probe.Longest = Backoff{Base: time.Second, Max: time.Minute, Jitter: -1}, 30*time.Second
	plain := Config{Open: lag.Open}
	for name, tc := range map[string]struct {
		c    Config
		do   func(b *Breaker)
		wait time.Duration // between its collection and the next Get
		want State
		left time.Duration // RetryAfter
	}{
		"open":               {plain, func(b *Breaker) { b.Trip(Reason{Rule: "x"}) }, 400 * time.Millisecond, Open, 600 * time.Millisecond},
		"open period over":   {plain, func(b *Breaker) { b.Trip(Reason{Rule: "x"}) }, time.Second, HalfOpen, 0},
		"asked for a time":   {plain, func(b *Breaker) { b.TripFor(20*time.Second, Reason{}) }, 5 * time.Second, Open, 15 * time.Second},
		"lengthened":         {plain, func(b *Breaker) { b.Trip(Reason{}); b.TripFor(20*time.Second, Reason{}) }, 5 * time.Second, Open, 15 * time.Second},
		"half-open":          {plain, func(b *Breaker) { b.Trip(Reason{}); after(time.Second) }, time.Hour, HalfOpen, 0},
		"half-open expires":  {lag, func(b *Breaker) { b.Trip(Reason{}); after(11 * time.Second) }, 20 * time.Second, Open, 2 * time.Second},
		"half-open, not yet": {lag, func(b *Breaker) { b.Trip(Reason{}); after(11 * time.Second) }, 19 * time.Second, HalfOpen, 0},
		"failed recovery":    {plain, func(b *Breaker) { b.Trip(Reason{}); after(time.Second); run(b, errDown) }, time.Second, Open, time.Second},
		"forced open":        {plain, func(b *Breaker) { _ = b.Force(ForcedOpen, "why") }, time.Hour, ForcedOpen, 0},
		"forced closed":      {plain, func(b *Breaker) { _ = b.Force(ForcedClosed, "why") }, time.Hour, ForcedClosed, 0},
		"disabled":           {plain, func(b *Breaker) { _ = b.Force(Disabled, "why") }, time.Hour, Disabled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var rec recorder
				tc.c.Observer = rec.observer()
				s := mustSet(t, SetConfig[string]{Config: tc.c})
				tc.do(s.Get("a"))
				before := s.Get("a").Stats()
				evictAll(s)
				wantSetStats(t, s, SetStats{Remembered: 1, Evictions: 1})
				after(tc.wait)
				b := s.Get("a")
				wantState(t, b, tc.want)
				got := b.Stats()
				if got.RetryAfter != tc.left {
					t.Errorf("RetryAfter: got %v, want %v", got.RetryAfter, tc.left)
				}
				if tc.want == before.State && (got.Reason != before.Reason || !got.Since.Equal(before.Since) ||
					got.OpenPeriod != before.OpenPeriod || got.Generation != before.Generation) {
					t.Errorf("got %+v, want as before: %+v", got, before)
				}
				_, refusal := b.Allow()
				if e, ok := errors.AsType[*OpenError](refusal); ok && e.Reason.Rule == "" {
					t.Errorf("refusal without a reason: %v", refusal)
				}
				wantChain(t, &rec)
			})
		})
	}
}

// wantChain checks that each transition follows the one before, across evictions.
func wantChain(t *testing.T, rec *recorder) {
	t.Helper()
	last := Transition{}
	for i := range rec.transitions {
		tr := rec.transitions[i]
		if tr.From != last.To || tr.Generation != last.Generation+1 {
			t.Errorf("after %v (%d) came %v>%v (%d)", last.To, last.Generation, tr.From, tr.To, tr.Generation)
		}
		last = tr
	}
}

// The next opening is as long as it would have been.
func TestCollectedBreakerDoublesItsOpenPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rec recorder
		s := mustSet(t, SetConfig[string]{Config: Config{Open: Backoff{Jitter: -1}, Observer: rec.observer()}})
		s.Get("a").Trip(Reason{})
		for range 3 {
			evictAll(s)
			after(time.Minute)
			run(s.Get("a"), errDown) // the probe
		}
		evictAll(s)
		after(time.Minute)
		run(s.Get("a"), nil)
		wantState(t, s.Get("a"), Closed)
		run(s.Get("a"), nil)
		if got := s.Get("a").Stats(); got.Successes != 2 || got.Late != 0 {
			t.Errorf("got %+v, want 2 successes that count", got)
		}
		want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
		if got := rec.periods(); !slices.Equal(got, want) {
			t.Errorf("open periods: got %v, want %v", got, want)
		}
		wantChain(t, &rec)
		evictAll(s)
		wantSetStats(t, s, SetStats{Evictions: 5})
		wantState(t, s.Get("a"), Closed)
	})
}

// The state that counts is that at the end of the breaker, not at its eviction.
func TestOpenedAfterItsEviction(t *testing.T) {
	s := mustSet(t, SetConfig[string]{Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 1}}}})
	changeAfterEviction(t, s)
	evictAll(s)
	wantSetStats(t, s, SetStats{Remembered: 1, Evictions: 2})
	wantState(t, s.Get("opens"), Open)
	wantState(t, s.Get("closes"), Closed)
}

func changeAfterEviction(t *testing.T, s *Set[string]) {
	t.Helper()
	opens, closes := start(t, s.Get("opens")), s.Get("closes")
	closes.Trip(Reason{})
	evictAll(s)
	opens.Done(errDown)
	if err := closes.Force(Closed, ""); err != nil {
		t.Fatal(err)
	}
}

// REQ-B15: bounded, whatever the states are.
func TestSetIsBounded(t *testing.T) {
	for _, open := range []bool{false, true} {
		const limit, keys = 50, 1000
		s := mustSet(t, SetConfig[int]{Max: limit})
		for i := range keys {
			b := s.Get(i)
			if open {
				b.Trip(Reason{})
			}
			if s.Len() > limit {
				t.Fatalf("open %v: %d breakers, want at most %d", open, s.Len(), limit)
			}
		}
		evictAll(s)
		want := SetStats{Evictions: keys}
		if open {
			want.Remembered, want.Forgotten = limit, keys-limit
		}
		wantSetStats(t, s, want)
		n := 0
		s.index.Range(func(any, any) bool { n++; return true })
		if n != want.Remembered {
			t.Errorf("open %v: %d keys in the index, want %d", open, n, want.Remembered)
		}
	}
}

// A stream of keys that come once does not push out those that are in use.
func TestKeysInUseAreKept(t *testing.T) {
	const limit, inUse = 100, 50
	s := mustSet(t, SetConfig[int]{Max: limit})
	for i := range 10_000 {
		for hot := range inUse {
			s.Get(hot)
		}
		s.Get(1000 + i)
	}
	for hot := range inUse {
		if e := s.entry(hot); e.place != kept {
			t.Errorf("key %d in use was evicted", hot)
		}
	}
	if got, want := s.Stats().Evictions, uint64(10_000+inUse-limit); got != want {
		t.Errorf("evictions: got %d, want %d: none of a key in use", got, want)
	}
}

// Where all are in use, a new key still finds room, by little work.
func TestSetWithAllInUseTakesANewKey(t *testing.T) {
	const limit = 1000
	s := mustSet(t, SetConfig[int]{Max: limit})
	for range 2 {
		for i := range limit {
			s.Get(i)
		}
	}
	s.Get(limit)
	left := 0
	for _, e := range s.mu.pools[kept].entries {
		if e.used.Load() {
			left++
		}
	}
	if left < limit-usedLooks-1 || s.Len() != limit {
		t.Errorf("%d of %d entries were left alone, want all but %d", left, s.Len(), usedLooks)
	}
}

func TestIdleBreakersAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustSet(t, SetConfig[string]{Idle: time.Minute})
		hour := time.NewTimer(time.Hour)
		defer hour.Stop()
		s.Get("idle")
		for range 10 { // used every 50 s, looked at when a new key comes
			s.Get("in use")
			after(50 * time.Second)
			s.Get("other")
		}
		if s.entry("idle").place != kept {
			t.Error("evicted though no new key came")
		}
		for _, key := range []string{"1", "2", "3", "4"} {
			s.Get(key)
		}
		for key, want := range map[string]place{"idle": evicted, "in use": kept, "other": kept} {
			if got := s.entry(key).place; got != want {
				t.Errorf("%s: got place %d, want %d", key, got, want)
			}
		}
		after(time.Minute - time.Nanosecond)
		s.Get("5") // finds none too early
		wantSetStats(t, s, SetStats{Len: 7, Evicted: 1, Evictions: 1})
	})
}

// REQ-B18: a fault of For never keeps a call from running.
func TestKeyWhoseConfigFails(t *testing.T) {
	for name, tc := range map[string]struct {
		f    func(string, Config) Config
		want string
	}{
		"refused": {func(_ string, c Config) Config { c.Open.Base = -1; return c }, "Open.Base is -1ns"},
		"panic":   {func(string, Config) Config { panic("no") }, "panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			var rec recorder
			s := mustSet(t, SetConfig[string]{
				Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}, Observer: rec.observer()},
				For:    tc.f,
			})
			runN(t, s.Get("a"), 2, errDown)
			wantState(t, s.Get("a"), Open)
			if len(rec.faults) != 1 || rec.faults[0].Part != "For" || rec.faults[0].Name != "a" ||
				!strings.Contains(rec.faults[0].Detail, tc.want) {
				t.Errorf("faults: got %+v, want one of For, with %q", rec.faults, tc.want)
			}
			wantSetStats(t, s, SetStats{Len: 1, Faults: 1})
		})
	}
}

func TestKeyWithItsOwnConfig(t *testing.T) {
	s := mustSet(t, SetConfig[string]{
		Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}},
		For: func(key string, c Config) Config {
			if key == "strict" {
				c.Name += "!"
				c.Rules[0] = ConsecutiveFailures{Count: 1}
			}
			return c
		},
	})
	run(s.Get("strict"), errDown)
	run(s.Get("plain"), errDown)
	wantState(t, s.Get("strict"), Open)
	wantState(t, s.Get("plain"), Closed) // its rules are not those that For wrote to
	if got := s.Get("strict").Name(); got != "strict!" {
		t.Errorf("name: got %q, want %q", got, "strict!")
	}
}

func TestKeyThatIsNotItself(t *testing.T) {
	s := mustSet(t, SetConfig[float64]{})
	first, second := s.Get(math.NaN()), s.Get(math.NaN())
	if first == second || !run(first, nil) || !run(second, nil) {
		t.Error("NaN: want a breaker of its own each time")
	}
	wantSetStats(t, s, SetStats{})
}

// REQ-B3: a call by key allocates nothing.
func TestGetAllocatesNothing(t *testing.T) {
	texts, numbers := mustSet(t, SetConfig[string]{}), mustSet(t, SetConfig[int]{})
	pairs := mustSet(t, SetConfig[[2]string]{})
	key := strings.Repeat("k", 40)
	for name, f := range map[string]func(){
		"string": func() { run(texts.Get(key), nil) },
		"int":    func() { run(numbers.Get(1<<40), nil) },
		"struct": func() { run(pairs.Get([2]string{key, "b"}), nil) },
		"Stats":  func() { texts.Stats() },
	} {
		f()
		if got := testing.AllocsPerRun(1000, f); got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
}

// A timer whose breaker is gone would take as much as the rest that is remembered.
func TestRememberedBreakerHasNoTimer(t *testing.T) {
	clk := new(fakeClock)
	s, err := newSet(SetConfig[string]{}, clk)
	if err != nil {
		t.Fatal(err)
	}
	s.Get("a").Trip(Reason{})
	evictAll(s)
	if ft := clk.timers[0]; ft.f != nil {
		t.Error("the timer is still set")
	}
	wantState(t, s.Get("a"), Open)
	clk.advance(2 * time.Second)
	wantState(t, s.Get("a"), HalfOpen)
}

// The sizes that the documentation of Set states (REQ-B3), without a goroutine.
func TestDocumentedSetSizes(t *testing.T) {
	n := rounds(t, 100_000)
	s := mustSet(t, SetConfig[int]{Max: n, Config: Config{Open: Backoff{Base: time.Hour, Max: time.Hour}}})
	goroutines := runtime.NumGoroutine()
	before := heapInUse()
	for i := range n {
		run(s.Get(i), nil)
	}
	wantBytes(t, "kept", (heapInUse()-before)/uint64(n), 1200)
	for _, b := range s.All() {
		b.Trip(Reason{})
	}
	evictAll(s)
	wantSetStats(t, s, SetStats{Remembered: n, Evictions: uint64(n)})
	wantBytes(t, "remembered", (heapInUse()-before)/uint64(n), 600)
	if got := runtime.NumGoroutine(); got > goroutines {
		t.Errorf("goroutines: got %d, want %d", got, goroutines)
	}
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
