package emitlab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// run is one policy's run of a scenario.
type run struct {
	opts     Options
	scenario Scenario
	policy   string
	tellAll  func(lab.Line) // called from any goroutine
	live     func(Live)     // may be nil
	targets  []*target      // set before traffic begins
	path     path           // nil in scenario crash
	store    *emit.Ring     // of the library's policy
	stopped  context.CancelFunc
	phase    atomic.Int32
	told     lab.Gate
	watch    watch
	kills    kills
}

// now is the run's only clock: since the process's start.
func (r *run) now() time.Duration { return time.Since(r.opts.Started) }

func (r *run) at(t time.Time) time.Duration { return t.Sub(r.opts.Started) }

func (r *run) enter(p phase) { r.phase.Store(int32(p)) }

func (r *run) in() phase { return phase(r.phase.Load()) } //nolint:gosec // a phase

// tell passes a line on until the run is over: a breaker's timer may fire after that.
func (r *run) tell(l lab.Line) { r.told.Pass(func() { r.tellAll(l) }) }

// Result is how a run ended.
type Result struct {
	Summary Summary
	// Interrupted says that the run was ended before its end, and was not judged.
	Interrupted bool
}

// Play plays opts, one policy after the other, until the scripts end or ctx does, and tells every event as it happens; tell is
// called from any goroutine. Every process that it starts has ended when it returns. The error is what kept a run from
// being judged. Where there are several policies each has told a summary of its own, and the result's holds them.
func Play(ctx context.Context, opts Options, tell func(lab.Line), live func(Live)) (Result, error) {
	if err := opts.Check(); err != nil {
		return Result{}, err
	}
	policies := opts.policies()
	if len(policies) == 1 {
		return playOne(ctx, opts, policies[0], tell, live)
	}
	all := Summary{Scenario: opts.Scenario, Policies: map[string]*Summary{}, FailedExpectations: []string{}}
	for _, policy := range policies {
		tell(PolicyLine{lab.Head{T: time.Since(opts.Started).Milliseconds(), Kind: "policy"}, policy})
		one, err := playOne(ctx, opts, policy, tell, live)
		if err != nil || one.Interrupted {
			return one, err
		}
		tell(one.Summary)
		all.join(one.Summary)
	}
	all.T = time.Since(opts.Started).Milliseconds()
	return Result{Summary: all}, nil
}

// join adds the summary of a policy. The figures of the last one, which is the library's if that was asked for, stand for all.
func (s *Summary) join(one Summary) {
	before, policies := *s, s.Policies
	if one.Policy == PolicyLatency || len(policies) == 0 {
		*s = one
	}
	s.Policy, s.Policies = "", policies
	s.FailedExpectations = before.FailedExpectations
	s.OnlySpeedFailed = before.OnlySpeedFailed
	for _, failed := range one.FailedExpectations {
		s.FailedExpectations = append(s.FailedExpectations, one.Policy+": "+failed)
	}
	if len(one.FailedExpectations) > 0 {
		s.OnlySpeedFailed = one.OnlySpeedFailed && (len(before.FailedExpectations) == 0 || before.OnlySpeedFailed)
	}
	policies[one.Policy] = &one
}

func playOne(ctx context.Context, opts Options, policy string, tell func(lab.Line), live func(Live)) (Result, error) {
	scenario, _ := find(opts.Scenario)
	r := &run{opts: opts, scenario: scenario, policy: policy, tellAll: tell, live: live, stopped: func() {}}
	defer r.endProcesses()
	if err := r.startProcesses(); err != nil {
		return Result{Interrupted: ctx.Err() != nil}, err
	}
	return r.play(ctx)
}

// startProcesses starts a process for each consumer.
func (r *run) startProcesses() error {
	for i, name := range Consumers() {
		p, err := consumer.Start(r.opts.Child(RoleConsumer, "--seed", strconv.FormatUint(r.opts.Seed+uint64(i), 10))) //nolint:gosec // 0 or 1
		if err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
		t := &target{name: name, process: p}
		t.mu.refused = map[string]int{}
		r.targets = append(r.targets, t)
		if err := p.Become(consumer.Behaviour{P99: healthyP99}); err != nil {
			return fmt.Errorf("consumer %s: %w", name, err)
		}
	}
	return nil
}

func (r *run) endProcesses() {
	for _, t := range r.targets {
		_ = t.process.Close() // one that a signal has ended is no fault
	}
}

func (r *run) target(name string) *target {
	for _, t := range r.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

// ctxEmit marks the context of a live emit; its value is when that began.
type ctxEmit struct{}

// sink delivers to a consumer by HTTP, and notes each call.
func (r *run) sink(t *target) (emit.Sink, error) {
	conns := 0 // the sink's default
	if r.policy != PolicyLatency {
		conns = poolSize
	}
	sink, err := httpsink.New(httpsink.Config{URL: t.process.URL, MaxConns: conns})
	if err != nil {
		return nil, err
	}
	return emit.SinkFunc(func(ctx context.Context, x emit.Trigger) error {
		emitted, live := ctx.Value(ctxEmit{}).(time.Duration)
		if !live {
			emitted = -1
		}
		begin := r.now()
		defer func() { t.called(emitted, begin, r.now()) }()
		return sink.Deliver(ctx, x)
	}), nil
}

// open makes the way of the policy.
func (r *run) open() (err error) {
	sinks := map[string]emit.Sink{}
	for _, t := range r.targets {
		if sinks[t.name], err = r.sink(t); err != nil {
			return err
		}
	}
	if r.policy != PolicyLatency {
		r.path, err = newPooled(r.policy, sinks, r.onTransition)
		return err
	}
	r.store, err = emit.NewRing(emit.RingConfig{Letters: r.bound()})
	if err != nil {
		return err
	}
	r.path, err = newRouted(sinks, r.store, emit.Observer{OnTransition: r.onTransition, OnShed: r.onShed, OnFault: r.onFault})
	return err
}

// bound is how many letters the store takes: as many as the outage makes, but where it is to be filled.
func (r *run) bound() int {
	switch {
	case r.opts.storeBound > 0:
		return r.opts.storeBound
	case r.scenario.mixed:
		return storeBound
	}
	outage := r.scenario.lasts(r.opts.For) + closeBudget + settled
	return min(1_000_000, 4096+2*r.opts.rate()*int(outage/time.Second))
}

func (r *run) onTransition(t breaker.Transition) {
	r.target(t.Name).move(t, r.at(t.At))
	r.tell(r.transitionLine(t))
}

func (r *run) onFault(consumer string, err error) {
	r.watch.fault()
	r.tell(ErrorLine{r.head("own_fault"), consumer, err.Error()})
}

// onShed notes an evicted letter, and whether one that is less important stayed.
func (r *run) onShed(l emit.Letter, why error) {
	if l.Seq > 0 {
		r.target(l.Consumer).evict(l.Trigger.ID)
	}
	if !errors.Is(why, emit.ErrFull) {
		return
	}
	below := 0
	for _, d := range r.store.Depths() {
		for p := l.Priority + 1; p < len(d.ByPriority); p++ {
			below += d.ByPriority[p]
		}
	}
	if below > claimable {
		r.watch.misplaced()
	}
}

// claimable is how many letters may be under way, which no other may push out.
const claimable = 16

func (r *run) play(ctx context.Context) (Result, error) {
	if r.scenario.letters && !r.scenario.mixed { // it emits from another process
		err := r.scenario.play(ctx, r, r.scenario.lasts(r.opts.For))
		return r.result(ctx, err)
	}
	if err := r.open(); err != nil { //nolint:contextcheck // a Router takes no context
		return Result{}, err
	}
	err := r.script(ctx)
	r.told.Shut()
	return r.result(ctx, errors.Join(err, r.path.close()))
}

// script plays the scenario beside its traffic, and waits for that.
func (r *run) script(ctx context.Context) error {
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	looking, done := context.WithCancel(ctx)
	defer done()
	emits, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var senders, lookers sync.WaitGroup
	for i, t := range r.targets {
		senders.Go(func() { r.traffic(traffic, emits, t, uint64(i)) }) //nolint:gosec // 0 or 1
	}
	lookers.Go(func() { r.look(looking) })
	lookers.Go(func() { r.seconds(looking) })
	r.stopped = func() {
		stop()
		patience := time.AfterFunc(emitPatience, end)
		defer patience.Stop()
		senders.Wait()
	}
	err := lab.Wait(ctx, warmupFor)
	if err == nil {
		r.enter(calm)
		err = r.scenario.play(ctx, r, r.scenario.lasts(r.opts.For))
	}
	if ctx.Err() != nil {
		end()
	}
	r.stopped()
	done()
	lookers.Wait()
	if err == nil {
		err = r.reckon(ctx)
	}
	return err
}

// emitPatience is for how long emits under way are waited for at the end: in a pool without a timeout they may take for ever.
const emitPatience = 20 * time.Second

// stopTraffic ends the traffic and waits for the emits under way.
func (r *run) stopTraffic() { r.stopped() }

func (r *run) result(ctx context.Context, err error) (Result, error) {
	if ctx.Err() != nil {
		return Result{Interrupted: true}, nil //nolint:nilerr // what came of the interruption
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Summary: r.summary()}, nil
}
