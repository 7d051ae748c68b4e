package emit

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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
// It waits for no delivery, but for the store to list what it holds of consumers that are new and Ordered, or become it: 30 s at most for each.
// An Observer must not call it.
func (r *Router) Reconfigure(c Config) error {
	c = c.withDefaults()
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.isClosed() {
		return ErrClosed
	}
	if err := errors.Join(c.check(), r.checkFixed(c)); err != nil {
		return err
	}
	return r.install(c)
}

func (r *Router) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.closed
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
