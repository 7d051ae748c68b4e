package emit

import (
	"slices"
	"sync"
	"sync/atomic"
)

// An epoch is what is in force between two changes of a Router's settings. Each emit belongs to the one in which it began, so that it
// is known when the last emit under older settings has ended.
type epoch struct {
	number   uint64
	config   Config // with its defaults
	lanes    []*lane
	routes   map[string][]*lane
	others   []*lane // of types that nobody names
	observer Observer
	intake   intake // all else is immutable
}

// route finds the lanes of each type that somebody names.
func (e *epoch) route() {
	e.routes = map[string][]*lane{}
	for _, l := range e.lanes {
		for _, t := range l.Types {
			e.routes[t] = nil
		}
		if len(l.Types) == 0 {
			e.others = append(e.others, l)
		}
	}
	for t := range e.routes {
		for _, l := range e.lanes {
			if len(l.Types) == 0 || slices.Contains(l.Types, t) {
				e.routes[t] = append(e.routes[t], l)
			}
		}
	}
}

func (e *epoch) to(kind string) []*lane {
	if lanes, named := e.routes[kind]; named {
		return lanes
	}
	return e.others
}

func (e *epoch) lane(consumer string) *lane {
	for _, l := range e.lanes {
		if l.Name == consumer {
			return l
		}
	}
	return nil
}

// An intake counts the emits under way, until it is closed and they have ended.
type intake struct {
	word    atomic.Int64 // bits 0-61 emits under way, 62 closed
	once    sync.Once
	drained func() // called once; immutable
}

const intakeClosed = 1 << 62

func (i *intake) enter() bool {
	if i.word.Add(1)&intakeClosed == 0 {
		return true
	}
	i.leave()
	return false
}

func (i *intake) leave() { i.check(i.word.Add(-1)) }

func (i *intake) check(word int64) {
	if word == intakeClosed {
		i.once.Do(i.drained)
	}
}

func (i *intake) close() {
	for {
		word := i.word.Load()
		if i.word.CompareAndSwap(word, word|intakeClosed) { // ends: others only come and go
			i.check(word | intakeClosed)
			return
		}
	}
}

// over takes an epoch off whose emits have ended, and has the lanes look that wait for it.
func (r *Router) over(e *epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.running = slices.DeleteFunc(r.mu.running, func(x *epoch) bool { return x == e })
	if r.mu.closed && len(r.mu.running) == 0 {
		close(r.drained)
	}
	for _, l := range r.now.Load().lanes {
		l.wake()
	}
	for _, s := range r.mu.others {
		s.wake()
	}
}

// isOverLocked reports whether all emits up to those of an epoch have ended.
func (r *Router) isOverLocked(number uint64) bool {
	return !slices.ContainsFunc(r.mu.running, func(e *epoch) bool { return e.number <= number })
}

func (r *Router) isOver(number uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isOverLocked(number)
}
