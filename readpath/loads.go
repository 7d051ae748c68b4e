package readpath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/limit"
	"github.com/breakwater-go/breakwater/replica"
)

// loads are the loaders at the primary, one a key at a time, and none without a place at the primary. A loader outlives
// the caller who started it, so that those who wait for it, and the cache, get what it reads; it ends
// with its own timeout, and with the Router.
type loads struct {
	mu struct {
		sync.Mutex
		byKey  map[CacheKey]*pending // as many as run
		closed bool
	}
	running sync.WaitGroup // added to under mu
}

// pending is an answer to come. value and err are written before done is closed.
type pending struct {
	done  chan struct{}
	value any
	err   error
}

// join returns the load of a key; if the caller is to run it with the permit that it got. It returns nil if none runs
// and there is no room for one, and after close.
func (r *Router) join(key CacheKey, kept int) (p *pending, permit limit.Permit, first bool) {
	l := &r.loads
	l.mu.Lock()
	defer l.mu.Unlock()
	if running := l.mu.byKey[key]; running != nil || l.mu.closed {
		return running, permit, false
	}
	if permit, first = r.admit(kept); !first {
		return nil, permit, false
	}
	if l.mu.byKey == nil {
		l.mu.byKey = map[CacheKey]*pending{}
	}
	p = &pending{done: make(chan struct{})}
	l.mu.byKey[key] = p
	l.running.Add(1)
	return p, permit, true
}

func (l *loads) leave(key CacheKey, p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.byKey, key)
	close(p.done)
	l.running.Done()
}

// close lets no more loads begin, and waits for those that run.
func (l *loads) close() {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.running.Wait()
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
	p, permit, first := r.join(key, s.kept)
	if p == nil {
		return Result[T]{}, errNoRoom
	}
	if first {
		go runLoad(ctx, r, c, p, permit, load)
	}
	res, err := await[T](ctx, p, s.Degradable.MaxWait)
	if err == nil {
		r.count(Degradable, FromPrimary) // of one read, as many answers as callers
	}
	return res, err
}

// runLoad is the loader of a key. What it reads is in the cache before anybody hears of it.
func runLoad[T any](ctx context.Context, r *Router, c Call, p *pending, permit limit.Permit, load func(context.Context) (T, error)) {
	key := CacheKey{c.Endpoint, c.Key}
	p.err = errUnwound
	defer r.loads.leave(key, p)
	defer permit.Release()
	defer func() {
		if v := recover(); v != nil {
			p.err = fmt.Errorf("%w: %v", errUnwound, v)
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.settings.Load().Degradable.LoadTimeout)
	defer cancel()
	letGo := context.AfterFunc(r.closed, cancel) //nolint:contextcheck // the end of the Router, not of a caller
	defer letGo()
	res, info, err := read(ctx, r, replica.Requirement{PrimaryOnly: true}, load)
	switch {
	case err == nil:
		r.remember(c, res.Value, info)
	case ctx.Err() != nil: // the loader's, of which its callers know nothing
		err = errNoRoom
	}
	p.value, p.err = res, err
}

// await waits for a load, for a bounded time: after it the class's default answers.
func await[T any](ctx context.Context, p *pending, atMost time.Duration) (Result[T], error) {
	timer := time.NewTimer(atMost)
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
