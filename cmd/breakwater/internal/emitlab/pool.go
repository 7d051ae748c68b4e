package emitlab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// A Pool is what people have today: workers shared by all consumers before a bounded queue, and an error for the
// caller where it ends badly. NewPool makes one. Its methods may be called from any goroutine.
type Pool struct {
	config  PoolConfig           // immutable
	sinks   map[string]emit.Sink // immutable
	jobs    chan *job
	workers sync.WaitGroup
	stop    chan struct{}
}

// PoolConfig says how big a Pool is. Workers is required.
type PoolConfig struct {
	Workers int
	// Queue is how many triggers may wait for a worker; more are refused. Default: none may.
	Queue int
	// Timeout bounds a delivery. Default: 0, none does.
	Timeout time.Duration
	// Breakers are those of consumers. Default: none has one.
	Breakers map[string]*breaker.Breaker
}

type job struct {
	ctx      context.Context //nolint:containedctx // of the caller that waits for it
	consumer string
	trigger  emit.Trigger
	done     chan error
}

// NewPool starts the workers, which Close ends.
func NewPool(c PoolConfig, sinks map[string]emit.Sink) *Pool {
	p := &Pool{config: c, sinks: sinks, jobs: make(chan *job, c.Queue), stop: make(chan struct{})}
	for range c.Workers {
		p.workers.Go(p.work)
	}
	return p
}

var errOpen = errors.New("open")

// Emit delivers a trigger to one consumer; why is a word for what was not delivered. It must not be called after Close.
func (p *Pool) Emit(ctx context.Context, consumer string, t emit.Trigger) (out emit.Outcome, why string) {
	j := &job{ctx: ctx, consumer: consumer, trigger: t, done: make(chan error, 1)}
	select {
	case p.jobs <- j:
	default:
		return emit.Refused, "queue_full"
	}
	switch err := <-j.done; {
	case err == nil:
		return emit.Delivered, ""
	case errors.Is(err, errOpen):
		return emit.Refused, string(emit.ReasonOpen)
	case errors.Is(err, context.DeadlineExceeded):
		return emit.Refused, string(emit.ReasonTimeout)
	default:
		return emit.Refused, string(emit.ReasonFailed)
	}
}

func (p *Pool) work() {
	for {
		select {
		case j := <-p.jobs:
			j.done <- p.try(j)
		case <-p.stop:
			return
		}
	}
}

func (p *Pool) try(j *job) error {
	ctx := j.ctx
	if p.config.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.config.Timeout)
		defer cancel()
	}
	b := p.config.Breakers[j.consumer]
	if b == nil {
		return p.sinks[j.consumer].Deliver(ctx, j.trigger)
	}
	permit, err := b.Allow()
	if err != nil {
		return fmt.Errorf("%w: %w", errOpen, err)
	}
	err = p.sinks[j.consumer].Deliver(ctx, j.trigger)
	permit.Done(err)
	return err
}

// Close ends the workers and waits for them.
func (p *Pool) Close() {
	close(p.stop)
	p.workers.Wait()
}
