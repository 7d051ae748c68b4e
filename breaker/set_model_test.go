package breaker

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"weak"
)

// setModel is what a Set must do, by plain maps. It holds every breaker that the
// set may find again, so that nothing is collected behind its back, and collects
// by itself.
type setModel struct {
	t    *testing.T
	s    *Set[int]
	clk  *fakeClock
	held map[int]bool     // callers hold the breaker of this key
	have map[int]*Breaker // not collected
	past map[int]Stats    // collected, not closed: how it looked then
	lost uint64           // of past, forgotten by the set

	failed bool
}

const modelKeys, modelMax = 16, 4

func newSetModel(t *testing.T) *setModel {
	t.Helper()
	clk := &fakeClock{now: time.Hour}
	s, err := newSet(SetConfig[int]{
		Config: Config{Rules: []Rule{ConsecutiveFailures{Count: 2}}, Open: Backoff{Jitter: -1}},
		Max:    modelMax, Idle: 20 * time.Second,
	}, clk)
	if err != nil {
		t.Fatal(err)
	}
	return &setModel{t: t, s: s, clk: clk, held: map[int]bool{}, have: map[int]*Breaker{}, past: map[int]Stats{}}
}

// step runs one operation and returns its name.
func (m *setModel) step(op, key int) string {
	switch op {
	case 0, 1, 2:
		m.get(key)
		m.held[key] = op > 0
		return "get"
	case 3:
		m.onHeld(key, func(b *Breaker) { run(b, errDown) })
		return "failure"
	case 4:
		m.onHeld(key, func(b *Breaker) { run(b, nil) })
		return "success"
	case 5:
		m.onHeld(key, func(b *Breaker) { b.Trip(Reason{Rule: "x"}) })
		return "trip"
	case 6:
		m.onHeld(key, func(b *Breaker) { _ = b.Force([]State{ForcedOpen, ForcedClosed, Disabled, Closed}[key%4], "") })
		return "force"
	case 7:
		m.clk.advance(time.Duration(1+key) * 400 * time.Millisecond)
		return "advance"
	case 8:
		delete(m.held, key)
		return "drop"
	case 9:
		if key > 1 { // seldom
			return "nothing"
		}
		m.s.Remove(key)
		delete(m.held, key)
		delete(m.have, key)
		delete(m.past, key)
		return "remove"
	default:
		m.collect()
		return "collect"
	}
}

// onHeld does what a caller may do who holds the breaker, kept by the set or not.
func (m *setModel) onHeld(key int, f func(*Breaker)) {
	if m.held[key] {
		f(m.have[key])
	}
}

func (m *setModel) get(key int) {
	got := m.s.Get(key)
	if want := m.have[key]; want != nil {
		if got != want {
			m.t.Fatalf("key %d: got a copy", key)
		}
		return
	}
	m.have[key] = got
	past, remembered := m.past[key]
	delete(m.past, key)
	now := got.Stats()
	if remembered {
		m.wantRestored(key, now, past)
	} else if now.Generation != 0 || now.State != Closed {
		m.t.Fatalf("key %d: got %+v, want a new breaker", key, now)
	}
}

func (m *setModel) wantRestored(key int, now, past Stats) {
	m.t.Helper()
	if over := m.clk.wall().Sub(past.Since) >= past.OpenPeriod; past.State == Open && over {
		past.State, past.Generation, past.Reason.Rule = HalfOpen, past.Generation+1, RuleOpenPeriodOver
	}
	if now.State != past.State || now.Generation != past.Generation || now.OpenPeriod != past.OpenPeriod || now.Reason.Rule != past.Reason.Rule {
		m.t.Fatalf("key %d: got %+v, want as it was: %+v", key, now, past)
	}
	if now.State == Open && now.RetryAfter != past.OpenPeriod-m.clk.wall().Sub(past.Since) {
		m.t.Fatalf("key %d: retry after %v, want the rest of %v", key, now.RetryAfter, past.OpenPeriod)
	}
}

// collect does what the garbage collector does with breakers that nobody holds.
func (m *setModel) collect() {
	for key, b := range m.have {
		if e := m.s.entry(key); m.held[key] || e == nil || e.place != evicted {
			continue
		}
		e := m.s.entry(key)
		e.weak = weak.Pointer[Breaker]{}
		if past := b.Stats(); past.State != Closed {
			m.past[key] = past
		}
		delete(m.have, key)
		b.memory = nil // its timer still runs here
	}
}

// check compares the set with the model and with itself.
func (m *setModel) check() {
	m.t.Helper()
	for key := range m.past {
		if m.s.entry(key) == nil {
			m.lost++
			delete(m.past, key)
		}
	}
	stats := m.s.Stats()
	if stats.Len > modelMax || stats.Remembered > modelMax || stats.Forgotten != m.lost {
		m.t.Fatalf("got %+v, want at most %d kept and remembered, %d forgotten", stats, modelMax, m.lost)
	}
	inPools := 0
	for at := range m.s.mu.pools {
		for i, e := range m.s.mu.pools[at].entries {
			inPools++
			if e.place != place(at) || e.at != i || m.s.entry(e.key) != e || (e.strong.Load() != nil) != (e.place == kept) {
				m.t.Fatalf("key %d is at %d of %d in pool %d at %d", e.key, e.at, e.place, at, i)
			}
		}
	}
	inIndex := 0
	m.s.index.Range(func(any, any) bool { inIndex++; return true })
	if inIndex != inPools {
		m.t.Fatalf("%d keys in the index, %d in the pools", inIndex, inPools)
	}
	for key := range m.have {
		if m.s.entry(key) == nil {
			m.t.Fatalf("key %d has a breaker that the set does not know", key)
		}
	}
}

// REQ-B15, against a simple reference: random operations, one at a time.
func TestSetAgainstModel(t *testing.T) {
	for seed := range uint64(rounds(t, 50)) {
		m := newSetModel(t)
		rng := rand.New(rand.NewPCG(seed, 1))
		var trail []string
		t.Cleanup(func() {
			if m.failed {
				t.Logf("seed %d, the last of its operations: %q", seed, trail[max(0, len(trail)-20):])
			}
		})
		m.failed = true
		for range 300 {
			op, key := rng.IntN(12), rng.IntN(modelKeys)
			trail = append(trail, fmt.Sprint(m.step(op, key), " ", key))
			m.check()
		}
		m.failed = false
	}
}

// The same operations from text, for the fuzzer.
func FuzzSet(f *testing.F) {
	f.Add([]byte("\x01\x01\x05\x01\x08\x01\x02\x02\x02\x03\x02\x04\x02\x05\x02\x06\x0a\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := newSetModel(t)
		for pair := range slices.Chunk(ops, 2) {
			if len(pair) == 2 {
				m.step(int(pair[0])%12, int(pair[1])%modelKeys)
				m.check()
			}
		}
		for key := range maps.Keys(m.have) {
			m.get(key)
		}
	})
}
