package emit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Config returns the settings in force, with their defaults; of a Consumer.Breaker and where DeadLetters are a Ring of the Router's
// it has what was given. It may be changed and handed to Reconfigure.
func (r *Router) Config() Config { return r.now.Load().config.clone() }

func (c Config) clone() Config {
	c.Priorities, c.Consumers = slices.Clone(c.Priorities), slices.Clone(c.Consumers)
	for i := range c.Consumers {
		k := &c.Consumers[i]
		k.Types, k.Breaker.Rules = slices.Clone(k.Types), slices.Clone(k.Breaker.Rules)
	}
	return c
}

// Reconfigure changes the settings of a running Router (REQ-B16). c is all of them: a field that is left zero gets its default, not what
// it was before. Emits under way go on as they began.
//
//   - A consumer whose Name stays keeps its breaker with its state, its counts, the order of its keys and its dead letters. Triggers that
//     were emitted before it became Ordered are not among those whose order is kept.
//   - A new one gets a lane, and what the stores hold of it.
//   - One that is gone gets no emit any more; calls under way finish, or are stored at their own timeout. Then its lane ends, and it is in
//     no Stats; its letters stay, and are in Stats.Absent. If it comes back before the end it goes on as if it had stayed, else it is new.
//
// Priorities, DefaultPriority and DeadLetters, of the Config and of a consumer, cannot change: make a new Router. The error names every
// fault; nothing has changed then. After Drain or Close it matches ErrClosed.
//
// It waits for no delivery, but for the store to list what it holds of consumers that become Ordered, for 5 s at most. An Observer must not call it.
func (r *Router) Reconfigure(c Config) error {
	c = c.withDefaults()
	r.changing.Lock()
	defer r.changing.Unlock()
	if err := errors.Join(c.check(), r.checkFixed(c)); err != nil {
		return err
	}
	return r.install(c)
}

// checkFixed finds what cannot change.
func (r *Router) checkFixed(c Config) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("emit: "+format, args...)) }
	was := r.now.Load().config
	if !slices.Equal(c.Priorities, was.Priorities) {
		fault("Config.Priorities is %q: they stay %q; make a new Router to change them", c.Priorities, was.Priorities)
	}
	if c.DefaultPriority != was.DefaultPriority {
		fault("Config.DefaultPriority is %q: it stays %q; make a new Router to change it", c.DefaultPriority, was.DefaultPriority)
	}
	if !same(c.DeadLetters, was.DeadLetters) {
		fault("Config.DeadLetters is another store: letters would be left behind; make a new Router to change it")
		return errors.Join(faults...)
	}
	for i := range c.Consumers {
		k := &c.Consumers[i]
		if has, _ := r.storeOf(k.Name); has != nil && !same(r.chosen(k), has) {
			fault("consumer %q: DeadLetters is another store than the one with its letters: make a new Router to change it", k.Name)
		}
	}
	return errors.Join(faults...)
}

// same compares stores; those of a type that cannot be compared are taken for the same.
func same(a, b DeadLetters) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.IsValid() && y.IsValid() && x.Type() == y.Type() && !x.Comparable() {
		return true
	}
	return a == b
}

// install puts settings in force, which were checked.
func (r *Router) install(c Config) error {
	e := &epoch{number: 1, config: c.clone(), observer: c.Observer}
	e.intake.drained = func() { r.over(e) }
	old := r.now.Load()
	if old != nil {
		e.number = old.number + 1
	}
	for i := range e.config.Consumers {
		k := &e.config.Consumers[i]
		s, err := r.stateFor(k, e.number)
		if err != nil {
			r.giveUp()
			return fmt.Errorf("emit: dead letters of %s: %w", k.Name, err)
		}
		l := &lane{Consumer: *k, state: s, noLabels: c.NoLabels}
		if k.Ordered {
			l.order = s.keys.Load()
		}
		e.lanes = append(e.lanes, l)
	}
	e.route()
	return r.replace(old, e)
}

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
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	if _, err := s.hold(ctx, Filter{Parked: new(false)}); err != nil {
		s.keys.Store(nil)
		return nil, err
	}
	return s, nil
}

// listTimeout bounds the wait for a list of all letters of a consumer.
const listTimeout = 30 * time.Second

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
	return s, s.inherit()
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
	_, err := s.hold(context.Background(), Filter{Parked: new(false)})
	return err
}

// replace has e take the place of old, which is nil in New.
func (r *Router) replace(old, e *epoch) error {
	r.mu.Lock()
	if r.mu.closed {
		r.mu.Unlock()
		r.giveUp()
		return ErrClosed
	}
	r.mu.running = append(r.mu.running, e)
	r.now.Store(e)     // before a lane's goroutine looks at it
	var stayed []*lane // as they were
	for _, l := range e.lanes {
		was := l.current.Load()
		l.current.Store(l)
		l.coming = false
		delete(r.mu.others, l.Name)
		if was == nil {
			r.begin(l.state)
		} else {
			stayed = append(stayed, was)
		}
		delete(r.mu.left, l.Name)
	}
	if old != nil {
		r.retireLocked(old, e)
	}
	r.mu.Unlock()
	if old != nil {
		old.intake.close()
	}
	for _, was := range stayed {
		was.reconfigure(&was.Consumer, &was.current.Load().Consumer)
	}
	return nil
}

// retireLocked has the lanes of old end that are not in e.
func (r *Router) retireLocked(old, e *epoch) {
	for _, l := range old.lanes {
		if e.lane(l.Name) != nil {
			continue
		}
		gone := *l
		gone.retired = true
		l.lastEpoch = old.number
		r.mu.others[l.Name] = l.state
		l.current.Store(&gone)
		l.wake()
		l.demands.progress() // callers of Replay look
	}
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
