package prombreakwater

import (
	"iter"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Group is breakers of one scope, the label "scope". Make it with [Single], [Keys] or [NamedKeys].
type Group struct {
	scope string
	read  func() (all []*breaker.Breaker, set *setSize)
}

// setSize is what a set tells without its keys.
type setSize struct {
	owner  any
	states map[breaker.State]int
	stats  breaker.SetStats
}

// Single is breakers each of which is told under its Name. Names must differ within the scope. scope is a word of yours
// for what they guard, other than ScopeReplica and ScopeConsumer.
func Single(scope string, all ...*breaker.Breaker) Group {
	return Group{scope, func() ([]*breaker.Breaker, *setSize) { return all, nil }}
}

// Keys is a set of which is told how many of its breakers are in which state, and no key.
func Keys[K comparable](scope string, s *breaker.Set[K]) Group {
	return Group{scope, func() ([]*breaker.Breaker, *setSize) {
		_, size := readSet(s)
		return nil, size
	}}
}

// NamedKeys is Keys which also tells of each breaker under its Name, which holds the key: for a set whose keys are few and no
// secret. While the set holds more than limit breakers none of them is told under its name.
func NamedKeys[K comparable](scope string, s *breaker.Set[K], limit int) Group {
	return Group{scope, func() ([]*breaker.Breaker, *setSize) {
		all, size := readSet(s)
		if len(all) > limit {
			all = nil
		}
		return all, size
	}}
}

func readSet[K comparable](s *breaker.Set[K]) ([]*breaker.Breaker, *setSize) {
	size := &setSize{owner: s, states: map[breaker.State]int{}, stats: s.Stats()}
	all := slices.Collect(values(s.All()))
	for _, b := range all {
		size.states[b.State()]++
	}
	return all, size
}

func values[K comparable](all iter.Seq2[K, *breaker.Breaker]) iter.Seq[*breaker.Breaker] {
	return func(yield func(*breaker.Breaker) bool) {
		for _, b := range all {
			if !yield(b) {
				return
			}
		}
	}
}

type breakerFamilies struct {
	state, transitions, calls, duration, open, openings, flapping, wouldOpen, faults *family
	setStates, setEvictions                                                          *family

	numbered, failures, fast *family // published
}

func newBreakerFamilies(k *catalogue, published bool) breakerFamilies {
	f := breakerFamilies{
		state:        k.gauge("breakwater_breaker_state", "Whether the breaker is in this state, 0 or 1. Every state is told.", "scope", "name", "state"),
		transitions:  k.counter("breakwater_breaker_transitions_total", "Changes of state, by the rule that made them.", "scope", "name", "from", "to", "reason"),
		calls:        k.counter("breakwater_breaker_calls_total", "Calls by how they ended: success, failure, ignored (says nothing of the target), late (after a change of state, dropped) or rejected.", "scope", "name", "outcome"),
		duration:     k.gauge("breakwater_breaker_call_duration_seconds", "How long the calls of the last 10 to 20 seconds took, by percentile (50, 95, 99). Absent where calls are not timed, and without calls.", "scope", "name", "percentile"),
		open:         k.counter("breakwater_breaker_open_seconds_total", "How long the breaker has been open, half-open or forced open.", "scope", "name"),
		openings:     k.counter("breakwater_breaker_openings_total", "How often the breaker opened, failed recoveries too.", "scope", "name"),
		flapping:     k.gauge("breakwater_breaker_flapping", "1 if the breaker has opened again three times in the last five minutes after it had closed, else 0.", "scope", "name"),
		wouldOpen:    k.counter("breakwater_breaker_would_open_total", "How often a rule on trial would have opened the breaker.", "scope", "name"),
		faults:       k.counter("breakwater_breaker_faults_total", "Failures of parts that the breaker was given: a classifier or an observer that panicked, a value that is none.", "scope", "name"),
		setStates:    k.gauge("breakwater_breaker_set_breakers", "Breakers that a set of keys holds, by state.", "scope", "state"),
		setEvictions: k.counter("breakwater_breaker_set_evictions_total", "Breakers that a set of keys has let go.", "scope"),
	}
	if published {
		f.numbered = k.gauge("circuit_breaker_state", "State of the breaker as a number: 0 closed, 1 half-open, 2 open. A forced or disabled one shows as what it does. breakwater_breaker_state needs no numbers.", "name")
		f.failures = k.counter("circuit_breaker_failures_total", "Calls that failed. The same as breakwater_breaker_calls_total{outcome=\"failure\"}.", "name")
		f.fast = k.counter("circuit_breaker_fast_failures_total", "Calls that were refused at once. The same as breakwater_breaker_calls_total{outcome=\"rejected\"}.", "name")
	}
	return f
}

func states() []breaker.State {
	return []breaker.State{breaker.Closed, breaker.Open, breaker.HalfOpen, breaker.ForcedOpen, breaker.ForcedClosed, breaker.Disabled}
}

func (c *Collector) readGroup(r *report, g Group) {
	all, size := g.read()
	present := map[string]bool{"": true}
	for _, b := range all {
		s := b.Stats()
		present[s.Name] = true
		c.readBreaker(r, g.scope, b, s)
	}
	if size != nil {
		c.readSize(r, g.scope, size)
	}
	c.ledger.keep(g.scope, present)
}

// readSize tells of a set, and of what its keys did together.
func (c *Collector) readSize(r *report, scope string, s *setSize) {
	f, label := &c.breakers, r.label.name(scope)
	for _, state := range states() {
		r.add(f.setStates, float64(s.states[state]), label, state.String())
	}
	r.count(f.setEvictions, s.owner, float64(s.stats.Evictions), label)
	c.readTransitions(r, scope, "")
}

// readBreaker tells of one breaker; owner is what counts its calls.
func (c *Collector) readBreaker(r *report, scope string, owner any, s breaker.Stats) {
	f, labels := &c.breakers, []string{r.label.name(scope), r.label.name(s.Name)}
	with := func(more ...string) []string { return append(slices.Clone(labels), more...) }
	for _, state := range states() {
		r.add(f.state, number(s.State == state), with(state.String())...)
	}
	c.readTransitions(r, scope, s.Name)
	failures := r.count(f.calls, owner, float64(s.Failures), with("failure")...)
	fast := r.count(f.calls, owner, float64(s.Rejected), with("rejected")...)
	r.count(f.calls, owner, float64(s.Successes), with("success")...)
	r.count(f.calls, owner, float64(s.Ignored), with("ignored")...)
	r.count(f.calls, owner, float64(s.Late), with("late")...)
	r.count(f.open, owner, s.Refusing.Seconds(), labels...)
	r.count(f.openings, owner, float64(s.Openings), labels...)
	r.count(f.wouldOpen, owner, float64(s.WouldOpen), labels...)
	r.count(f.faults, owner, float64(s.Faults), labels...)
	r.add(f.flapping, number(s.Flapping), labels...)
	if s.Latency.Calls > 0 {
		for percentile, d := range map[string]time.Duration{"50": s.Latency.P50, "95": s.Latency.P95, "99": s.Latency.P99} {
			r.add(f.duration, d.Seconds(), with(percentile)...)
		}
	}
	r.breakers = append(r.breakers, guarded{labels[0], labels[1], s.State, failures, fast})
}

func (c *Collector) readTransitions(r *report, scope, name string) {
	all, _ := c.ledger.transitions(scope, name)
	for t, n := range all {
		r.add(c.breakers.transitions, float64(n), r.label.name(scope), r.label.name(name), t.from.String(), t.to.String(), t.reason)
	}
}

// published tells of all breakers without their scopes. Where two have one name the later one has its scope before it.
func (f *breakerFamilies) published(m *merged, all []guarded) {
	if f.numbered == nil {
		return
	}
	for _, b := range all {
		name := b.name
		if m.seen[f.numbered.key([]string{name})] {
			name = b.scope + "/" + name
		}
		m.add(f.numbered, generic().of(b.state), name)
		m.add(f.failures, b.failures, name)
		m.add(f.fast, b.fast, name)
	}
}

// A numbering is that of a published design (REQ-O1).
type numbering struct{ closed, halfOpen, open float64 }

// generic is that of circuit_breaker_state, published that of replica_breaker_state and breaker_state.
func generic() numbering   { return numbering{closed: 0, halfOpen: 1, open: 2} }
func published() numbering { return numbering{closed: 0, open: 1, halfOpen: 2} }

// of numbers a state by what it does.
func (n numbering) of(s breaker.State) float64 {
	switch s {
	case breaker.Open, breaker.ForcedOpen:
		return n.open
	case breaker.HalfOpen:
		return n.halfOpen
	default:
		return n.closed
	}
}
