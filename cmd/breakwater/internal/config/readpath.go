package config

import (
	"math"
	"slices"
	"strings"

	"github.com/breakwater-go/breakwater/readpath"
)

// readPath is what endpoints and degraded_mode fill in.
type readPath struct {
	readpath.Config

	stale *bool
}

// endpoints reads names with their classes.
func (p *readPath) endpoints(r *reader, at place) {
	if !r.isMapping(at) {
		return
	}
	p.Endpoints = map[string]readpath.Endpoint{}
	given := map[string]place{}
	for _, e := range r.pairs(at) {
		if e.key.Value == "" {
			r.fault(place{at.path, e.key, false}, "has an endpoint without a name: give it one")
			continue
		}
		value := at.child(e.key.Value, e.value)
		if r.twice(at, given, e) || !r.usable(value) {
			continue
		}
		given[e.key.Value] = value
		if c, ok := r.class(value); ok {
			p.Endpoints[e.key.Value] = readpath.Endpoint{Class: c}
		}
	}
}

func (p *readPath) degraded(r *reader, at place) {
	r.mapping(at,
		class("default_class", "readpath: DefaultClass", &p.DefaultClass),
		section("primary_read_budget", p.budget),
		section("classes", p.classes),
		section("recovery", p.recovery),
	)
}

// The limits of package limit.
const (
	mostRate       = 1e9
	mostConcurrent = 1<<20 - 1
)

func (p *readPath) budget(r *reader, at place) {
	b := &p.Budget
	rate := func(v float64) bool { return v > 0 && v <= mostRate }
	share := func(v float64) bool { return v >= 0 && v < 1 }
	given := r.mapping(at,
		number("rate_per_sec", "readpath: Budget.Rate", &b.Rate, rate, "reads a second, above 0 and at most 1e9, such as 200"),
		whole("burst", "readpath: Budget.Burst", &b.Burst, math.MaxInt32, "200"),
		whole("concurrent", "readpath: Budget.Concurrent", &b.Concurrent, mostConcurrent, "20"),
		number("critical_share", "readpath: Budget.CriticalShare", &b.CriticalShare, share, "a share from 0, which is none, to below 1, such as 0.5"),
		whole("processes", "readpath: Budget.Processes", &b.Processes, math.MaxInt32, "1"),
	)
	if _, ok := given["critical_share"]; ok && b.CriticalShare == 0 {
		b.CriticalShare = -1 // none; 0 is the default there
	}
	for to, from := range map[string]string{"limit: Rate": "readpath: Budget.Rate", "limit: Burst": "readpath: Budget.Burst", "limit: Limit": "readpath: Budget.Concurrent"} {
		r.places[to] = r.places[from]
	}
}

func (p *readPath) classes(r *reader, at place) {
	r.mapping(at, section("critical", p.critical), section("degradable", p.degradable), section("sheddable", p.sheddable))
}

func (p *readPath) critical(r *reader, at place) {
	c := &p.Critical
	r.mapping(at,
		only("on_budget_exhausted", "fail_closed", "a critical read is fresh or fails"),
		seconds("retry_after_s", "readpath: Critical.RetryAfter", &c.RetryAfter, "2"),
		duration("max_staleness", "readpath: Critical.MaxStaleness", &c.MaxStaleness, span{usual: "2s"}),
	)
}

func (p *readPath) degradable(r *reader, at place) {
	d := &p.Degradable
	given := r.mapping(at,
		yes("serve_stale_from_cache", p.stale),
		only("stale_header", `"X-Data-Freshness: stale"`, "readpath/httpread sets this header"),
		only("cache_miss_fallback", "primary_if_budget", "what the cache lacks comes from the primary within its budget, else the endpoint's default is served"),
		duration("max_staleness", "readpath: Degradable.MaxStaleness", &d.MaxStaleness, span{usual: "2s"}),
		duration("max_age", "readpath: Degradable.MaxAge", &d.MaxAge, span{usual: "5m"}),
		duration("late_replicas", "readpath: Degradable.LateReplicas", &d.LateReplicas, span{usual: "30s", zero: true}),
		duration("max_wait", "readpath: Degradable.MaxWait", &d.MaxWait, span{usual: "250ms"}),
		duration("load_timeout", "readpath: Degradable.LoadTimeout", &d.LoadTimeout, span{usual: "2s"}),
	)
	d.LateReplicas = max(d.LateReplicas, 0) // none is 0 there
	if age, ok := given["max_age"]; ok && !*p.stale {
		r.fault(age, "is %s: with serve_stale_from_cache: false nothing of that age is served; remove one of the two", show(age))
	}
}

func (p *readPath) sheddable(r *reader, at place) {
	s := &p.Sheddable
	r.mapping(at,
		only("action", "shed", "a sheddable read is dropped while the path is degraded"),
		only("status", "503", "readpath/httpread answers a refusal with it"),
		seconds("retry_after_s", "readpath: Sheddable.RetryAfter", &s.RetryAfter, "5"),
		duration("max_staleness", "readpath: Sheddable.MaxStaleness", &s.MaxStaleness, span{usual: "2s"}),
	)
}

func (p *readPath) recovery(r *reader, at place) {
	r.mapping(at,
		field{"order", "readpath: Recovery.Order", p.order},
		seconds("require_under_budget_for_s", "readpath: Recovery.Sustain", &p.Recovery.Sustain, "30"),
	)
}

// order names every class once.
func (p *readPath) order(r *reader, at place) {
	before := len(r.faults)
	var order []readpath.Class
	for _, item := range r.list(at) {
		if !r.usable(item) {
			continue
		}
		c, ok := r.class(item)
		if first := slices.Index(order, c); ok && first >= 0 {
			r.fault(item, "is %s: order[%d] is that already; name every class once", c, first)
		}
		order = append(order, c)
	}
	if len(r.faults) > before {
		return
	}
	if missing := without(order); len(missing) > 0 {
		r.fault(at, "lacks %s: name every class once", strings.Join(missing, ", "))
		return
	}
	p.Recovery.Order = order
}

// without are the classes that an order lacks.
func without(order []readpath.Class) (missing []string) {
	for _, c := range []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable} {
		if !slices.Contains(order, c) {
			missing = append(missing, c.String())
		}
	}
	return missing
}
