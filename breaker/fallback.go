package breaker

import (
	"context"
	"errors"
)

// A Fallback answers in place of a guarded call (REQ-B12). The zero value does not.
type Fallback[T any] struct {
	// Func gives the answer. cause is what it stands in for: the refusal, an [*OpenError],
	// or the error of the call. ctx is that of DoOr: after a timeout it is over, so a Func that waits
	// for something needs another. It is not guarded: a panic in it, and its time, are the
	// caller's. Default: none, the cause is returned.
	Func func(ctx context.Context, cause error) (T, error)
	// OnFailure has Func asked also when the call ran and failed (Failure or Fatal, not
	// Ignored). Default: false, only when the breaker refuses.
	OnFailure bool
}

// DoOr is [Do] with a fallback: what Func returns is returned as it is. The call's own
// result is counted as Do counts it, before Func is asked.
func DoOr[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error), f Fallback[T]) (T, error) {
	p, refused := b.Allow()
	if refused != nil {
		return f.answer(ctx, *new(T), refused)
	}
	defer p.DoneAs(Failure, errUnwound) // does nothing once the permit is used below
	v, err := fn(ctx)
	if o := p.finish(ctx, err); f.OnFailure && (o == Failure || o == Fatal) {
		return f.answer(ctx, v, err)
	}
	return v, err
}

func (f *Fallback[T]) answer(ctx context.Context, v T, cause error) (T, error) {
	if f.Func == nil {
		return v, cause
	}
	return f.Func(ctx, cause)
}

// finish reports the end of a call of Do, and says what it counts as.
func (p *Permit) finish(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		p.Done(nil)
		return Success
	case errors.Is(ctx.Err(), context.Canceled):
		p.DoneAs(Ignored, err)
		return Ignored
	default:
		return p.doneError(err)
	}
}
