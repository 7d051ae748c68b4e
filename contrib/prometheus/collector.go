package prombreakwater

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// The scopes of breakers that are not of a [Group].
const (
	ScopeReplica  = "replica"
	ScopeConsumer = "consumer"
)

const defaultTimeout = 5 * time.Second

// Config says what a Collector tells of. Parts is required.
type Config struct {
	// Parts returns what there is now. It is called once a scrape and must be quick.
	Parts func() Parts
	// Version is the label of breakwater_build_info. Default: "unknown".
	Version string
	// NoPublished leaves out the names of published designs (replica_breaker_state, circuit_breaker_state, breaker_state and so on), which
	// are told beside those that begin with breakwater_. Default: false.
	NoPublished bool
	// Timeout is how long a scrape waits for all of its parts together, at least 10 ms; less than Prometheus waits for the scrape. Default: 5s.
	Timeout time.Duration
}

// Parts is what a process runs. What is nil or empty is not told of.
type Parts struct {
	// Set is the replicas, with their breakers.
	Set *replica.Set
	// Paths are read paths by name, the label "path".
	Paths map[string]*readpath.Router
	// Router is the consumers, with their breakers.
	Router *emit.Router
	// Groups are further breakers. Their scopes must differ.
	Groups []Group
}

// A Collector is a prometheus.Collector. Make it with [New].
type Collector struct {
	config    Config
	catalogue catalogue
	flights   *flights
	ledger    *ledger
	label     labeller

	breakers breakerFamilies
	replicas replicaFamilies
	paths    pathFamilies
	emits    emitFamilies
	sourceUp *family
	dropped  *family
	build    *family
}

var _ prometheus.Collector = (*Collector)(nil)

// New makes a Collector. The error names every fault of the Config.
func New(c Config) (*Collector, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Version == "" {
		c.Version = "unknown"
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	label := labeller{maphash.MakeSeed()}
	p := &Collector{config: c, label: label, flights: newFlights(label), ledger: newLedger()}
	p.families(&p.catalogue)
	return p, nil
}

func (c Config) check() error {
	var errs []error
	if c.Parts == nil {
		errs = append(errs, errors.New("prombreakwater: Parts is nil: give a function that returns what to tell of"))
	}
	if c.Timeout < 10*time.Millisecond {
		errs = append(errs, fmt.Errorf("prombreakwater: Timeout is %v: use at least 10ms", c.Timeout))
	}
	return errors.Join(errs...)
}

func (c *Collector) families(k *catalogue) {
	published := !c.config.NoPublished
	c.breakers = newBreakerFamilies(k, published)
	c.replicas = newReplicaFamilies(k, published)
	c.paths = newPathFamilies(k, published)
	c.emits = newEmitFamilies(k, published)
	c.sourceUp = k.gauge("breakwater_source_up", "Whether this part could be asked in this scrape: 0 if it panicked or took too long, and its series are missing.", "source")
	c.dropped = k.gauge("breakwater_scrape_dropped_series", "Series that this scrape left out, since another has the same labels.")
	c.build = k.gauge("breakwater_build_info", "Always 1; what runs.", "version", "go_version")
}

// Describe tells the families.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.catalogue.all {
		out <- f.desc
	}
}

// Collect asks every part, and tells what those answered that did so in time.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	m := c.merge(ctx)
	for _, s := range m.samples {
		out <- s.metric
	}
}

// Close waits for parts that are still being asked, or until ctx ends and returns its error. Call it after the last scrape.
func (c *Collector) Close(ctx context.Context) error { return c.flights.drain(ctx) }

// merge asks all sources at once and puts together what they tell.
func (c *Collector) merge(ctx context.Context) *merged {
	m := &merged{seen: map[string]bool{}}
	sources, ok := c.sources(ctx)
	m.add(c.sourceUp, number(ok), "parts")
	under := make([]*flight, len(sources))
	for i, s := range sources {
		under[i] = c.flights.begin(s)
	}
	var all []guarded
	degraded := false
	for i, t := range under {
		r := t.wait(ctx)
		m.add(c.sourceUp, number(r != nil), sources[i].name)
		if r != nil {
			m.take(r)
			all = append(all, r.breakers...)
			degraded = degraded || r.degraded
		}
	}
	if slices.ContainsFunc(sources, source.isPath) {
		m.add(c.paths.any, number(degraded))
	}
	c.breakers.published(m, all)
	m.add(c.build, 1, c.config.Version, runtime.Version())
	m.add(c.dropped, float64(m.dropped))
	return m
}

// sources asks what parts there are. It is false if they could not be told.
func (c *Collector) sources(ctx context.Context) ([]source, bool) {
	var parts Parts
	asked := c.flights.begin(source{"parts", func(r *report) { r.parts = c.config.Parts() }}).wait(ctx)
	if asked == nil {
		return nil, false
	}
	parts = asked.parts
	var all []source
	if parts.Set != nil {
		all = append(all, source{"replicas", func(r *report) { c.readReplicas(r, parts.Set) }})
	}
	for _, name := range slices.Sorted(maps.Keys(parts.Paths)) {
		if path := parts.Paths[name]; path != nil {
			all = append(all, source{pathPrefix + c.label.name(name), func(r *report) { c.readPath(r, name, path) }})
		}
	}
	if parts.Router != nil {
		all = append(all, source{"consumers", func(r *report) { c.readRouter(r, parts.Router) }})
	}
	for _, g := range parts.Groups {
		all = append(all, source{"breakers " + c.label.name(g.scope), func(r *report) { c.readGroup(r, g) }})
	}
	c.flights.keep(all)
	return all, true
}

// merged is a whole scrape: no two samples of one key.
type merged struct {
	samples []sample
	seen    map[string]bool
	dropped int
}

func (m *merged) take(r *report) {
	m.dropped += r.dropped
	for _, s := range r.samples {
		m.put(s)
	}
}

func (m *merged) put(s sample) {
	if m.seen[s.key] {
		m.dropped++
		return
	}
	m.seen[s.key] = true
	m.samples = append(m.samples, s)
}

func (m *merged) add(f *family, v float64, labels ...string) {
	if s, ok := f.sample(v, labels...); ok {
		m.put(s)
	}
}
