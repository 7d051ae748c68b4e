package playground

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// Config says what is played with. Fleet, Options and Child are required.
type Config struct {
	Fleet   lab.Fleet // it stays the caller's, who closes it after Run
	Options lab.Options
	// Child makes the command that runs a role of this program, emitlab.RoleConsumer.
	Child func(role string, args ...string) *exec.Cmd
	// Tell is told each line, from any goroutine. Default: nobody is.
	Tell func(lab.Line)
	// Publish is told what was broken and mended, and of scenarios; the observers what happens in the library. Default: nobody is.
	Publish func(api.Event)
	Replica replica.Observer
	Path    readpath.Observer
	Emit    emit.Observer
	// Redact takes secrets out of what a scenario tells. Default: none.
	Redact *api.Redactor

	// For tests: shorter scenarios.
	pace *pace
}

// A Playground is the lab as a person plays with it. Open makes one, and Run must be called.
type Playground struct {
	config    Config
	bench     *lab.Bench
	consumers *consumers
	faults    *faults
	twin      *twin
	load      load
	runs      runs
	reads     meter // of the protected traffic
	seen      happened
	told      lab.Gate                    // for lines of consumers: a breaker's timer may fire after the run
	second    atomic.Pointer[api.Traffic] // the last whole one; nil: none yet

	life struct {
		sync.Mutex
		ctx  context.Context //nolint:containedctx // of Run: what is asked for over HTTP goes on in it
		jobs sync.WaitGroup  // that outlive whoever asked for them
	}
}

var errEnded = errors.New("the lab ends, or has not begun")

// Open opens the library on the fleet and starts the consumers. On an error nothing is left behind.
func Open(ctx context.Context, c Config) (*Playground, error) {
	c.fill()
	p := &Playground{config: c}
	p.load.set(defaults(c.Options))
	c.Emit.OnTransition = p.seen.transition(c.Emit.OnTransition)
	var err error
	if p.consumers, err = startConsumers(c, p.transition); err != nil { //nolint:contextcheck // a Router takes no context
		return nil, err
	}
	hooks := lab.Hooks{Replica: c.Replica, Path: c.Path, Answer: p.answered}
	hooks.Path.OnMode, hooks.Replica.OnTransition = p.seen.mode(c.Path.OnMode), p.seen.transition(c.Replica.OnTransition)
	if p.bench, err = lab.NewBench(ctx, c.Fleet, c.Options, c.Tell, hooks); err != nil {
		return nil, errors.Join(err, p.consumers.close()) //nolint:contextcheck // the same
	}
	p.faults = newFaults(targets(c.Fleet, p.consumers), p.broke)
	p.twin = newTwin(p)
	p.runs.list = p.scenarios()
	p.apply()
	return p, nil
}

// fill sets what was left out.
func (c *Config) fill() {
	if c.Tell == nil {
		c.Tell = func(lab.Line) {}
	}
	if c.Publish == nil {
		c.Publish = func(api.Event) {}
	}
	if c.pace == nil {
		c.pace = &full
	}
}

// Secrets are the passwords of a fleet's roles, which no output may hold.
func Secrets(fleet lab.Fleet) (secrets []string) {
	for _, n := range fleet.Nodes() {
		for _, dsn := range []string{n.DSN, n.AdminDSN} {
			if c, err := pgx.ParseConfig(dsn); err == nil && c.Password != "" {
				secrets = append(secrets, c.Password)
			}
		}
	}
	return secrets
}

// Run makes the traffic until Options.For has passed or ctx ends. Then it mends what is broken and ends what it started,
// the library and the consumers too. live may be nil.
func (p *Playground) Run(ctx context.Context, live func(lab.Live)) (lab.Result, error) {
	within, stop := context.WithCancel(ctx)
	defer stop()
	p.begin(within)
	p.life.jobs.Go(func() { p.faults.run(within) })
	p.life.jobs.Go(func() { p.consumers.traffic(within, p.bench.Now, p.load.emits) })
	p.life.jobs.Go(func() { p.seconds(within) })
	result, err := p.bench.Play(ctx, live)
	stop()
	p.end()
	p.life.jobs.Wait()
	p.twin.follow(within) // it has ended
	p.faults.end(context.WithoutCancel(ctx))
	err = errors.Join(err, p.consumers.close()) //nolint:contextcheck // it bounds itself
	p.told.Shut()
	return result, err
}

func (p *Playground) begin(ctx context.Context) {
	p.life.Lock()
	defer p.life.Unlock()
	p.life.ctx = ctx //nolint:fatcontext // kept, not nested
}

// end keeps new jobs from being begun.
func (p *Playground) end() {
	p.life.Lock()
	defer p.life.Unlock()
	p.life.ctx = nil //nolint:fatcontext // the same
}

// while calls do with the context of Run on a goroutine that Run waits for; do is not called once Run ends.
func (p *Playground) while(do func(context.Context)) error {
	p.life.Lock()
	defer p.life.Unlock()
	ctx := p.life.ctx
	if ctx == nil || ctx.Err() != nil {
		return errEnded
	}
	p.life.jobs.Go(func() { do(ctx) })
	return nil
}

// Parts is what runs.
func (p *Playground) Parts() api.Parts {
	return api.Parts{Set: p.bench.DB().Set(), Path: p.bench.Path(), Router: p.consumers.router}
}

// Traffic is what the protected load saw in the last whole second; nil before the first.
func (p *Playground) Traffic() *api.Traffic { return p.second.Load() }

// Status is how the lab stands, from memory (api.Lab).
func (p *Playground) Status() api.LabStatus {
	return api.LabStatus{
		Targets: p.faults.offered(), Faults: p.faults.inForce(), Scenarios: p.runs.offered(), Running: p.runs.newest(),
		Load: p.load.asked(), Unprotected: p.twin.traffic(),
	}
}

// Inject breaks something (api.Lab). What a scenario under way is about to judge is not to be broken besides.
func (p *Playground) Inject(ctx context.Context, f api.FaultRequest) error {
	if err := p.runs.idle(); err != nil {
		return err
	}
	return p.faults.inject(ctx, f)
}

// Heal stops a scenario under way, and mends everything (api.Lab), also what somebody broke by psql.
func (p *Playground) Heal(ctx context.Context) error {
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.faults.heal(ctx, p.config.Fleet.Heal)
}

// broke tells that something was broken or mended.
func (p *Playground) broke(target, fault, phase, text string, err error) {
	e := api.Event{Kind: api.KindInjected, Name: target, To: phase, Fault: fault, Text: text}
	l := lab.FaultLine{Head: p.bench.Head("fault"), Fault: fault, Node: target, Phase: phase}
	if err != nil {
		e.Error, l.Error = err.Error(), err.Error()
	}
	p.config.Publish(e)
	p.bench.Tell(l)
}

// second is one of a second's samples.
const second = time.Second

// seconds tells each second what the traffic saw.
func (p *Playground) seconds(ctx context.Context) {
	t := time.NewTicker(second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			p.second.Store(traffic(p.reads.endSecond(), p.consumers.emits.endSecond()))
			p.twin.endSecond()
		}
	}
}

// answered counts a read of the protected traffic.
func (p *Playground) answered(a lab.Answer) {
	p.reads.add(sampleOf(a))
	p.seen.answered(a)
}

func sampleOf(a lab.Answer) sample {
	s := sample{took: a.Took, what: a.Source.String(), of: a.Node, class: a.Class, stale: a.Stale, flagged: a.Flagged, good: a.Err == nil}
	switch {
	case a.Shed:
		s.what = shed
	case a.Err != nil:
		s.what = failed
	}
	return s
}
