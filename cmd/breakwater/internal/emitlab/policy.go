package emitlab

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// The policies: PolicyLatency is the library's; the others are what people have today.
const (
	PolicyNone    = "none"    // one pool of 64 workers for all consumers, no timeout, no breaker
	PolicyTimeout = "timeout" // the same with a timeout of 200 ms
	PolicyErrors  = "errors"  // the same with a timeout, and a breaker that opens at an error rate over 50 %
	PolicyLatency = "latency" // emit.Router with its defaults
)

// Policies lists them, the library's last.
func Policies() []string { return []string{PolicyNone, PolicyTimeout, PolicyErrors, PolicyLatency} }

// outcome is what an emit answered. The zero value: it is under way.
type outcome = emit.Outcome

// path is how triggers get to their consumers. Its methods may be called from any goroutine.
type path interface {
	// emit answers for the trigger's one consumer; why is a word for what was not delivered at once.
	emit(ctx context.Context, consumer string, t emit.Trigger) (out outcome, why string)
	// stats are nil where nothing is counted.
	stats() []emit.ConsumerStats
	// waiting is how many dead letters are still to be delivered.
	waiting() int
	// left are the IDs in the dead letters.
	left(ctx context.Context) (map[string]bool, error)
	// close waits for what is under way.
	close() error
}

// routed is the library.
type routed struct {
	router *emit.Router
	store  emit.DeadLetters
}

// typeOf is the type of a consumer's triggers, so that each goes to one.
func typeOf(consumer string) string { return "lab." + consumer }

func newRouted(sinks map[string]emit.Sink, store emit.DeadLetters, o emit.Observer) (*routed, error) {
	c := emit.Config{DeadLetters: store, Observer: o}
	for _, name := range Consumers() {
		c.Consumers = append(c.Consumers, emit.Consumer{Name: name, Types: []string{typeOf(name)}, Sink: sinks[name]})
	}
	router, err := emit.New(c)
	if err != nil {
		return nil, err
	}
	return &routed{router, store}, nil
}

// Consumers are their names.
func Consumers() []string { return []string{healthy, slow} }

func (p *routed) emit(ctx context.Context, consumer string, t emit.Trigger) (out outcome, why string) {
	receipt, err := p.router.Emit(ctx, t)
	result := receipt.Of(consumer)
	if result.Outcome == 0 && err != nil {
		return emit.Refused, err.Error()
	}
	return result.Outcome, string(result.Reason)
}

func (p *routed) stats() []emit.ConsumerStats { return p.router.Stats().Consumers }

func (p *routed) waiting() (n int) {
	for _, d := range p.store.Depths() {
		n += d.Letters - d.Parked
	}
	return n
}

func (p *routed) left(ctx context.Context) (map[string]bool, error) {
	ids := map[string]bool{}
	for _, name := range Consumers() {
		for l, err := range p.store.Letters(ctx, name, emit.Filter{}) {
			if err != nil {
				return nil, err
			}
			ids[l.Trigger.ID] = true
		}
	}
	return ids, nil
}

func (p *routed) close() error { return errors.Join(p.router.Close(), p.store.Close()) }

const (
	poolSize    = 64
	poolQueue   = 2048
	poolTimeout = 200 * time.Millisecond
)

// pooled is a Pool as a policy.
type pooled struct{ *Pool }

func newPooled(policy string, sinks map[string]emit.Sink, tell func(breaker.Transition)) (pooled, error) {
	c := PoolConfig{Workers: poolSize, Queue: poolQueue, Breakers: map[string]*breaker.Breaker{}}
	if policy != PolicyNone {
		c.Timeout = poolTimeout
	}
	if policy == PolicyErrors {
		for name := range sinks {
			b, err := breaker.New(breaker.Config{
				Name: name, Rules: []breaker.Rule{breaker.FailureRateByTime{Span: time.Second, MinCalls: 20}},
				Open:     breaker.Backoff{Base: 100 * time.Millisecond, Max: 2 * time.Second},
				Observer: breaker.Observer{OnTransition: tell},
			})
			if err != nil {
				return pooled{}, err
			}
			c.Breakers[name] = b
		}
	}
	return pooled{NewPool(c, sinks)}, nil
}

func (p pooled) emit(ctx context.Context, consumer string, t emit.Trigger) (out outcome, why string) {
	return p.Emit(ctx, consumer, t)
}

func (pooled) stats() []emit.ConsumerStats { return nil }

func (pooled) waiting() int { return 0 }

func (pooled) left(context.Context) (map[string]bool, error) { return map[string]bool{}, nil }

func (p pooled) close() error {
	p.Close()
	return nil
}
