package breaker

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
	evictKept(s)
	heapInUse() // collects
	s.mu.Lock()
	defer s.mu.Unlock()
	for range len(s.mu.pools[evicted].entries) {
		s.sweepLocked()
	}
}

func evictKept[K comparable](s *Set[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.mu.pools[kept].entries) > 0 {
		s.evictLocked(s.mu.pools[kept].next())
	}
}

func wantSetStats[K comparable](t *testing.T, s *Set[K], want SetStats) {
	t.Helper()
	if got := s.Stats(); got != want {
		t.Errorf("stats: got %+v, want %+v", got, want)
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
				_, _ = b.Allow()
				_, refusal := b.Allow() // half-open: the probe is out
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

// What was collected leaves the index, by and by, without anybody's asking for it.
func TestCollectedKeysLeaveTheIndex(t *testing.T) {
	const keys = 1000
	s := mustSet(t, SetConfig[int]{Max: 10})
	for i := range keys {
		s.Get(i)
	}
	evictAll(s)
	for i := range keys {
		s.Get(keys + i)
	}
	heapInUse()
	for i := range keys {
		s.Get(2*keys + i)
	}
	for i := range 2*keys - 100 { // the last were not evicted yet when it was their turn
		if s.entry(i) != nil {
			t.Fatalf("key %d, which was collected long ago, is still there", i)
		}
	}
}

// A stream of keys that come once does not push out those that are in use.
func TestKeysInUseAreKept(t *testing.T) {
	const limit, inUse = 100, 50
	s := mustSet(t, SetConfig[int]{Max: limit})
	for i := range 2000 {
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
	if got, want := s.Stats().Evictions, uint64(2000+inUse-limit); got != want {
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
	if left < limit-100 || s.Len() != limit {
		t.Errorf("%d of %d entries were left alone, want all but some 64", left, s.Len())
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
