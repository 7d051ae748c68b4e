package lab

import (
	"context"
	"errors"
	"sync"
	"time"
)

// playRandom plays the seed's plan: each replica's faults one after the other, the
// replicas and the writer side by side.
func playRandom(ctx context.Context, r *run, length time.Duration) error {
	p := makePlan(r.opts.Seed, r.replicas(), length)
	begin := r.now()
	at := func(t time.Duration) error { return Wait(ctx, begin+t-r.now()) }
	var wg sync.WaitGroup
	failed := make([]error, len(r.replicas()))
	for i, node := range r.replicas() {
		wg.Go(func() { failed[i] = r.playNode(ctx, p.steps, node, at) })
	}
	wg.Go(func() {
		for _, s := range p.writer {
			if at(s.at) != nil {
				return
			}
			r.write(s.mode)
		}
	})
	if at(p.firstFault()) == nil {
		r.enter(during)
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	r.write(writerOn)
	r.enter(after)
	return at(length)
}

func (r *run) playNode(ctx context.Context, steps []step, node string, at func(time.Duration) error) error {
	for _, s := range steps {
		if s.node != node {
			continue
		}
		if err := at(s.at); err != nil {
			return err
		}
		if err := r.begin(ctx, s.fault, node); err != nil {
			return err
		}
		if err := at(s.at + s.lasts); err != nil {
			return err
		}
		if err := r.heal(ctx, s.fault, node); err != nil {
			return err
		}
	}
	return nil
}

func (p plan) firstFault() time.Duration {
	if len(p.steps) == 0 {
		return planQuiet
	}
	return p.steps[0].at
}
