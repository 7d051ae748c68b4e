package prombreakwater

import (
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// Replicas wraps the observer of a replica set: transitions are counted, then next is told.
func (c *Collector) Replicas(next replica.Observer) replica.Observer {
	next.OnTransition = c.counting(ScopeReplica, named, next.OnTransition)
	return next
}

// Emits wraps the observer of an emit.Router: transitions are counted, then next is told. A Router that takes the place of another is
// made with the same wrapping.
func (c *Collector) Emits(next emit.Observer) emit.Observer {
	next.OnTransition = c.counting(ScopeConsumer, named, next.OnTransition)
	return next
}

// Breakers wraps the observer of breakers of a scope, as in a [Group] of that scope: transitions are counted, then next is told.
// For a set of keys that [Keys] tells of use [Collector.Keyed].
func (c *Collector) Breakers(scope string, next breaker.Observer) breaker.Observer {
	next.OnTransition = c.counting(scope, named, next.OnTransition)
	return next
}

// Keyed is [Collector.Breakers] for a set whose keys are no labels: its transitions are counted together, under an empty name.
func (c *Collector) Keyed(scope string, next breaker.Observer) breaker.Observer {
	next.OnTransition = c.counting(scope, func(string) string { return "" }, next.OnTransition)
	return next
}

// Path wraps the observer of the read path of that name in Parts.Paths: which endpoints are over the budget is kept, then next is told.
func (c *Collector) Path(name string, next readpath.Observer) readpath.Observer {
	told := next.OnOverBudget
	next.OnOverBudget = func(o readpath.OverBudget) {
		c.ledger.overBudget(name, o)
		if told != nil {
			told(o)
		}
	}
	return next
}

func named(name string) string { return name }

func (c *Collector) counting(scope string, nameOf func(string) string, next func(breaker.Transition)) func(breaker.Transition) {
	c.ledger.watch(scope)
	return func(t breaker.Transition) {
		c.ledger.record(scope, nameOf(t.Name), t)
		if next != nil {
			next(t)
		}
	}
}
