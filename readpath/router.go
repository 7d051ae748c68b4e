package readpath

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/limit"
	"github.com/breakwater-go/breakwater/replica"
)

// A Router sends reads to the replicas while one is eligible, and does by class what is left
// to do while none is. Make it with [New]; it must not be copied. All its methods, and [Get], may be
// called at any time from any goroutine.
type Router struct {
	backend  Backend   // immutable
	cache    Cache     // immutable, nil: none
	base     time.Time // now counts from here; immutable
	settings atomic.Pointer[settings]
	withheld atomic.Uint32   // classes that the replicas do not serve, as bits; written under mu
	budget   *limit.Bucket   // immutable; reconfigured under mu
	room     *limit.Bulkhead // immutable; reconfigured under mu
	loads    loads
	counts   [classes][sources + 1]atomic.Uint64 // by class and source; the last one: refused
	unknown  atomic.Uint64
	late     atomic.Uint64 // answers of late replicas
	faults   atomic.Uint64 // panics of parts that it was given

	mu struct {
		sync.Mutex
		machine machine
		started bool // every node was sampled once, or could not be
	}

	stop   context.CancelFunc
	owned  sync.WaitGroup // the watcher
	closed context.Context
}

// settings is a Config with its defaults and what is made from it. It is immutable.
type settings struct {
	Config
	endpoints map[string]*endpoint
	other     [classes]*endpoint // of names that are not registered, by class
	kept      int                // tokens that other than critical reads must leave
}

// An endpoint is a registered one, with its refusals.
type endpoint struct {
	Endpoint
	name    string
	reads   atomic.Uint64 // critical ones, since New
	shed    *RefusedError
	refused [classes]*RefusedError // for want of room at the primary
}

// lookEvery is how often the watcher looks whether a replica is eligible.
const lookEvery = 100 * time.Millisecond

// New makes a Router and starts its watcher, which Close ends. The error names every fault of the Config.
func New(c Config) (*Router, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Router{backend: c.Backend, cache: c.Cache, base: time.Now()}
	r.budget, _ = limit.NewBucket(c.Budget.bucket()) // both were checked
	r.room, _ = limit.NewBulkhead(c.Budget.bulkhead())
	r.settings.Store(newSettings(c))
	r.mu.machine = newMachine(c.Recovery)
	r.closed, r.stop = context.WithCancel(context.Background())
	r.owned.Go(r.watch)
	return r, nil
}

func newSettings(c Config) *settings {
	s := &settings{Config: c, endpoints: map[string]*endpoint{}, kept: c.Budget.kept()}
	for name, e := range c.Endpoints {
		s.endpoints[name] = newEndpoint(name, e, &c)
	}
	for k := Critical; k < classes; k++ {
		s.other[k] = newEndpoint("", Endpoint{Class: k}, &c)
	}
	return s
}

func newEndpoint(name string, e Endpoint, c *Config) *endpoint {
	ep := &endpoint{Endpoint: e, name: name}
	for k := Critical; k < classes; k++ {
		ep.refused[k] = &RefusedError{Endpoint: name, Class: k, after: c.Critical.RetryAfter}
	}
	ep.refused[Sheddable].after = c.Sheddable.RetryAfter
	ep.shed = &RefusedError{Endpoint: name, Class: Sheddable, after: c.Sheddable.RetryAfter, shed: true}
	return ep
}

// Close ends the watcher and the loaders, and waits for them. Reads go on as if nothing had changed since.
func (r *Router) Close() {
	r.stop()
	r.loads.close()
	r.owned.Wait()
}

// Reconfigure changes the settings of a running Router (REQ-D9). The mode, the tokens and the
// counts stay. Backend and Cache stay too and may be nil. The error names every fault; nothing has
// changed then.
func (r *Router) Reconfigure(c Config) error {
	c.Backend, c.Cache = r.backend, r.cache
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return err
	}
	change, err := r.reconfigure(c)
	if change != nil {
		tell(r, "OnMode", c.Observer.OnMode, *change)
	}
	return err
}

// reconfigure takes over a Config that was checked. It returns the change of the mode, if that is one.
func (r *Router) reconfigure(c Config) (*ModeChange, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.budget.Reconfigure(c.Budget.bucket()); err != nil {
		return nil, err
	}
	if err := r.room.Reconfigure(c.Budget.bulkhead()); err != nil {
		return nil, err
	}
	s := newSettings(c)
	r.settings.Load().carry(s)
	r.settings.Store(s)
	m := &r.mu.machine
	from, given := m.mode(), m.given
	m.reconfigure(c.Recovery)
	r.withheld.Store(m.withheld())
	if m.mode() == from && m.given == given {
		return nil, nil //nolint:nilnil // nothing to tell, and no fault
	}
	return new(m.change(from)), nil
}

// carry keeps the counts of endpoints that stay.
func (s *settings) carry(to *settings) {
	for name, e := range s.endpoints {
		if next := to.endpoints[name]; next != nil {
			next.reads.Store(e.reads.Load())
		}
	}
}

// Config returns the settings in force, with their defaults: to change some of them by Reconfigure. Its maps and slices are the caller's own.
func (r *Router) Config() Config {
	c := r.settings.Load().Config
	c.Endpoints, c.Recovery.Order = maps.Clone(c.Endpoints), slices.Clone(c.Recovery.Order)
	if c.Budget.CriticalShare == 0 {
		c.Budget.CriticalShare = -1 // none: 0 would be the default
	}
	return c
}

// Endpoints returns the registered names and their classes, for a test that all of a program's
// reads are registered (REQ-D2).
func (r *Router) Endpoints() map[string]Class {
	m := map[string]Class{}
	for name, e := range r.settings.Load().endpoints {
		m[name] = e.Class
	}
	return m
}

// Missing returns those of names that are not registered, sorted.
func (r *Router) Missing(names ...string) (missing []string) {
	has := r.Endpoints()
	for _, name := range slices.Sorted(slices.Values(names)) {
		if _, ok := has[name]; !ok {
			missing = append(missing, name)
		}
	}
	return missing
}

// watch looks whether a replica is eligible, so that the mode changes without traffic too.
func (r *Router) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	rates := map[string]uint64{}
	for n := 1; ; n++ {
		select {
		case <-r.closed.Done():
			return
		case <-tick.C:
		}
		r.look()
		if n%looksPerRate == 0 {
			rates = r.warn(rates)
		}
	}
}

func (r *Router) now() time.Duration { return time.Since(r.base) }

// look asks whether a replica is eligible for a class that has the replicas, or is the next to be given them: what
// some reads may use, though others ask for more, is no outage of all of them (REQ-R14).
func (r *Router) look() {
	r.mu.Lock()
	classes := r.mu.machine.asking()
	r.mu.Unlock()
	r.judge(slices.ContainsFunc(classes, func(c Class) bool { return r.backend.Eligible(r.requirement(c)) }))
}

// judge takes in whether a replica is eligible. Before every node was sampled once nobody
// knows (REQ-D1).
func (r *Router) judge(eligible bool) {
	sampled := eligible || r.backend.Sampled()
	r.mu.Lock()
	r.mu.started = r.mu.started || sampled
	m := &r.mu.machine
	from := m.mode()
	if !r.mu.started || !m.look(r.now(), eligible) {
		r.mu.Unlock()
		return
	}
	r.withheld.Store(m.withheld())
	e := m.change(from)
	r.mu.Unlock()
	tell(r, "OnMode", r.settings.Load().Observer.OnMode, e)
}

// requirement is what a read of a class asks of a replica.
func (r *Router) requirement(c Class) replica.Requirement {
	s := r.settings.Load()
	switch c {
	case Critical:
		return replica.Requirement{MaxStaleness: s.Critical.MaxStaleness}
	case Degradable:
		return replica.Requirement{MaxStaleness: s.Degradable.MaxStaleness, AcceptUnverified: true}
	default:
		return replica.Requirement{MaxStaleness: s.Sheddable.MaxStaleness, AcceptUnverified: true}
	}
}

// Mode returns what the path does now.
func (r *Router) Mode() Mode {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.machine.mode()
}

// Stats is a snapshot of a Router. Counters run from New and only grow.
type Stats struct {
	Mode         Mode
	Withheld     []Class       // classes that the replicas do not serve
	DegradedFor  time.Duration // in all, until now
	BudgetTokens float64       // that a critical read could draw from now
	InFallback   int           // fall-back reads that run
	// Reads counts answers by class and source.
	Reads map[Class]map[Source]uint64
	// Refused counts refusals by class.
	Refused map[Class]uint64
	Late    uint64 // answers of late replicas, which Reads counts as of a replica
	Unknown uint64 // reads of endpoints that are not registered
	Faults  uint64 // panics of the Cache and the Observer
}

// Stats returns what the Router counted.
func (r *Router) Stats() Stats {
	s := Stats{
		BudgetTokens: r.budget.Tokens(), InFallback: r.room.Stats().InFlight, Unknown: r.unknown.Load(), Late: r.late.Load(), Faults: r.faults.Load(),
		Reads: map[Class]map[Source]uint64{}, Refused: map[Class]uint64{},
	}
	for c := Critical; c < classes; c++ {
		s.Reads[c] = map[Source]uint64{}
		for from := FromReplica; from < sources; from++ {
			s.Reads[c][from] = r.counts[c][from].Load()
		}
		s.Refused[c] = r.counts[c][sources].Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &r.mu.machine
	s.Mode, s.DegradedFor, s.Withheld = m.mode(), m.degraded(r.now()), slices.Clone(m.order[m.given:])
	return s
}

// looksPerRate is how many looks there are to one look at the endpoints' rates: 10 s.
const looksPerRate = int(10 * time.Second / lookEvery)

// warn tells of critical endpoints whose rate exceeds the budget: they will be refused when the
// path is degraded (REQ-D13). It returns the counts to compare with the next time.
func (r *Router) warn(before map[string]uint64) map[string]uint64 {
	s := r.settings.Load()
	counts := map[string]uint64{}
	budget := s.Budget.bucket().Rate
	for _, name := range slices.Sorted(maps.Keys(s.endpoints)) {
		n := s.endpoints[name].reads.Load()
		counts[name] = n
		rate := float64(n-min(before[name], n)) / (time.Duration(looksPerRate) * lookEvery).Seconds()
		if rate > budget {
			tell(r, "OnOverBudget", s.Observer.OnOverBudget, OverBudget{Endpoint: name, Rate: rate, Budget: budget})
		}
	}
	return counts
}
