package readpath

import "time"

// An Observer is told what happens to a Router, with no lock held, on the goroutine that found out:
// the watcher, or a caller whose read or Reconfigure did. Its functions must be quick and must not call Close, which waits for the
// watcher; a nil one is not called.
type Observer struct {
	// OnMode is called when the mode changes, or another class is given back.
	OnMode func(ModeChange)
	// OnOverBudget is called every 10 s for a critical endpoint whose rate exceeds the budget.
	OnOverBudget func(OverBudget)
	// OnFault is called when another function of the Observer's, or the Cache, panicked. The read goes on, with
	// a cache that did as an empty one (REQ-B18).
	OnFault func(Fault)
}

// A Fault is a panic of a part that the Router was given.
type Fault struct {
	Part  string // "Cache.Get", "Cache.Set", "OnMode" or "OnOverBudget"
	Panic any    // what it panicked with
	At    time.Time
}

// tell calls a function of the Observer's.
func tell[E any](r *Router, part string, f func(E), event E) {
	if f == nil {
		return
	}
	defer r.caught(part)
	f(event)
}

// caught, deferred by who calls a part that the Router was given, takes in its panic. One of OnFault is counted only.
func (r *Router) caught(part string) {
	v := recover() //nolint:revive // caught is deferred itself
	if v == nil {
		return
	}
	r.faults.Add(1)
	if part != onFault {
		tell(r, onFault, r.settings.Load().Observer.OnFault, Fault{Part: part, Panic: v, At: time.Now()})
	}
}

const onFault = "OnFault"

// cached asks the Cache.
func (r *Router) cached(key CacheKey) (e Entry, ok bool) {
	defer r.caught("Cache.Get")
	return r.cache.Get(key)
}

// keep tells the Cache.
func (r *Router) keep(key CacheKey, e Entry) {
	defer r.caught("Cache.Set")
	r.cache.Set(key, e)
}

// A ModeChange is one step of the mode.
type ModeChange struct {
	From, To Mode
	Given    []Class // classes that the replicas serve, in the order in which they were given back
	At       time.Time
}

// OverBudget says that an endpoint will be refused when the path is degraded (REQ-D13).
type OverBudget struct {
	Endpoint     string
	Rate, Budget float64 // reads a second
}
