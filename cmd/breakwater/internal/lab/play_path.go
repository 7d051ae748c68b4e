package lab

import (
	"context"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/readpath"
)

const (
	surge         = 4 // times the reads of before, while no replica is fresh
	outage        = 12 * time.Second
	recoverBudget = 90 * time.Second // open periods, the sustained time of each class, and slack
	callers       = 200              // on one key at once
	slowLoad      = 400 * time.Millisecond
	degradeWithin = 10 * time.Second
	standingCap   = 4 // reads in flight on a replica in last-standing
)

// pathScenarios are those whose reads have classes.
func pathScenarios() []Scenario {
	usual := &classes{mix: mixed, rate: 500, least: 300} // of which what is critical exceeds the budget
	return []Scenario{
		{
			Name: "all-lagging", Shows: "all replicas late under four times the reads: the primary gets its budget and no more, the classes come back in order",
			Lasts: before + outage, shortest: before + 6*time.Second, replicas: 1, classes: usual, play: playAll(pauseReplay), expect: expectAllLagging,
		},
		{
			Name: "all-dead", Shows: "the same with all replicas killed: what the primary has no budget for comes from the cache or is refused",
			Lasts: before + outage, shortest: before + 6*time.Second, replicas: 1, classes: usual, play: playAll(killed), expect: expectAllDead,
		},
		{
			Name: "relapse", Shows: "all replicas late again while the classes are given back: that starts over",
			Lasts: before + outage, shortest: before + 6*time.Second, replicas: 1, classes: usual, play: playRelapse, expect: expectRelapse,
		},
		{
			Name: "cold-cache", Shows: "all replicas late, nothing cached, 200 callers want one key: one loads it, nobody waits for long",
			Lasts: before + outage, shortest: before + 6*time.Second, replicas: 1,
			classes: &classes{mix: []string{balance, related}, rate: 200}, play: playColdCache, expect: expectColdCache,
		},
		{
			Name: "primary-restart", Shows: "the primary is killed and restarted: reads that accept an unverified answer go on",
			Lasts: before + 6*time.Second, shortest: before + 4*time.Second, replicas: 1, classes: &classes{mix: mixed, rate: 500, least: 100}, play: playPrimaryRestart, expect: expectPrimaryRestart,
		},
		{
			Name: "last-standing", Shows: "all replicas but one killed under a load that one cannot bear: it gets its cap, the rest goes by class",
			Lasts: before + outage, shortest: before + 6*time.Second, replicas: 2,
			classes: &classes{mix: mixed, rate: 300, least: 300, room: standingCap, sql: truth.SlowReadSQL}, play: playLastStanding, expect: expectLastStanding,
		},
	}
}

// playAll breaks every replica under a surge of reads, mends them, and waits until the path is normal again.
func playAll(f fault) func(context.Context, *run, time.Duration) error {
	return func(ctx context.Context, r *run, length time.Duration) error {
		if err := Wait(ctx, before); err != nil {
			return err
		}
		r.surge()
		if err := r.breakFor(ctx, f, r.replicas(), length-before); err != nil {
			return err
		}
		return r.recover(ctx)
	}
}

// surge begins the fault's phase with more reads.
func (r *run) surge() {
	r.enter(during)
	r.offer.Store(surge * r.offer.Load())
	r.rec.watch(true)
}

// recover waits until the path is normal, and a little more.
func (r *run) recover(ctx context.Context) error {
	r.rec.watch(false)
	r.enter(after)
	r.path.waitMode(ctx, readpath.Normal, recoverBudget)
	return Wait(ctx, settled)
}

// breakFor breaks some nodes for a time.
func (r *run) breakFor(ctx context.Context, f fault, nodes []string, d time.Duration) error {
	if err := r.beginAll(ctx, f, nodes); err != nil {
		return err
	}
	if err := Wait(ctx, d); err != nil {
		return err
	}
	return r.healAll(ctx, f, nodes)
}

func (r *run) beginAll(ctx context.Context, f fault, nodes []string) error {
	for _, name := range nodes {
		if err := r.begin(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) healAll(ctx context.Context, f fault, nodes []string) error {
	for _, name := range nodes {
		if err := r.heal(ctx, f, name); err != nil {
			return err
		}
	}
	return nil
}

// playRelapse pauses replay again as soon as the first class has been given back.
func playRelapse(ctx context.Context, r *run, length time.Duration) error {
	if err := Wait(ctx, before); err != nil {
		return err
	}
	r.surge()
	if err := r.breakFor(ctx, pauseReplay, r.replicas(), (length-before)/2); err != nil {
		return err
	}
	r.path.waitMode(ctx, readpath.Recovering, recoverBudget)
	if err := r.breakFor(ctx, pauseReplay, r.replicas(), (length-before)/2); err != nil {
		return err
	}
	return r.recover(ctx)
}

// playColdCache sends 200 callers at once for a key that nobody has read: while its load is quick, and while it takes longer
// than they wait.
func playColdCache(ctx context.Context, r *run, length time.Duration) error {
	if err := Wait(ctx, before); err != nil {
		return err
	}
	r.enter(during)
	if err := r.beginAll(ctx, pauseReplay, r.replicas()); err != nil {
		return err
	}
	end := r.now() + length - before
	r.path.waitMode(ctx, readpath.Degraded, degradeWithin)
	r.path.crowd(ctx, "quick", 0)
	r.path.crowd(ctx, "quick", 0)
	r.path.crowd(ctx, "slow", slowLoad)
	if err := Wait(ctx, end-r.now()); err != nil {
		return err
	}
	if err := r.healAll(ctx, pauseReplay, r.replicas()); err != nil {
		return err
	}
	return r.recover(ctx)
}

// crowd reads one key 200 times at once, whose load takes so long.
func (p *path) crowd(ctx context.Context, key string, load time.Duration) {
	p.delay.Store(int64(load))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() { p.run.rec.crowded(p.read(ctx, readpath.Call{Endpoint: product, Key: key}).Took) })
	}
	wg.Wait()
}

func playPrimaryRestart(ctx context.Context, r *run, length time.Duration) error {
	if err := Wait(ctx, before); err != nil {
		return err
	}
	r.enter(during)
	if err := r.breakFor(ctx, killed, []string{r.primary().Name}, length-before); err != nil {
		return err
	}
	return r.recover(ctx)
}

func playLastStanding(ctx context.Context, r *run, length time.Duration) error {
	if err := Wait(ctx, before); err != nil {
		return err
	}
	r.enter(during)
	all := r.replicas()
	if err := r.breakFor(ctx, killed, all[:len(all)-1], length-before); err != nil {
		return err
	}
	r.waitClosed(ctx, all[0], closeBudget)
	return r.recover(ctx)
}
