package readpath

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

func getPrimary(t bubble, endpoint string) (Result[string], error) {
	t.Helper()
	return Get(t.Context(), t.r, Call{Endpoint: endpoint, Key: "1", PrimaryOnly: true}, t.f.load)
}

// REQ-D3: a read of the primary alone needs no budget while its class has the replicas.
func TestPrimaryOnlyInNormal(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.001, Burst: 1, Concurrent: 1} }, func(t bubble) {
		for _, name := range []string{"balance", "product", "related", "banner"} {
			for range 5 {
				res, err := getPrimary(t, name)
				if want := (Result[string]{Value: "primary", Source: FromPrimary, Node: "primary"}); err != nil || res != want {
					t.Errorf("%s: got %+v, %v; want %+v", name, res, err, want)
				}
			}
		}
		if got := t.r.Stats(); got.BudgetTokens != 1 || got.Reads[Sheddable][FromPrimary] != 10 {
			t.Errorf("got %v tokens, %d reads; want 1, 10", got.BudgetTokens, got.Reads[Sheddable][FromPrimary])
		}
		wantMode(t, t.r, Normal)
	})
}

// REQ-D3, REQ-D10: while the class is withheld it counts against the budget, and is refused when there is no room:
// nothing else answers who asked for the primary.
func TestPrimaryOnlyWhileDegraded(t *testing.T) {
	inBubble(t, func(c *Config) {
		acceptLate(time.Minute)(c)
		c.Budget = Budget{Rate: 0.001, Burst: 6}
	}, func(t bubble) {
		r, f := t.r, t.f
		if _, err := get(t, r, f, "price", "1"); err != nil { // in the cache
			t.Fatal(err)
		}
		f.degrade()
		f.late.Store(true)
		after(lookEvery)
		wantMode(t, r, Degraded)
		for i, name := range []string{"price", "banner", "related"} { // what is not kept: half
			if res, err := getPrimary(t, name); err != nil || res.Source != FromPrimary {
				t.Errorf("%d: %s: got %+v, %v", i, name, res, err)
			}
		}
		for name, want := range map[string]time.Duration{"price": 2 * time.Second, "banner": 5 * time.Second, "related": 5 * time.Second} {
			res, err := getPrimary(t, name)
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || !errors.Is(err, ErrDegraded) || errors.Is(err, ErrShed) || refused.RetryAfter() < want || refused.RetryAfter() > want*3/2 {
				t.Errorf("%s: got %+v, %v; want ErrDegraded, to come back after %v", name, res, err, want)
			}
		}
		for range 3 { // what is kept
			if _, err := getPrimary(t, "balance"); err != nil {
				t.Errorf("critical: %v", err)
			}
		}
		if _, err := getPrimary(t, "balance"); !errors.Is(err, ErrDegraded) {
			t.Errorf("critical: got %v, want ErrDegraded", err)
		}
		if got := r.Stats().InFallback; f.primary.Load() != 6 || got != 0 {
			t.Errorf("reads of the primary: %d, places still taken: %d; want 6, 0", f.primary.Load(), got)
		}
	})
}

// REQ-D3, REQ-D8: in recovery it depends on the class: one that has the replicas back needs no budget.
func TestPrimaryOnlyWhileRecovering(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.001, Burst: 1} }, func(t bubble) {
		t.f.eligible.Store(false)
		after(time.Second)
		t.f.eligible.Store(true)
		after(3500 * time.Millisecond)
		wantMode(t, t.r, Recovering)
		for range 3 {
			if _, err := getPrimary(t, "balance"); err != nil {
				t.Errorf("critical: %v", err)
			}
		}
		if _, err := getPrimary(t, "related"); err != nil { // the one token, none is kept of it
			t.Errorf("sheddable: %v", err)
		}
		if _, err := getPrimary(t, "related"); !errors.Is(err, ErrDegraded) {
			t.Errorf("sheddable: got %v, want ErrDegraded", err)
		}
	})
}

// A primary that is full, or is none, is no room either: the refusal says so and when to come back.
func TestPrimaryWithoutAPlace(t *testing.T) {
	full := &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "primary", Condition: replica.Saturated}}}
	none := func(context.Context) (string, error) { return "", fmt.Errorf("query: %w", full) }
	for _, eligible := range []bool{true, false} {
		inBubble(t, nil, func(t bubble) {
			t.f.eligible.Store(eligible)
			after(lookEvery)
			for _, call := range []Call{
				{Endpoint: "balance", PrimaryOnly: true}, {Endpoint: "product", PrimaryOnly: true}, {Endpoint: "balance"},
			} {
				_, err := Get(t.Context(), t.r, call, none)
				if _, ok := errors.AsType[*RefusedError](err); !ok || !errors.Is(err, ErrDegraded) || !errors.Is(err, replica.ErrSaturated) {
					t.Errorf("eligible %v, %+v: got %v, want ErrDegraded with its cause", eligible, call, err)
				}
			}
			for _, key := range []string{"", "1"} {
				res, err := Get(t.Context(), t.r, Call{Endpoint: "price", Key: key}, none)
				if err != nil || res.Source != FromDefault || !res.Stale {
					t.Errorf("degradable, key %q: got %+v, %v; want the default", key, res, err)
				}
			}
		})
	}
}

// REQ-D3, REQ-R12: what falls back to the primary for its position is within the budget in every mode.
func TestPositionFallBacksAreBounded(t *testing.T) {
	ctx := replica.WithPosition(t.Context(), replica.Position{SystemID: "7", Timeline: 1, LSN: 7})
	for _, mode := range []Mode{Normal, Degraded, Recovering} {
		inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.001, Burst: 10} }, func(t bubble) {
			r, f := t.r, t.f
			f.behind.Store(true)
			if mode != Normal {
				f.eligible.Store(false)
				after(time.Second)
			}
			if mode == Recovering {
				f.eligible.Store(true)
				after(3500 * time.Millisecond)
			}
			wantMode(t, r, mode)
			sources := map[Source]int{}
			for range 20 {
				res, err := Get(ctx, r, Call{Endpoint: "product", Key: "1"}, f.load)
				if err != nil {
					t.Fatal(err)
				}
				sources[res.Source]++
			}
			refused := 0
			for range 20 {
				_, err := Get(ctx, r, Call{Endpoint: "balance"}, f.load)
				if errors.Is(err, ErrDegraded) {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
			}
			if sources[FromPrimary] != 5 || sources[FromDefault] != 15 || refused != 15 || f.primary.Load() != 10 {
				t.Errorf("%v: degradable %v, critical refused %d, at the primary %d; want 5 of them there and 15 by default, 15, 10", mode, sources, refused, f.primary.Load())
			}
			if _, err := Get(ctx, r, Call{Endpoint: "related"}, f.load); !errors.Is(err, ErrShed) {
				t.Errorf("%v: sheddable: got %v", mode, err)
			}
			wantMode(t, r, mode)
		})
	}
}

// A read that its only replica failed says nothing about the path: that is still eligible for the others.
func TestReadThatFailedOnTheOnlyReplica(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		lost := func(ctx context.Context) (string, error) {
			if ctx.Value(fakeKey{}).(asked).req.PrimaryOnly {
				return t.f.load(ctx)
			}
			return "", fmt.Errorf("%w (before that: reset)", &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Excepted}}})
		}
		if res, err := Get(t.Context(), t.r, Call{Endpoint: "balance"}, lost); err != nil || res.Source != FromPrimary {
			t.Errorf("got %+v, %v; want the primary", res, err)
		}
		wantMode(t, t.r, Normal)
	})
}

// REQ-D10, REQ-D3: as many loaders run at once as the budget has places, however many keys are asked for; a read without room
// starts none and does not wait, and nothing of a key stays.
func TestLoadersAreBounded(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Concurrent: 3, CriticalShare: -1} }, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		_, _ = get(t, r, f, "related", "")
		f.hold = make(chan struct{})
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() { _, _ = get(t, r, f, "product", fmt.Sprint("slow ", i)) })
		}
		synctest.Wait()
		before, began := runtime.NumGoroutine(), time.Now()
		for i := range 10_000 {
			res, err := get(t, r, f, "price", strconv.Itoa(i))
			if err != nil || res.Source != FromDefault {
				t.Fatalf("got %+v, %v; want the default", res, err)
			}
		}
		if took, more := time.Since(began), runtime.NumGoroutine()-before; took != 0 || more > 0 {
			t.Errorf("10,000 reads without room: %v, %d goroutines more; want none", took, more)
		}
		if got := len(r.loads.mu.byKey); got != 3 {
			t.Errorf("keys: got %d, want 3", got)
		}
		close(f.hold)
		all.Wait()
		synctest.Wait()
		if got := len(r.loads.mu.byKey); got != 0 || f.peak.Load() != 3 || r.Stats().InFallback != 0 {
			t.Errorf("afterwards: %d keys, %d at once, %d in fall-back; want 0, 3, 0", got, f.peak.Load(), r.Stats().InFallback)
		}
	})
}

// REQ-D10: those who wait for another's loader wait no longer than MaxWait, then get the default or an empty stale result.
func TestWaitForAnothersLoaderIsBounded(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		f.hold = make(chan struct{})
		for endpoint, want := range map[string]string{"price": "unknown", "product": ""} {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					began := time.Now()
					res, err := get(t, r, f, endpoint, "1")
					if took := time.Since(began); err != nil || res != (Result[string]{Value: want, Source: FromDefault, Stale: true}) || took != 250*time.Millisecond {
						t.Errorf("%s: got %+v, %v after %v; want %q, flagged, after 250ms", endpoint, res, err, took, want)
					}
				})
			}
			all.Wait()
		}
		if got := f.primary.Load(); got != 2 {
			t.Errorf("loads: got %d, want 2", got)
		}
	})
}

// Close waits for the loaders that run, and none begins after it.
func TestCloseWaitsForLoaders(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		f.hold = make(chan struct{})
		var all sync.WaitGroup
		ended := false
		slow := func(ctx context.Context) (string, error) {
			v, err := f.load(ctx)
			time.Sleep(100 * time.Millisecond)
			ended = true
			return v, err
		}
		_, _ = get(t, r, f, "related", "")
		all.Go(func() { _, _ = Get(t.Context(), r, Call{Endpoint: "price", Key: "1"}, slow) })
		synctest.Wait()
		r.Close()
		if !ended {
			t.Error("the loader runs after Close")
		}
		if res, err := get(t, r, f, "price", "2"); err != nil || res.Source != FromDefault || f.primary.Load() != 1 {
			t.Errorf("after Close: got %+v, %v, %d loads; want the default", res, err, f.primary.Load())
		}
		all.Wait()
	})
}

// The decision of a degraded read allocates nothing with a key, with a late replica in the Config, and for the primary alone (REQ-D10).
func TestRefusalsAllocateNothing(t *testing.T) {
	inBubble(t, func(c *Config) {
		c.Budget, c.Degradable.LateReplicas = Budget{Rate: 0.001, Burst: 1}, time.Minute
	}, func(t bubble) {
		r, f, load := t.r, t.f, t.f.load
		f.degrade()
		_, _ = get(t, r, f, "balance", "")
		for _, call := range []Call{{Endpoint: "product", Key: "1"}, {Endpoint: "product", PrimaryOnly: true}, {Endpoint: "balance", PrimaryOnly: true}} {
			if got := testing.AllocsPerRun(100, func() { _, _ = Get(t.Context(), r, call, load) }); got != 0 {
				t.Errorf("%+v: got %v allocations, want 0", call, got)
			}
		}
	})
}

// REQ-R12: a position of a timeline that no node is known to be on, after a failover that another process saw first, is answered by
// the class; one of another cluster is the caller's fault, and told as it is.
func TestPositionThatNobodyHolds(t *testing.T) {
	answered := map[replica.Condition]error{replica.OtherTimeline: ErrDegraded, replica.OtherCluster: replica.ErrForeignPosition}
	for condition, want := range answered {
		lacks := func(context.Context) (string, error) {
			return "", fmt.Errorf("query: %w", &replica.PositionError{Condition: condition})
		}
		for _, eligible := range []bool{true, false} {
			inBubble(t, nil, func(t bubble) {
				t.f.eligible.Store(eligible)
				after(time.Second)
				for _, call := range []Call{{Endpoint: "balance"}, {Endpoint: "balance", PrimaryOnly: true}} {
					if _, err := Get(t.Context(), t.r, call, lacks); !errors.Is(err, want) {
						t.Errorf("%v, eligible %v, %+v: got %v, want %v", condition, eligible, call, err, want)
					}
				}
				res, err := Get(t.Context(), t.r, Call{Endpoint: "price"}, lacks)
				if condition == replica.OtherCluster && !errors.Is(err, want) || condition == replica.OtherTimeline && res.Source != FromDefault {
					t.Errorf("%v, eligible %v: got %+v, %v", condition, eligible, res, err)
				}
			})
		}
	}
}
