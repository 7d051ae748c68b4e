package breaker

import (
	"time"
	"weak"
)

// What one key that comes may cost: so many entries are looked at, whatever the
// size of the set. At most 1 + idleLooks entries are evicted for it, so that
// evictedLooks, which is more, catches up with those that were collected.
const (
	usedLooks    = 64
	idleLooks    = 2
	evictedLooks = 4
)

// keepLocked puts an entry that the set does not keep among those that it does.
func (s *Set[K]) keepLocked(e *entry[K], b *Breaker) {
	s.moveLocked(e, nowhere)
	now := s.clock.since()
	if len(s.mu.pools[kept].entries) >= s.config.Max {
		s.evictLocked(s.victimLocked(now))
	}
	s.evictIdleLocked(now)
	s.sweepLocked()
	e.seen = now
	e.strong.Store(b)
	s.moveLocked(e, kept)
}

// victimLocked is the next entry that was not used since the hand came by, or
// the next of all where many in a row were. A new entry counts as not used: a
// stream of keys that come once does not push out those that come again.
func (s *Set[K]) victimLocked(now time.Duration) *entry[K] {
	for range usedLooks {
		if e := s.mu.pools[kept].next(); !e.wasUsed(now) {
			return e
		}
	}
	return s.mu.pools[kept].next()
}

// wasUsed reports whether the entry was used since the hand came by. Under Set.mu.
func (e *entry[K]) wasUsed(now time.Duration) bool {
	if !e.used.Load() {
		return false
	}
	e.used.Store(false)
	e.seen = now
	return true
}

func (s *Set[K]) evictIdleLocked(now time.Duration) {
	if s.config.Idle == 0 {
		return
	}
	for range min(idleLooks, len(s.mu.pools[kept].entries)) {
		if e := s.mu.pools[kept].next(); !e.wasUsed(now) && now-e.seen >= s.config.Idle {
			s.evictLocked(e)
		}
	}
}

// evictLocked lets go of a breaker: a caller who finds it gone asks under the lock
// whether anybody still has it.
func (s *Set[K]) evictLocked(e *entry[K]) {
	e.weak = weak.Make(e.strong.Load())
	e.strong.Store(nil)
	s.moveLocked(e, evicted)
	s.mu.evictions++
}

// sweepLocked looks whether evicted breakers were collected. Nobody can change
// the memory of one that was.
func (s *Set[K]) sweepLocked() {
	for range min(evictedLooks, len(s.mu.pools[evicted].entries)) {
		e := s.mu.pools[evicted].next()
		switch {
		case e.weak.Value() != nil:
		case e.memory.Load() == nil:
			s.forgetLocked(e)
		default:
			s.rememberLocked(e)
		}
	}
}

// rememberLocked makes room by forgetting one of those that have been
// remembered for longest: its key begins closed, which is counted.
func (s *Set[K]) rememberLocked(e *entry[K]) {
	if p := &s.mu.pools[remembered]; len(p.entries) >= s.config.Max {
		s.forgetLocked(p.next())
		s.mu.forgotten++
	}
	e.weak = weak.Pointer[Breaker]{}
	e.memory.Store(e.memory.Load().withoutTimer())
	s.moveLocked(e, remembered)
}

func (s *Set[K]) forgetLocked(e *entry[K]) {
	s.moveLocked(e, nowhere)
	s.index.Delete(e.key)
}

// A place of an entry is the pool that it is in.
type place uint8

const (
	nowhere    place = iota // new, or forgotten; its pool stays empty
	kept                    // the set holds the breaker: at most Max
	evicted                 // callers hold it, or it is not collected yet
	remembered              // it was collected, and was not closed: at most Max
	places
)

func (s *Set[K]) moveLocked(e *entry[K], to place) {
	if e.place != nowhere {
		s.mu.pools[e.place].remove(e)
	}
	e.place = to
	if to != nowhere {
		s.mu.pools[to].add(e)
	}
}

// A pool is some entries of a Set, with a hand that goes round. Under Set.mu.
type pool[K comparable] struct {
	entries []*entry[K]
	hand    int // the next one to look at
}

// next is the entry under the hand, which moves on. The pool must not be empty.
func (p *pool[K]) next() *entry[K] {
	if p.hand >= len(p.entries) {
		p.hand = 0
	}
	p.hand++
	return p.entries[p.hand-1]
}

func (p *pool[K]) add(e *entry[K]) {
	e.at = len(p.entries)
	p.entries = append(p.entries, e)
}

// remove fills the place with the last entry: an entry that is removed where the
// hand was, and one that is added, are an exchange behind the hand, so that
// the hand meets the new one a turn later.
func (p *pool[K]) remove(e *entry[K]) {
	last := len(p.entries) - 1
	p.entries[e.at] = p.entries[last]
	p.entries[e.at].at = e.at
	p.entries[last] = nil
	p.entries = p.entries[:last]
}
