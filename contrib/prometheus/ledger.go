package prombreakwater

import (
	"maps"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/readpath"
)

const (
	maxReasons = 32     // different ones of one breaker; further ones count as other
	maxNames   = 10_000 // breakers of one scope between two scrapes; further ones are not counted
	// overBudgetFor is how long a telling that an endpoint is over its budget holds: it is told every 10 s.
	overBudgetFor = 25 * time.Second
)

// A change is a transition as its series tells it.
type change struct {
	from, to breaker.State
	reason   string
}

// A tally counts the transitions of one breaker.
type tally map[change]uint64

// A ledger is what observers saw.
type ledger struct {
	mu struct {
		sync.Mutex
		scopes map[string]map[string]tally              // by scope and name
		over   map[string]map[string]readpathOverBudget // by path and endpoint
	}
}

type readpathOverBudget struct {
	readpath.OverBudget
	at time.Time
}

func newLedger() *ledger {
	l := &ledger{}
	l.mu.scopes, l.mu.over = map[string]map[string]tally{}, map[string]map[string]readpathOverBudget{}
	return l
}

// watch has a scope's transitions counted from now on.
func (l *ledger) watch(scope string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.scopes[scope] == nil {
		l.mu.scopes[scope] = map[string]tally{}
	}
}

func (l *ledger) record(scope, name string, t breaker.Transition) {
	c := change{t.From, t.To, reason(t.Reason.Rule)}
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.mu.scopes[scope]
	if names[name] == nil {
		if len(names) >= maxNames {
			return
		}
		names[name] = tally{}
	}
	names[name].add(c)
}

func (t tally) add(c change) {
	if _, ok := t[c]; !ok && t.reasons(c.reason) >= maxReasons {
		c.reason = other
	}
	t[c]++
}

// reasons is how many reasons there are besides one.
func (t tally) reasons(but string) int {
	all := map[string]bool{}
	for c := range t {
		if c.reason != but && c.reason != other {
			all[c.reason] = true
		}
	}
	return len(all)
}

// transitions returns what a breaker did, and whether anybody watches its scope.
func (l *ledger) transitions(scope, name string) (tally, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names, watched := l.mu.scopes[scope]
	return maps.Clone(names[name]), watched
}

// keep forgets the breakers of a scope that are not among these.
func (l *ledger) keep(scope string, present map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.mu.scopes[scope] {
		if !present[name] {
			delete(l.mu.scopes[scope], name)
		}
	}
}

func (l *ledger) overBudget(path string, o readpath.OverBudget) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.over[path] == nil {
		l.mu.over[path] = map[string]readpathOverBudget{}
	}
	l.mu.over[path][o.Endpoint] = readpathOverBudget{o, time.Now()}
}

// over returns the endpoints of a path that are over their budget now, as far as they were told.
func (l *ledger) over(path string) []readpath.OverBudget {
	l.mu.Lock()
	defer l.mu.Unlock()
	var now []readpath.OverBudget
	for endpoint, o := range l.mu.over[path] {
		if time.Since(o.at) > overBudgetFor {
			delete(l.mu.over[path], endpoint)
			continue
		}
		now = append(now, o.OverBudget)
	}
	return now
}
