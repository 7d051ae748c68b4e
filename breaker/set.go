package breaker

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"
)

// A Set holds one breaker for each key: a consumer, a host, a tenant (REQ-B15).
// Make it with [NewSet]; it must not be copied. All its methods may be called at
// any time from any goroutine, from callbacks too.
//
// It keeps at most Max breakers. For a new one beyond that it evicts one that was
// not used for some time, or, where many are in use, any. An evicted breaker that
// somebody still holds, if only by the [Permit] of a call under way, stays the one
// of its key: the next Get returns it. One that nobody holds is collected. If it
// was not closed then, the set remembers its state, its reason, when its open
// period ends and how long the next one will be, and the next Get makes a breaker
// that goes on from there, with new counters in [Stats]. If it was closed the next
// one begins anew, also in what its rules count.
//
// # Memory
//
// With the default Config a key takes about 1.2 KB, 2 KB more once it has counted
// 65,536 successes, and one that is only remembered 0.5 KB and the text of its reason. A set keeps at most Max and
// remembers at most Max others; besides, an evicted breaker leaves 0.25 KB as long
// as somebody holds it or it is not collected yet (go test -run TestDocumentedS
// -v ./breaker). A set has no goroutine, no timer of its own and no Close.
type Set[K comparable] struct {
	clock  clock // of all its breakers, so that a retry instant outlives its breaker
	config SetConfig[K]
	index  sync.Map // K to *entry[K]; written under mu
	faults atomic.Uint64

	mu struct {
		sync.Mutex
		pools     [places]pool[K]
		evictions uint64
		forgotten uint64
	}
}

// NewSet makes an empty set. The error names every fault of the SetConfig.
func NewSet[K comparable](c SetConfig[K]) (*Set[K], error) {
	return newSet(c, &realClock{time.Now()})
}

func newSet[K comparable](c SetConfig[K], clk clock) (*Set[K], error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Set[K]{clock: clk, config: c}, nil
}

// Get returns the breaker of key, and makes it where there is none: always the
// same one as long as anybody has it. It never fails. For a key that the set keeps it
// takes no lock and allocates nothing.
//
// A key that is not equal to itself, as NaN is not, gets a breaker of its own
// each time. A key of an interface type whose dynamic type cannot be compared
// panics, as it does in a map.
func (s *Set[K]) Get(key K) *Breaker {
	if e := s.entry(key); e != nil {
		if b := e.use(); b != nil {
			return b
		}
	}
	return s.find(key)
}

func (s *Set[K]) entry(key K) *entry[K] {
	v, _ := s.index.Load(key)
	e, _ := v.(*entry[K])
	return e
}

// find is Get for a key that the set does not keep.
func (s *Set[K]) find(key K) *Breaker {
	s.mu.Lock()
	b := s.heldLocked(key)
	s.mu.Unlock()
	if b != nil {
		return b
	}
	fresh, f := s.make(key) // it calls For: not under the lock
	b = s.adopt(key, fresh)
	if b == fresh && f.Part != "" {
		s.faults.Add(1)
		b.report(f)
	}
	return b
}

// heldLocked returns the breaker of key that the set or anybody else has, nil
// if nobody does. The set keeps it from now on.
func (s *Set[K]) heldLocked(key K) *Breaker {
	e := s.entry(key)
	if e == nil {
		return nil
	}
	if b := e.use(); b != nil {
		return b
	}
	b := e.weak.Value()
	if b != nil {
		s.keepLocked(e, b)
	}
	return b
}

// adopt makes fresh the breaker of key, unless another caller was first.
func (s *Set[K]) adopt(key K, fresh *Breaker) *Breaker {
	if key != key { //nolint:gocritic // true of NaN, which no map finds again
		return fresh
	}
	s.mu.Lock()
	b := s.heldLocked(key)
	var m *memory
	if b == nil {
		b, m = fresh, s.insertLocked(key, fresh)
	}
	s.mu.Unlock()
	if m != nil {
		b.overdue(m) // it tells the observer: not under the lock
	}
	return b
}

// insertLocked makes b the breaker of key and returns the memory from which it was
// restored, if there was one.
func (s *Set[K]) insertLocked(key K, b *Breaker) *memory {
	e := s.entry(key)
	if e == nil {
		e = &entry[K]{key: key}
		s.index.Store(key, e)
	}
	b.memory = &e.memory
	m := e.memory.Load()
	if m != nil {
		b.restore(m)
	}
	s.keepLocked(e, b)
	return m
}

// make makes a breaker. Where For fails it is one of Config, and the fault says so
// (REQ-B18).
func (s *Set[K]) make(key K) (*Breaker, Fault) {
	c := s.config.Config
	c.Name = nameOf(c.Name, key)
	c.Rules = slices.Clone(c.Rules) // For may write to them
	own, f := s.ask(key, c)
	b, err := newBreaker(own, s.clock)
	if err == nil {
		return b, f
	}
	b, _ = newBreaker(c, s.clock) // NewSet has checked it
	return b, Fault{Part: "For", Detail: "the key gets Config instead: " + err.Error()}
}

// ask asks For.
func (s *Set[K]) ask(key K, c Config) (own Config, f Fault) {
	if s.config.For == nil {
		return c, Fault{}
	}
	defer func() {
		if v := recover(); v != nil {
			own, f = c, Fault{Part: "For", Detail: "panicked; the key gets Config instead", Panic: v}
		}
	}()
	return s.config.For(key, c), Fault{}
}

func nameOf[K comparable](prefix string, key K) string {
	if prefix != "" {
		prefix += "/"
	}
	return prefix + fmt.Sprint(key)
}

// Remove forgets key with all its state. The next Get makes a new breaker;
// whoever still holds the old one is alone with it.
func (s *Set[K]) Remove(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(key); e != nil {
		s.forgetLocked(e)
	}
}

// Len returns how many breakers the set keeps: 0 to Max.
func (s *Set[K]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.pools[kept].entries)
}

// All yields the keys and breakers that the set keeps, in no order, without a
// lock and without counting as a use. One that comes or goes meanwhile may be
// yielded or not; none is yielded twice.
func (s *Set[K]) All() iter.Seq2[K, *Breaker] {
	return func(yield func(K, *Breaker) bool) {
		s.index.Range(func(_, v any) bool {
			e, _ := v.(*entry[K])
			b := e.strong.Load()
			return b == nil || yield(e.key, b)
		})
	}
}

// SetStats is a snapshot of a [Set]. Counters run from NewSet and only grow.
type SetStats struct {
	Len        int // breakers that the set keeps
	Evicted    int // evicted ones that somebody holds, or that are not collected yet
	Remembered int // collected ones that were not closed

	Evictions uint64
	Forgotten uint64 // remembered ones dropped since Max others were remembered: their keys begin closed
	Faults    uint64 // keys that got Config because For failed
}

// Stats returns what the set holds. It takes the set's lock for a moment.
func (s *Set[K]) Stats() SetStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.mu.pools
	return SetStats{
		Len: len(p[kept].entries), Evicted: len(p[evicted].entries), Remembered: len(p[remembered].entries),
		Evictions: s.mu.evictions, Forgotten: s.mu.forgotten, Faults: s.faults.Load(),
	}
}

// An entry is a key of a Set. Its breaker keeps it alive, and so it must not
// keep the set alive.
type entry[K comparable] struct {
	key    K
	strong atomic.Pointer[Breaker] // nil unless the set keeps it; written under Set.mu
	memory atomic.Pointer[memory]  // written under Breaker.mu; nil: closed
	used   atomic.Bool             // by a Get since the hand came by

	// Under Set.mu:
	place place
	at    int                   // in the pool of that place
	seen  time.Duration         // when the hand found it used, or it came to be kept
	weak  weak.Pointer[Breaker] // set when it is evicted
}

// use returns the breaker if the set keeps it. A word that is set already is not written, so that
// callers of one key share its line.
func (e *entry[K]) use() *Breaker {
	b := e.strong.Load()
	if b != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return b
}
