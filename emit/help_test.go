package emit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// A target is a consumer in this process.
type target struct {
	sync.Mutex
	do       func(ctx context.Context, t emit.Trigger) error // nil: accept
	took     []string                                        // IDs, in order
	calls    int
	now, max int // in flight
}

func (c *target) Deliver(ctx context.Context, t emit.Trigger) error {
	c.Lock()
	c.calls++
	c.now++
	c.max = max(c.max, c.now)
	do := c.do
	c.Unlock()
	defer func() { c.Lock(); defer c.Unlock(); c.now-- }()
	if do != nil {
		if err := do(ctx, t); err != nil {
			return err
		}
	}
	c.Lock()
	defer c.Unlock()
	c.took = append(c.took, t.ID)
	return nil
}

func (c *target) set(do func(context.Context, emit.Trigger) error) {
	c.Lock()
	defer c.Unlock()
	c.do = do
}

func (c *target) taken() []string {
	c.Lock()
	defer c.Unlock()
	return slices.Clone(c.took)
}

func (c *target) called() int {
	c.Lock()
	defer c.Unlock()
	return c.calls
}

var errDown = errors.New("500")

func fails(context.Context, emit.Trigger) error { return errDown }

func hangs(ctx context.Context, _ emit.Trigger) error {
	<-ctx.Done()
	return ctx.Err()
}

// takes is a consumer that needs some time.
func takes(d time.Duration) func(context.Context, emit.Trigger) error {
	return func(ctx context.Context, _ emit.Trigger) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func newRouter(tb testing.TB, c emit.Config) *emit.Router {
	tb.Helper()
	r, err := emit.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = r.Close() })
	return r
}

// one is a Router with one consumer, "a".
func one(tb testing.TB, c *target, change ...func(*emit.Consumer)) *emit.Router {
	tb.Helper()
	k := emit.Consumer{Name: "a", Sink: c}
	for _, f := range change {
		f(&k)
	}
	return newRouter(tb, emit.Config{Consumers: []emit.Consumer{k}})
}

func trigger(id string) emit.Trigger { return emit.Trigger{ID: id, Type: "order.paid"} }

func keyed(key string, n int) emit.Trigger {
	return emit.Trigger{ID: fmt.Sprint(key, "#", n), Type: "order.paid", Key: key}
}

// emitWant emits and compares the outcome for consumer a.
func emitWant(t *testing.T, r *emit.Router, x emit.Trigger, want emit.Outcome, why emit.Reason) emit.Result {
	t.Helper()
	receipt, err := r.Emit(t.Context(), x)
	got := receipt.Of("a")
	if got.Outcome != want || got.Reason != why {
		t.Errorf("Emit(%s): %v %q (%v); want %v %q", x.ID, got.Outcome, got.Reason, got.Err, want, why)
	}
	if (err == nil) != (want == emit.Delivered || want == emit.Stored) {
		t.Errorf("Emit(%s): error %v for %v", x.ID, err, got.Outcome)
	}
	return got
}

// stats of a consumer, after a look at the balance (REQ-E14).
func stats(tb testing.TB, r *emit.Router, consumer string) emit.ConsumerStats {
	tb.Helper()
	all := r.Stats().Consumers
	for i := range all {
		s := &all[i]
		if s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused {
			tb.Errorf("%s: emitted %d, delivered %d, stored %d, shed %d, refused %d", s.Name, s.Emitted, s.Delivered, s.Stored, s.Shed, s.Refused)
		}
		if s.Name == consumer {
			return *s
		}
	}
	tb.Fatalf("no consumer %s", consumer)
	return emit.ConsumerStats{}
}

// settled waits in a bubble until the lane has delivered what it holds, for at most d.
func settled(t *testing.T, r *emit.Router, consumer string, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); ; <-time.After(10 * time.Millisecond) {
		if s := stats(t, r, consumer); s.Depth.Letters == s.Depth.Parked {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v %s still holds %+v, breaker %v", d, consumer, stats(t, r, consumer).Depth, r.Breaker(consumer).State())
		}
	}
}

func panicGoexit() { runtime.Goexit() }

// A longest keeps the longest of some durations.
type longest struct{ ns atomic.Int64 }

func (l *longest) add(d time.Duration) {
	for {
		at := l.ns.Load()
		if at >= int64(d) || l.ns.CompareAndSwap(at, int64(d)) {
			return
		}
	}
}

func (l *longest) get() time.Duration { return time.Duration(l.ns.Load()) }
