package main

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// play joins the made-up replicas and the real consumers.
type play struct {
	*api.Standard
	tide   *tide
	shops  *shops
	hub    *api.Hub
	daemon bool
}

// Status is that of the consumers, and what the tide says.
func (p *play) Status() api.Status {
	st := p.Standard.Status()
	t := p.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	st.Primary = &api.Primary{Name: "primary", Condition: replica.Fit, LastRun: &now, InFlight: t.path.InFallback}
	st.Settings = new(t.settings)
	st.ReadPath = t.readPath()
	for _, n := range t.nodes {
		r := n.Replica
		b := &r.Breaker
		b.InStateMS = float64(now.Sub(b.Since).Milliseconds())
		if b.State == breaker.Open {
			b.RetryAfterMS = max(0, b.OpenPeriodMS-b.InStateMS)
		}
		st.Replicas = append(st.Replicas, r)
	}
	if p.daemon {
		st.Reload = &api.Reload{At: st.Started, OK: true, Reloads: 1, NeedsRestart: []string{"listen"}}
	} else {
		st.Traffic = t.traffic(p.shops.perSec())
	}
	return st
}

func (t *tide) readPath() *api.ReadPath {
	p := t.path
	p.Reads = map[readpath.Class]map[readpath.Source]uint64{}
	for class, by := range t.path.Reads {
		p.Reads[class] = maps.Clone(by)
	}
	p.Refused = map[readpath.Class]uint64{readpath.Sheddable: t.path.Refused[readpath.Sheddable]}
	p.Served = map[readpath.Class]string{}
	words := map[readpath.Class]string{
		readpath.Critical: "the primary within its budget, else refused: retry after 2 s", readpath.Degradable: "the cache up to 5 min old, flagged stale; else the primary within its budget",
		readpath.Sheddable: "the endpoint's default, else refused: retry after 5 s",
	}
	for class, word := range words {
		p.Served[class] = "the replicas"
		if slices.Contains(p.Withheld, class) {
			p.Served[class] = word
		}
	}
	return &p
}

func (t *tide) traffic(emits float64) *api.Traffic {
	wave := math.Sin(float64(t.n) / 17)
	out := &api.Traffic{
		ReadsPerSec: t.perSec, BySource: map[string]float64{"replica": t.perSec * (1 + 0.04*wave)}, P50MS: 1.1 + 0.1*wave, P95MS: 2.6 + 0.4*wave, P99MS: 4.8 + wave,
		EmitsPerSec: emits, EmitP99MS: 9 + 2*wave, EmitDelivered: emits,
	}
	if t.path.Mode == readpath.Degraded {
		out.BySource = map[string]float64{"primary": min(t.path.RatePerSec, 0.4*t.perSec), "cache": 0.4 * t.perSec, "shed": 0.2 * t.perSec}
		out.P99MS = 7.4 + wave
	}
	return out
}

// Force forces a replica of the tide, or a consumer.
func (p *play) Force(name string, to breaker.State, reason string) error {
	t := p.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.nodes, func(n *node) bool { return n.Name == name })
	if i < 0 {
		return p.Standard.Force(name, to, reason)
	}
	n := t.nodes[i]
	n.Breaker.ConsecutiveFailures, n.reopens = 0, 0
	t.to(n, to, api.Reason{Rule: breaker.RuleForced, Text: "by hand: " + reason}, time.Now())
	return nil
}

// Tune takes what the page sends.
func (p *play) Tune(name string, change api.Tuning) error {
	t := p.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.nodes, func(n *node) bool { return n.Name == name }) {
		return p.Standard.Tune(name, change)
	}
	if change.TripMS != nil && change.ReenterMS == nil && *change.TripMS < t.settings.ReenterMS {
		return &api.InvalidError{Fields: []api.FieldFault{{Field: "trip_ms", Value: "too low", Mend: "give at least reenter"}}}
	}
	set(&t.settings.ReenterMS, change.ReenterMS)
	set(&t.settings.Breaches, change.Breaches)
	set(&t.settings.OpenBaseMS, change.OpenBaseMS)
	set(&t.settings.OpenMaxMS, change.OpenMaxMS)
	set(&t.settings.Failures, change.Failures)
	if change.TripMS != nil {
		t.settings.TripMS = change.TripMS
	}
	if change.MaxStalenessMS != nil {
		t.settings.MaxStalenessMS = change.MaxStalenessMS
	}
	return nil
}

// Budget is that of the read path.
func (p *play) Budget(ratePerSec *float64, burst *int) error {
	t := p.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	set(&t.path.RatePerSec, ratePerSec)
	set(&t.path.Burst, burst)
	return nil
}

func set[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}
