package playground

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// The states of a run.
const (
	running = "running"
	passed  = "passed"
	missed  = "failed"
	stopped = "stopped"
)

// scenario is a guided one. play breaks, mends and judges; its error is what kept it from that.
type scenario struct {
	api.LabScenario

	play func(ctx context.Context, s *stage) error
	well func(*stage) bool // what it waits for before it begins
}

// runs are the guided scenarios: one at a time.
type runs struct {
	list []scenario // immutable after Open

	mu struct {
		sync.Mutex
		newest *api.LabRun // nil: none yet
		stop   func()      // of the one under way; nil: none is
		done   chan struct{}
	}
}

func (r *runs) offered() []api.LabScenario {
	all := []api.LabScenario{}
	for i := range r.list {
		all = append(all, r.list[i].LabScenario)
	}
	return all
}

// newest is a copy of the newest run.
func (r *runs) newest() *api.LabRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.newest == nil {
		return nil
	}
	run := *r.mu.newest
	run.Results = slices.Clone(run.Results)
	return &run
}

// idle says whether no scenario is under way; its error names the mend.
func (r *runs) idle() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idleLocked()
}

func (r *runs) idleLocked() error {
	if r.mu.stop != nil {
		return fmt.Errorf("scenario %s is under way; stop it first, or wait until it ends", r.mu.newest.Name)
	}
	return nil
}

// begin notes that a scenario begins, unless one is under way.
func (r *runs) begin(s scenario, prediction string, stop func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.idleLocked(); err != nil {
		return err
	}
	r.mu.newest = &api.LabRun{Name: s.Name, Started: time.Now(), State: running, Prediction: prediction, Results: []api.LabCheck{}}
	r.mu.stop, r.mu.done = stop, make(chan struct{})
	return nil
}

// change changes the run under way.
func (r *runs) change(do func(*api.LabRun)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(r.mu.newest)
}

func (r *runs) ended(state, step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.newest.State, r.mu.newest.Step = state, step
	r.mu.stop = nil
	close(r.mu.done)
}

func (r *runs) find(name string) (scenario, error) {
	var all []string
	for i := range r.list {
		if r.list[i].Name == name {
			return r.list[i], nil
		}
		all = append(all, r.list[i].Name)
	}
	return scenario{}, fmt.Errorf("scenario %q: not known; take one of %s", name, strings.Join(all, ", "))
}

// Play begins a guided scenario with what the person predicted, "" for nothing (api.Lab). It mends first what is broken.
func (p *Playground) Play(_ context.Context, name, prediction string) error { //nolint:contextcheck // a scenario outlives the request for it
	s, err := p.runs.find(name)
	if err != nil {
		return err
	}
	if prediction != "" && !slices.Contains(s.Answers, prediction) {
		return fmt.Errorf("prediction %q: not one of its answers; take one of %q", prediction, s.Answers)
	}
	own, cancel := context.WithCancel(context.Background())
	if err := p.runs.begin(s, prediction, cancel); err != nil {
		cancel()
		return err
	}
	err = p.while(func(ctx context.Context) { //nolint:contextcheck // the same
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		p.play(own, s)
	})
	if err != nil {
		cancel()
		p.runs.ended(stopped, err.Error())
	}
	return err
}

// Stop ends the scenario under way, if there is one, and mends what it broke (api.Lab).
func (p *Playground) Stop(ctx context.Context) error {
	p.runs.mu.Lock()
	stop, done := p.runs.mu.stop, p.runs.mu.done
	p.runs.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the scenario is being stopped: %w", ctx.Err())
	}
}

// play plays one to its end, and mends.
func (p *Playground) play(ctx context.Context, s scenario) {
	p.load.playing(true)
	p.apply()
	st := &stage{p: p, name: s.Name}
	st.well = func() bool { return s.well(st) }
	st.publish(phaseBegin, s.Title)
	err := st.prepared(ctx)
	if err == nil {
		err = s.play(ctx, st)
	}
	err = errors.Join(err, p.mended(ctx))
	p.load.playing(false)
	p.apply()
	state, step := st.verdict(ctx.Err() != nil, err)
	p.runs.ended(state, step)
	st.publish(state, step)
}

// mended mends what a scenario has broken.
func (p *Playground) mended(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	p.faults.work.Lock()
	defer p.faults.work.Unlock()
	return p.faults.mendAll(ctx, "the scenario ends")
}
