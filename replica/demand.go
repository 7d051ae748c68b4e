package replica

import (
	"context"
	"sync"
)

// demand collects the callers who wait for a node's next sample and wakes its
// sampler once for all of them, so that nobody polls by himself (REQ-R16).
type demand struct {
	wake chan struct{} // capacity 1: a nudge that nobody has heeded yet
	mu   struct {
		sync.Mutex
		waiting *round
	}
}

// round is one sample that somebody waits for. Its fields may be read once done is closed.
type round struct {
	done   chan struct{}
	looked looked
	err    error
}

// nudge wakes the sampler before its time.
func (d *demand) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// join returns the round that the next look to begin will answer.
func (d *demand) join() *round {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.waiting == nil {
		d.mu.waiting = &round{done: make(chan struct{})}
		d.nudge()
	}
	return d.mu.waiting
}

// take hands the waiting round to the sampler, which begins its look now; nil if nobody waits.
func (d *demand) take() *round {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.mu.waiting
	d.mu.waiting = nil
	return r
}

func (r *round) finish(l looked, err error) {
	if r != nil {
		r.looked, r.err = l, err
		close(r.done)
	}
}

func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
