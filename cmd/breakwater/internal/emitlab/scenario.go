package emitlab

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// The consumers.
const (
	healthy = "healthy"
	slow    = "slow"
)

// Scenario is a script of faults with its own expectations.
type Scenario struct {
	Name string
	// Shows is what a person sees in it.
	Shows string
	// Lasts is how long the outage is without --for.
	Lasts time.Duration

	shortest time.Duration
	dir      bool // it has files
	letters  bool // it makes sense with dead letters only
	faults   map[string]fault
	mixed    bool // triggers of all priorities, and a bound that they fill
	play     func(ctx context.Context, r *run, length time.Duration) error
	expect   func(*verdict, *Summary)
}

// fault is how a consumer breaks.
type fault struct {
	name string
	how  consumer.Behaviour
}

// P99s of the latencies, in ms.
const (
	healthyP99 = 8
	slowP99    = 900
	slowShare  = 0.02 // of a consumer that is partly slow
)

const (
	warmupFor   = time.Second
	before      = 6 * time.Second // traffic before the fault, for the percentiles
	settled     = 3 * time.Second // traffic after the consumer is back
	closeBudget = 10 * time.Second
	drainBudget = 90 * time.Second // for the dead letters to be delivered in the end
	storeBound  = 10_000
)

// Scenarios lists what can be played.
func Scenarios() []Scenario {
	well := consumer.Behaviour{P99: healthyP99}
	partly := well
	partly.SlowShare, partly.SlowP99 = slowShare, slowP99
	hangs, fails := fault{"hanging", consumer.Behaviour{Hang: true}}, fault{"failing", consumer.Behaviour{Fail: true}}
	one := func(f fault) map[string]fault { return map[string]fault{slow: f} }
	return []Scenario{
		{
			Name: "slow-consumer", Shows: "one consumer slows down from a P99 of 8 ms to 900 ms: it is cut off before it holds anybody up, and gets what it missed",
			Lasts: 30 * time.Second, shortest: 2 * time.Second, play: playOutage, expect: expectSlow,
			faults: one(fault{"slow", consumer.Behaviour{P99: slowP99}}),
		},
		{
			Name: "partly-slow", Shows: "one consumer is slow in 2 % of its calls, which no error rate sees",
			Lasts: 30 * time.Second, shortest: 10 * time.Second, play: playOutage, expect: expectPartly,
			faults: one(fault{"partly_slow", partly}),
		},
		{
			Name: "hanging-consumer", Shows: "one consumer accepts calls and never answers: it is cut off before the first of them returns",
			Lasts: 10 * time.Second, shortest: 2 * time.Second, play: playOutage, expect: expectHanging, faults: one(hangs),
		},
		{
			Name: "failing-consumer", Shows: "one consumer answers 500 at once: its errors cut it off, and only probes call it",
			Lasts: 10 * time.Second, shortest: 3 * time.Second, play: playOutage, expect: expectFailing, faults: one(fails),
		},
		{
			Name: "all-consumers-down", Shows: "every consumer is down until the dead letters are full: idle pings are shed first, compliance never",
			Lasts: 20 * time.Second, shortest: 12 * time.Second, letters: true, mixed: true, play: playOutage, expect: expectDown,
			faults: map[string]fault{healthy: fails, slow: hangs},
		},
		{
			Name: "crash", Shows: "a router with durable dead letters is killed 20 times under load: nothing that it acknowledged is lost",
			Lasts: 40 * time.Second, shortest: 2 * time.Second, dir: true, letters: true, play: playCrash, expect: expectCrash,
		},
	}
}

func (s Scenario) lasts(asked time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	return s.Lasts
}

// playOutage breaks consumers for a time, mends them, waits until they get triggers again, and then until
// their dead letters are delivered.
func playOutage(ctx context.Context, r *run, length time.Duration) error {
	if err := lab.Wait(ctx, r.calm()); err != nil {
		return err
	}
	if err := r.breakAll(); err != nil {
		return err
	}
	if err := lab.Wait(ctx, length); err != nil {
		return err
	}
	if err := r.mendAll(); err != nil {
		return err
	}
	r.awaitClosed(ctx)
	if err := lab.Wait(ctx, r.settle()); err != nil {
		return err
	}
	r.stopTraffic()
	return r.drain(ctx)
}

func (r *run) calm() time.Duration {
	if r.opts.calm > 0 {
		return r.opts.calm
	}
	return before
}

func (r *run) settle() time.Duration {
	if r.opts.settle > 0 {
		return r.opts.settle
	}
	return settled
}

func (r *run) breakAll() error {
	r.enter(during)
	var all []error
	for _, t := range r.targets {
		if f, ok := r.scenario.faults[t.name]; ok {
			t.breaks(r.now())
			r.tell(r.faultLine(f.name, t.name, "begin"))
			all = append(all, t.process.Become(f.how))
			t.broken(r.now())
		}
	}
	return errors.Join(all...)
}

func (r *run) mendAll() error {
	var all []error
	for _, t := range r.targets {
		if f, ok := r.scenario.faults[t.name]; ok {
			all = append(all, t.process.Become(consumer.Behaviour{P99: healthyP99}))
			t.mended(r.now())
			r.tell(r.faultLine(f.name, t.name, "end"))
		}
	}
	r.enter(after)
	return errors.Join(all...)
}

// awaitClosed waits until every consumer that broke gets triggers again, for so long at the most.
func (r *run) awaitClosed(ctx context.Context) {
	for end := r.now() + closeBudget; r.now() < end && ctx.Err() == nil; {
		if r.allClosed() {
			return
		}
		_ = lab.Wait(ctx, 20*time.Millisecond)
	}
}

func (r *run) allClosed() bool {
	for _, t := range r.targets {
		if !t.closed() {
			return false
		}
	}
	return true
}

// drain waits until the dead letters are delivered, for so long at the most.
func (r *run) drain(ctx context.Context) error {
	for end := r.now() + drainBudget; r.now() < end && r.path.waiting() > 0; {
		if err := lab.Wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return ctx.Err()
}
