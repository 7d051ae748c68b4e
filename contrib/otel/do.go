package otelbreaker

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-go/breakwater/breaker"
)

var errUnwound = errors.New("panic or runtime.Goexit")

// Do is [breaker.Do] in a span of that name, which is a child of the span in ctx: fn gets a context with it. The name should be one of
// few: "price", not "price of 4711".
func Do[T any](ctx context.Context, t *Tracer, name string, b *breaker.Breaker, fn func(context.Context) (T, error)) (T, error) {
	if t == nil {
		return breaker.Do(ctx, b, fn)
	}
	ctx, span := t.tracer.Start(ctx, name)
	defer finish(span)
	if !span.IsRecording() {
		return breaker.Do(ctx, b, fn)
	}
	permit, err := b.Allow()
	if err != nil {
		Refused(span, b.Name(), err)
		return *new(T), err
	}
	c := guarded{span: span, breaker: b, permit: permit, state: b.State()}
	defer c.end(breaker.Failure, errUnwound) // does nothing once the call has ended below
	v, err := fn(ctx)
	c.end(judge(ctx, b, err), err)
	return v, err
}

// judge is what breaker.Do makes of an error.
func judge(ctx context.Context, b *breaker.Breaker, err error) breaker.Outcome {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return breaker.Ignored
	}
	return b.Classify(err)
}

// guarded is an admitted call of one goroutine.
type guarded struct {
	span    trace.Span
	breaker *breaker.Breaker
	permit  breaker.Permit
	state   breaker.State // that admitted it
	ended   bool
}

// end reports the call, the first time that it is called.
func (c *guarded) end(o breaker.Outcome, err error) {
	if c.ended {
		return
	}
	c.ended = true
	before := c.breaker.State()
	c.permit.DoneAs(o, err)
	Counted(c.span, c.breaker.Name(), c.state, o, err)
	changed(c.span, before, c.breaker)
}
