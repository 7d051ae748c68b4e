package emit

import (
	"context"
	"maps"
	"slices"
	"time"
)

// stateFor returns that of a consumer whose lane has not ended, or a new one, ready for the epoch of that number.
func (r *Router) stateFor(k *Consumer, epoch uint64) (*state, error) {
	s := r.stay(k.Name)
	if s == nil {
		return r.join(k)
	}
	if !k.Ordered || s.keys.Load() != nil {
		return s, nil
	}
	keys := newKeys()
	keys.freeze(epoch - 1)
	s.keys.Store(keys) // first: what is stored from now on is counted
	if err := s.holdAll(); err != nil {
		s.keys.Store(nil)
		return nil, err
	}
	return s, nil
}

// listTimeout bounds the wait for a list of all letters of a consumer.
const listTimeout = 30 * time.Second

// holdAll is hold for all that wait.
func (s *state) holdAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	_, err := s.hold(ctx, Filter{Parked: new(false)})
	return err
}

// stay returns the state of a consumer whose lane has not ended, and will not end now.
func (r *Router) stay(consumer string) *state {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stateLocked(consumer)
	if s != nil {
		s.coming = true
	}
	return s
}

// join makes the state of a consumer that has none. Letters of its that make room for others are counted from before what is stored is counted.
func (r *Router) join(k *Consumer) (*state, error) {
	s := newState(r, k, r.chosen(k))
	s.coming = true
	r.mu.Lock()
	if ring, ok := s.store.(*Ring); ok && k.DeadLetters == nil && r.deadLetters == nil {
		r.mu.rings[k.Name] = ring
	}
	r.mu.others[k.Name] = s
	r.mu.Unlock()
	err := s.inherit()
	return s, err
}

// chosen is the store of a consumer: its own, that of all, or a Ring.
func (r *Router) chosen(k *Consumer) DeadLetters {
	if k.DeadLetters != nil {
		return k.DeadLetters
	}
	if r.deadLetters != nil {
		return r.deadLetters
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ring := r.mu.rings[k.Name]; ring != nil {
		return ring
	}
	ring, _ := NewRing(RingConfig{}) // no faults in it
	return ring
}

// inherit counts what the store holds from before.
func (s *state) inherit() error {
	d := s.store.Depths()[s.name]
	s.count.diverted.Add(uint64(max(d.Letters, 0)))
	s.letters.Store(d.Letters > d.Parked)
	if d.Letters == 0 {
		return nil
	}
	return s.holdAll()
}

// giveUp lets those end, or go, that were about to come.
func (r *Router) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.now.Load(); e != nil {
		for _, l := range e.lanes {
			l.coming = false
		}
	}
	for name, s := range r.mu.others {
		s.coming = false
		if s.current.Load() == nil {
			delete(r.mu.others, name)
			r.dropRingLocked(s, s.store.Depths()[name].Letters)
		}
		s.wake()
	}
}

// leaves reports whether a retired lane ends: not while emits to it are under way.
func (r *Router) leaves(s *state) bool {
	r.mu.Lock()
	last := s.lastEpoch
	over := r.isOverLocked(last)
	r.mu.Unlock()
	if !over {
		return false // the end of an epoch wakes
	}
	letters := s.store.Depths()[s.name].Letters // nobody adds to them
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.coming || s.lastEpoch != last || !s.current.Load().retired {
		s.wake()
		return false
	}
	delete(r.mu.others, s.name)
	if letters > 0 && !same(s.store, r.deadLetters) {
		r.mu.left[s.name] = s.store
	}
	r.dropRingLocked(s, letters)
	return true
}

// dropRingLocked forgets the ring of a lane that is no more, if nothing is in it.
func (r *Router) dropRingLocked(s *state, letters int) {
	if letters == 0 {
		delete(r.mu.rings, s.name)
	}
}

// state returns that of a consumer whose lane has not ended, or which is about to come; else nil.
func (r *Router) state(consumer string) *state {
	if l := r.lane(consumer); l != nil {
		return l.state
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateLocked(consumer)
}

func (r *Router) stateLocked(consumer string) *state {
	if e := r.now.Load(); e != nil {
		if l := e.lane(consumer); l != nil {
			return l.state
		}
	}
	return r.mu.others[consumer]
}

// storeOf returns where the letters of a consumer are, and its state; nil where it has none.
func (r *Router) storeOf(consumer string) (DeadLetters, *state) {
	r.mu.Lock()
	s, left := r.stateLocked(consumer), r.mu.left[consumer]
	r.mu.Unlock()
	if s != nil {
		return s.store, s
	}
	if left == nil && r.deadLetters != nil && r.deadLetters.Depths()[consumer].Letters > 0 {
		left = r.deadLetters
	}
	return left, nil
}

// absent finds the letters of consumers that are not in e.
func (r *Router) absent(e *epoch) map[string]Depth {
	found := map[string]Depth{}
	look := func(store DeadLetters) {
		for name, d := range store.Depths() {
			if d.Letters > 0 && e.lane(name) == nil {
				found[name] = d
			}
		}
	}
	if r.deadLetters != nil {
		look(r.deadLetters)
	}
	for _, l := range e.lanes {
		if l.DeadLetters != nil {
			look(l.DeadLetters)
		}
	}
	r.mu.Lock()
	others := slices.Collect(maps.Values(r.mu.left))
	for _, s := range r.mu.others {
		others = append(others, s.store)
	}
	r.mu.Unlock()
	for _, store := range others {
		look(store)
	}
	return found
}
