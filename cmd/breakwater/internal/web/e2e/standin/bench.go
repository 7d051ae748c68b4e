package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// bench is the lab: faults, scenarios, load.
type bench struct {
	tide  *tide
	shops *shops
	hub   *api.Hub
	mu    sync.Mutex
	// guarded by mu
	faults []api.LabFault
	run    *api.LabRun
}

func newBench(t *tide, s *shops, hub *api.Hub) *bench { return &bench{tide: t, shops: s, hub: hub} }

var (
	nodeFaults  = []string{"pause", "lag", "cut", "freeze", "kill"}
	sinkFaults  = []string{"slow", "hang", "fail"}
	scenarioFor = 6 * time.Second
)

func (b *bench) targets() (all []api.LabTarget) {
	for _, n := range b.tide.nodes {
		all = append(all, api.LabTarget{Name: n.Name, Scope: api.ScopeReplica, Faults: nodeFaults})
	}
	for _, name := range consumers {
		all = append(all, api.LabTarget{Name: name, Scope: api.ScopeConsumer, Faults: sinkFaults})
	}
	return all
}

// Status also ends what is over.
func (b *bench) Status() api.LabStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, f := range slices.Clone(b.faults) {
		if f.Until != nil && now.After(*f.Until) {
			b.mend(f)
		}
	}
	b.step(now)
	st := api.LabStatus{Targets: b.targets(), Faults: slices.Clone(b.faults), Scenarios: scenarios()}
	if b.run != nil {
		st.Running = new(*b.run)
	}
	t := b.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	st.Load = api.LabLoad{ReadsPerSec: int(t.perSec), EmitsPerSec: int(b.shops.perSec()), WritesPerSec: t.writes, Unprotected: t.forgotten, OwnWrites: t.own}
	if t.forgotten {
		st.Unprotected = t.unprotected()
	}
	return st
}

// unprotected has the stale answers that the library kept away.
func (t *tide) unprotected() *api.Traffic {
	out := t.traffic(0)
	for _, n := range t.nodes {
		if n.broken != "" {
			out.StalePerSec += t.perSec / float64(len(t.nodes))
			out.P99MS = 910
		}
	}
	return out
}

// What the requests meet that the scenarios ask about.
const (
	oneMeets  = "A fresh answer from another replica"
	slowMeets = "Nothing: it is as fast as before"
)

func scenarios() []api.LabScenario {
	return []api.LabScenario{
		{
			Name: "one-lagging", Title: "One replica lags", Does: "Replay of r2 stops.", Shows: "Its breaker opens and its reads go to the others.", Seconds: 6,
			Question: "What will the next read that would have gone to r2 meet?", Answers: []string{"An old answer from r2", oneMeets, "An error"},
		},
		{
			Name: "slow-consumer", Title: "A consumer is slow", Does: "webhooks answers in 250 ms.", Shows: "Its triggers are stored and replayed.", Seconds: 6,
			Question: "What will the next emit to billing meet?", Answers: []string{"It waits for webhooks", "It is refused", slowMeets},
		},
	}
}

// Inject breaks something.
func (b *bench) Inject(_ context.Context, f api.FaultRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hurt(f)
}

func (b *bench) hurt(f api.FaultRequest) error {
	now := time.Now()
	fault := api.LabFault{Target: f.Target, Fault: f.Fault, Since: now, AmountMS: f.Amount}
	if f.Duration > 0 {
		fault.Until = new(now.Add(f.Duration))
	}
	if err := b.set(f.Target, f.Fault, f.Amount); err != nil {
		return err
	}
	b.faults = append(slices.DeleteFunc(b.faults, func(old api.LabFault) bool { return old.Target == f.Target }), fault)
	b.hub.Publish(api.Event{Kind: api.KindInjected, Name: f.Target, To: "begin", Fault: f.Fault})
	return nil
}

func (b *bench) set(target, fault string, amount float64) error {
	t := b.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		if n.Name == target {
			n.broken = fault
			return nil
		}
	}
	return b.shops.hurt(target, fault, amount)
}

func (b *bench) mend(f api.LabFault) {
	if b.set(f.Target, "", 0) == nil {
		b.faults = slices.DeleteFunc(b.faults, func(old api.LabFault) bool { return old.Target == f.Target })
		b.hub.Publish(api.Event{Kind: api.KindInjected, Name: f.Target, To: "end", Fault: f.Fault})
	}
}

// Heal mends everything.
func (b *bench) Heal(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range slices.Clone(b.faults) {
		b.mend(f)
	}
	return nil
}

// Play begins a scenario.
func (b *bench) Play(_ context.Context, name, prediction string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil && b.run.State == "running" {
		return errors.New("a scenario runs: stop it, or wait for its end")
	}
	b.run = &api.LabRun{Name: name, Started: time.Now(), State: "running", Step: "It is broken now: watch its breaker", Prediction: prediction}
	b.hub.Publish(api.Event{Kind: api.KindScenario, Name: name, To: "begin"})
	if name == "one-lagging" {
		return b.hurt(api.FaultRequest{Target: "r2", Fault: "pause"})
	}
	return b.hurt(api.FaultRequest{Target: "webhooks", Fault: "slow", Amount: 250})
}

// step moves the scenario on.
func (b *bench) step(now time.Time) {
	if b.run == nil || b.run.State != "running" || now.Sub(b.run.Started) < scenarioFor {
		return
	}
	for _, f := range slices.Clone(b.faults) {
		b.mend(f)
	}
	b.run.State, b.run.Step, b.run.Answer = "passed", "It is over, and all is mended.", slowMeets
	if b.run.Name == "one-lagging" {
		b.run.Answer = oneMeets
	}
	b.run.Results = []api.LabCheck{
		{Expected: "the breaker opened within 2 s", Seen: "after 0.83 s", Held: true}, {Expected: "no stale answer without a flag", Seen: "0 of 2,514", Held: true},
	}
	b.hub.Publish(api.Event{Kind: api.KindScenario, Name: b.run.Name, To: "passed"})
}

// Stop ends the scenario.
func (b *bench) Stop(ctx context.Context) error {
	b.mu.Lock()
	if b.run != nil && b.run.State == "running" {
		b.run.State, b.run.Step = "stopped", "Stopped, and all is mended."
	}
	b.mu.Unlock()
	return b.Heal(ctx)
}

// Load changes the traffic.
func (b *bench) Load(l api.LoadRequest) error {
	t := b.tide
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.ReadsPerSec != nil {
		t.perSec = float64(*l.ReadsPerSec)
	}
	if l.EmitsPerSec != nil {
		b.shops.rate.Store(int64(*l.EmitsPerSec))
	}
	set(&t.writes, l.WritesPerSec)
	set(&t.forgotten, l.Unprotected)
	set(&t.own, l.OwnWrites)
	return nil
}
