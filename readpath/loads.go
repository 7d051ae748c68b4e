package readpath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// loads are the loaders at the primary, one a key at a time. A loader outlives the caller who
// started it, so that those who wait for it, and the cache, get what it reads; it ends with its
// own timeout, and with the Router.
type loads struct {
	mu struct {
		sync.Mutex
		byKey  map[CacheKey]*pending
		closed bool
	}
}

// pending is an answer to come. value, info and err are written before done is closed.
type pending struct {
	done  chan struct{}
	value any
	err   error
}

// join returns the load of a key, and whether the caller is to run it; nil after close.
func (l *loads) join(key CacheKey) (p *pending, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, false
	}
	if running := l.mu.byKey[key]; running != nil {
		return running, false
	}
	if l.mu.byKey == nil {
		l.mu.byKey = map[CacheKey]*pending{}
	}
	p = &pending{done: make(chan struct{})}
	l.mu.byKey[key] = p
	return p, true
}

func (l *loads) leave(key CacheKey, p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.byKey, key)
	close(p.done)
}

func (l *loads) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
}

// errUnwound is the error of a load that did not return.
var errUnwound = errors.New("readpath: the load panicked, or ended its goroutine")

// loadOnce reads from the primary, once a key at a time; other callers of that key wait for it, for MaxWait
// at most. Without a key the caller reads for itself.
func loadOnce[T any](ctx context.Context, r *Router, c Call, load func(context.Context) (T, error)) (Result[T], error) {
	s := r.settings.Load()
	if c.Key == "" {
		res, _, err := fromPrimary(ctx, r, Degradable, s.kept, load)
		return res, err
	}
	key := CacheKey{c.Endpoint, c.Key}
	p, first := r.loads.join(key)
	if p == nil {
		return Result[T]{}, errNoRoom
	}
	if first {
		r.owned.Go(func() { runLoad(ctx, r, c, p, load) })
	}
	return await[T](ctx, p, s.Degradable.MaxWait)
}

// runLoad is the loader of a key. What it reads is in the cache before anybody hears of it.
func runLoad[T any](ctx context.Context, r *Router, c Call, p *pending, load func(context.Context) (T, error)) {
	key := CacheKey{c.Endpoint, c.Key}
	p.err = errUnwound
	defer r.loads.leave(key, p)
	defer func() {
		if v := recover(); v != nil {
			p.err = fmt.Errorf("%w: %v", errUnwound, v)
		}
	}()
	s := r.settings.Load()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Degradable.LoadTimeout)
	defer cancel()
	letGo := context.AfterFunc(r.closed, cancel) //nolint:contextcheck // the end of the Router, not of a caller
	defer letGo()
	res, info, err := fromPrimary(ctx, r, Degradable, s.kept, load)
	if err == nil {
		r.remember(c, res.Value, info)
	}
	p.value, p.err = res, err
}

// await waits for a load, for a bounded time: after it the class's default answers.
func await[T any](ctx context.Context, p *pending, limit time.Duration) (Result[T], error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		return Result[T]{}, errNoRoom
	case <-ctx.Done():
		return Result[T]{}, ctx.Err()
	}
	if p.err != nil {
		return Result[T]{}, p.err
	}
	res, ok := p.value.(Result[T])
	if !ok {
		return Result[T]{}, errNoRoom // another type under the same key
	}
	return res, nil
}
