package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

const (
	defaultRate = 200 // reads a second
	writeRate   = 50  // commits a second
	warmupFor   = time.Second
)

// run is one run of the lab: the fleet, the library on it, traffic and a script.
type run struct {
	opts  Options
	fleet Fleet
	db    *pgxread.DB
	acks  *truth.Acks
	rec   *recorder
	inUse replica.Settings // of the library; set by open
	by    *classes         // how reads go by way of the read path; nil: straight to the library
	path  *path            // set by open, with by
	hooks Hooks            // of a Bench; none in a scenario
	own   ownReads         // of a Bench; none in a scenario

	offer, writes atomic.Int64 // reads and commits a second

	flights tally        // statements on replicas, by node
	tell    func(Line)   // called from any goroutine
	mode    atomic.Int32 // a writerMode
	told    Gate
}

// now is the run's only clock: since the process's start.
func (r *run) now() time.Duration { return time.Since(r.opts.Started) }

func (r *run) at(t time.Time) time.Duration { return t.Sub(r.opts.Started) }

func (r *run) head(kind string) Head { return Head{T: r.now().Milliseconds(), Kind: kind} }

func (r *run) replicas() []string {
	var names []string
	for _, n := range r.fleet.Nodes()[1:] {
		names = append(names, n.Name)
	}
	return names
}

func (r *run) primary() Node { return r.fleet.Nodes()[0] }

func (r *run) node(name string) Node {
	for _, n := range r.fleet.Nodes() {
		if n.Name == name {
			return n
		}
	}
	return Node{}
}

func (r *run) enter(p phase) { r.rec.enter(p) }

// begin breaks a node and notes from when its lag can be told.
func (r *run) begin(ctx context.Context, f fault, node string) error {
	at := r.now()
	r.tellFault(f.name, node, "begin", nil)
	if err := f.begin(ctx, r.fleet, node); err != nil {
		return fmt.Errorf("%s on %s: %w", f.name, node, err)
	}
	var missing int64
	if f.lag {
		if n, err := readDirectly(ctx, r.node(node).DSN); err == nil {
			missing = n + 1
		}
	}
	r.rec.faultBegan(f, node, at, r.inFlight(node), missing)
	return nil
}

func (r *run) heal(ctx context.Context, f fault, node string) error {
	err := f.heal(ctx, r.fleet, node)
	r.rec.faultHealed(node, r.now())
	r.tellFault(f.name, node, "end", err)
	if err != nil {
		return fmt.Errorf("%s on %s, mending: %w", f.name, node, err)
	}
	return nil
}

func (r *run) tellFault(name, node, phase string, err error) {
	l := FaultLine{Head: r.head("fault"), Fault: name, Node: node, Phase: phase}
	if err != nil {
		l.Error = err.Error()
	}
	r.tell(l)
}

func (r *run) switchSegment(ctx context.Context) error {
	err := r.fleet.SwitchSegment(ctx)
	r.tellFault("segment_switch", r.primary().Name, "", err)
	if err != nil {
		return fmt.Errorf("segment switch: %w", err)
	}
	r.rec.switched()
	return nil
}

func (r *run) inFlight(node string) int { return r.stats(node).InFlight }

func (r *run) stats(node string) replica.NodeStats {
	all := r.db.Set().Stats().Replicas
	for i := range all {
		if all[i].Name == node {
			return all[i]
		}
	}
	return replica.NodeStats{}
}

// waitClosed waits until a node takes reads again, for so long at the most.
func (r *run) waitClosed(ctx context.Context, node string, budget time.Duration) {
	for end := r.now() + budget; r.now() < end && ctx.Err() == nil; {
		if r.stats(node).Breaker.State == breaker.Closed {
			return
		}
		_ = Wait(ctx, 50*time.Millisecond)
	}
}

// readDirectly reads the counter on a node, past the library.
func readDirectly(ctx context.Context, dsn string) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // read and done with
	err = conn.QueryRow(ctx, truth.ReadSQL).Scan(&n)
	return n, err
}

// Result is how a run ended.
type Result struct {
	Summary Summary
	// Interrupted says that the run was ended before its end, and was not judged.
	Interrupted bool
}

// Play plays opts on a fleet until its script ends or ctx does, and tells every event
// as it happens; tell is called from any goroutine, in no certain order. It leaves the
// fleet open. The error is what kept the run from being judged.
func Play(ctx context.Context, fleet Fleet, opts Options, tell func(Line), live func(Live)) (Result, error) {
	if err := opts.Check(); err != nil {
		return Result{}, err
	}
	if NeedsPostgres(opts.Scenario) && fleet.Version() == "simulated" {
		return Result{}, fmt.Errorf("scenario %s needs PostgreSQL: a simulated fleet would prove nothing of it", opts.Scenario)
	}
	r := newRun(fleet, opts, tell)
	if err := r.open(ctx); err != nil {
		return Result{Interrupted: ctx.Err() != nil}, err
	}
	return r.play(ctx, live)
}

func newRun(fleet Fleet, opts Options, tell func(Line)) *run {
	r := &run{opts: opts, fleet: fleet, acks: &truth.Acks{}, tell: tell}
	if s, ok := find(opts.Scenario); ok {
		r.by = s.classes
	}
	r.offer.Store(int64(opts.rate()))
	r.writes.Store(writeRate)
	return r
}

// Gate lets events of the library through until the run is over: a breaker's timer may
// fire after that, and the summary is the last line.
type Gate struct {
	mu   sync.RWMutex
	over bool
}

// Pass calls do unless the gate is shut.
func (g *Gate) Pass(do func()) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if !g.over {
		do()
	}
}

// Shut waits for what passes, and lets nothing more through.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

func (r *run) play(ctx context.Context, live func(Live)) (Result, error) {
	traffic, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { r.writeLoop(traffic) })
	wg.Go(func() { r.readLoop(traffic) })
	wg.Go(func() { r.secondLoop(traffic, live) })
	for _, name := range r.replicas() {
		wg.Go(func() { r.checkLoop(traffic, r.node(name)) })
	}
	err := Wait(ctx, warmupFor)
	if err == nil {
		r.enter(calm)
		err = r.script(ctx)
	}
	interrupted := ctx.Err() != nil
	stop()
	wg.Wait()
	if r.path != nil {
		r.path.close()
	}
	r.db.Close()
	r.told.Shut()
	r.rec.idle(r.now(), false)
	if interrupted {
		err = nil
	}
	return Result{Summary: r.summary(), Interrupted: interrupted}, err
}

func (r *run) script(ctx context.Context) error {
	s, ok := find(r.opts.Scenario)
	if !ok {
		if r.opts.For > 0 {
			return Wait(ctx, r.opts.For)
		}
		<-ctx.Done()
		return nil
	}
	return s.play(ctx, r, s.lasts(r.opts.For))
}

// summary is the last line, with the scenario's verdict.
func (r *run) summary() Summary {
	s := r.rec.summary()
	s.Head = r.head("summary")
	s.Scenario, s.Seed, s.Fleet = r.opts.Scenario, r.opts.Seed, r.fleet.Version()
	s.Replicas, s.Rate = len(r.replicas()), r.opts.rate()
	s.CallTimeout, s.FailureThreshold, s.Load = ms(callTimeout), r.inUse.Failures, r.opts.Load
	s.FailedExpectations = []string{}
	last := r.replicas()[len(r.replicas())-1]
	s.InFlightCap, s.InFlightMax = r.room(), r.flights.most(last)
	s.LastNodeTransitions = r.rec.transitionsOf(last)
	if r.path != nil {
		r.path.summary(&s)
	}
	if r.opts.Scenario == "random" { // figures of one fault say nothing where faults overlap
		s.TimeToOpen, s.TimeToClose, s.ProbesToClose, s.RampShareFirst, s.RampShareLast = nil, nil, nil, nil, nil
		s.OpenReason = ""
	}
	if scenario, ok := find(r.opts.Scenario); ok {
		v := &verdict{failed: s.FailedExpectations}
		v.always(&s)
		scenario.expect(v, &s)
		s.FailedExpectations, s.OnlySpeedFailed = v.failed, v.onlySpeed(&s)
	}
	return s
}

// finite is a value for JSON, which knows no infinity.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// isRefusal tells whether no node could be picked.
func isRefusal(err error) bool {
	return errors.Is(err, replica.ErrNoReplica) || errors.Is(err, replica.ErrSaturated)
}
