package readpath

import (
	"context"
	"sync"
	"time"
)

// Freshness collects what the reads under a context returned, for one who tells of all of them
// together: an HTTP response, say. The zero value is ready. It may be used concurrently.
type Freshness struct {
	mu struct {
		sync.Mutex
		reads             int
		stale, unverified bool
		age               time.Duration
	}
}

type freshnessKey struct{}

// WithFreshness returns a context under which Get tells f how fresh each answer is.
func WithFreshness(ctx context.Context, f *Freshness) context.Context {
	return context.WithValue(ctx, freshnessKey{}, f)
}

// Worst returns what is true of the answers together: whether any was stale or unverified, and the
// greatest age of those that were stale; reads is how many there were.
func (f *Freshness) Worst() (stale, unverified bool, age time.Duration, reads int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.stale, f.mu.unverified, f.mu.age, f.mu.reads
}

func (f *Freshness) add(stale, unverified bool, age time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.reads++
	f.mu.unverified = f.mu.unverified || unverified
	if stale {
		f.mu.stale, f.mu.age = true, max(f.mu.age, age)
	}
}

// note tells the Freshness of ctx of an answer, if there is one.
func note[T any](ctx context.Context, res *Result[T], err error) {
	if f, ok := ctx.Value(freshnessKey{}).(*Freshness); ok && err == nil {
		f.add(res.Stale, res.Unverified, res.Age)
	}
}
