package breaker

import (
	"context"
	"errors"
	"unsafe"
)

// errUnwound is the reason of a call that did not return.
var errUnwound = errors.New("panic or runtime.Goexit")

// Do runs fn if b allows it and reports how it ended. A refusal returns the
// zero value and an [*OpenError] without running fn.
//
// An error that fn returns after ctx was cancelled (not: timed out) is Ignored,
// also where the error does not say so, without asking Classify. A panic or
// runtime.Goexit in fn is a Failure and goes on unchanged (REQ-B10). What fn
// returns is returned as it is.
func Do[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (v T, err error) {
	g := guarded{b, b.loadWord()}
	if !isPlain(g.word) {
		if stateOf(g.word) == Open {
			return v, b.refuse()
		}
		return do(ctx, b, fn)
	}
	defer g.end()
	v, err = fn(ctx)
	if err != nil {
		g.failed(ctx, err)
		return v, err
	}
	word := g.word
	g.word = 0
	c := g.b.near(uintptr(unsafe.Pointer(&g)))
	if !c.count(word) {
		g.b.amend(c, word)
	}
	return v, err
}

// guarded is a call of [Do] under way that a closed breaker has admitted, and whose success needs no clock.
type guarded struct {
	b    *Breaker
	word uint64 // as in a Permit; 0 once fn has returned
}

// end is deferred.
func (g *guarded) end() {
	if g.word != 0 {
		g.unwound()
	}
}

// unwound and failed stay out of the frame of Do, which every call pays for.
//
//go:noinline
func (g *guarded) unwound() {
	p := Permit{b: g.b, word: g.word}
	p.DoneAs(Failure, errUnwound)
}

//go:noinline
func (g *guarded) failed(ctx context.Context, err error) {
	p := Permit{b: g.b, word: g.word}
	g.word = 0
	defer p.DoneAs(Failure, errUnwound) // does nothing but where ctx panics
	p.finish(ctx, err)
}

// do is Do for calls that are timed, that are probes, or that are refused in another state than Open.
func do[T any](ctx context.Context, b *Breaker, fn func(context.Context) (T, error)) (T, error) {
	p, err := b.Allow()
	if err != nil {
		var none T
		return none, err
	}
	defer p.DoneAs(Failure, errUnwound) // does nothing once the permit is used below
	v, err := fn(ctx)
	p.finish(ctx, err)
	return v, err
}
