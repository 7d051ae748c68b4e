package readpath

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// REQ-D2: in Normal every class reads from a replica.
func TestNormalReadsFromReplicas(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.hi.Store(int64(700 * time.Millisecond))
		for _, name := range []string{"balance", "product", "related"} {
			res, err := get(t, r, f, name, "")
			want := Result[string]{Value: "r1", Source: FromReplica, Age: 700 * time.Millisecond, Node: "r1"}
			if err != nil || res != want {
				t.Errorf("%s: got %+v, %v; want %+v", name, res, err, want)
			}
		}
		if got := f.primary.Load(); got != 0 {
			t.Errorf("reads at the primary: got %d, want 0", got)
		}
	})
}

// REQ-D4: a critical read is fresh or fails, never stale; refusals say when to come back.
func TestDegradedCritical(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 10, Burst: 5} }, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		for range 5 {
			res, err := get(t, r, f, "balance", "k")
			if err != nil || res.Source != FromPrimary || res.Stale || res.Age != 0 {
				t.Fatalf("got %+v, %v; want a fresh answer from the primary", res, err)
			}
		}
		wantMode(t, r, Degraded)
		_, err := get(t, r, f, "balance", "k")
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || !errors.Is(err, ErrDegraded) || errors.Is(err, ErrShed) {
			t.Fatalf("got %v, want ErrDegraded", err)
		}
		for range 20 {
			if d := refused.RetryAfter(); d < 2*time.Second || d > 3*time.Second {
				t.Errorf("RetryAfter: got %v, want 2s to 3s", d)
			}
		}
		after(100 * time.Millisecond) // one token
		if _, err := get(t, r, f, "balance", "k"); err != nil {
			t.Errorf("after 100 ms: %v", err)
		}
	})
}

// REQ-D3: half of the tokens are kept for critical reads.
func TestCriticalShareIsKept(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 1, Burst: 10} }, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		fresh := 0
		for range 20 {
			if res, _ := get(t, r, f, "product", ""); res.Source == FromPrimary {
				fresh++
			}
		}
		if fresh != 5 {
			t.Errorf("degradable reads at the primary: got %d, want 5", fresh)
		}
		for range 5 {
			if _, err := get(t, r, f, "balance", ""); err != nil {
				t.Errorf("critical: %v", err)
			}
		}
	})
}

// REQ-D5, REQ-D7: from the cache with the age of the data, then the primary, then the default.
func TestDegradedDegradable(t *testing.T) {
	cache := &mapCache{m: map[CacheKey]Entry{}}
	inBubble(t, func(c *Config) {
		c.Cache, c.Budget = cache, Budget{Rate: 0.001, Burst: 2}
	}, func(t bubble) {
		r, f := t.r, t.f
		f.hi.Store(int64(time.Second))
		if _, err := get(t, r, f, "product", "7"); err != nil {
			t.Fatal(err)
		}
		f.eligible.Store(false)
		after(10 * time.Second)
		res, err := get(t, r, f, "product", "7")
		want := Result[string]{Value: "r1", Source: FromCache, Stale: true, Age: 11 * time.Second}
		if err != nil || res != want {
			t.Errorf("cached: got %+v, %v; want %+v", res, err, want)
		}
		res, err = get(t, r, f, "product", "8") // a miss: the primary, and then the cache
		if err != nil || res.Source != FromPrimary || res.Stale {
			t.Errorf("missed: got %+v, %v", res, err)
		}
		if res, _ = get(t, r, f, "product", "8"); res.Source != FromCache || res.Value != "primary" || !res.Stale {
			t.Errorf("missed before: got %+v", res)
		}
		for name, want := range map[string]string{"product": "", "price": "unknown"} { // no token left
			res, err = get(t, r, f, name, "9")
			if err != nil || res != (Result[string]{Value: want, Source: FromDefault, Stale: true}) {
				t.Errorf("%s: got %+v, %v; want the default, flagged", name, res, err)
			}
		}
		after(6 * time.Minute)
		if res, _ = get(t, r, f, "product", "7"); res.Source == FromCache {
			t.Errorf("after six minutes: got %+v, want nothing so old", res)
		}
	})
}

// REQ-D6: sheddable reads are dropped without touching the primary.
func TestDegradedSheddable(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		_, err := get(t, r, f, "related", "")
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || !errors.Is(err, ErrShed) || refused.RetryAfter() < 5*time.Second {
			t.Errorf("got %v, want ErrShed for 5 s", err)
		}
		res, err := get(t, r, f, "banner", "")
		if err != nil || res != (Result[string]{Value: "none", Source: FromDefault, Stale: true}) {
			t.Errorf("got %+v, %v; want the default", res, err)
		}
		if got := f.primary.Load(); got != 0 {
			t.Errorf("reads at the primary: got %d, want 0", got)
		}
	})
}

// REQ-D5: one loader a key; the others wait for it, for a bounded time; it outlives who started it.
func TestOneLoaderAKey(t *testing.T) {
	cache := &mapCache{m: map[CacheKey]Entry{}}
	inBubble(t, func(c *Config) { c.Cache = cache }, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		f.hold = make(chan struct{})
		first, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		results := make(chan Result[string], 200)
		all.Go(func() {
			_, err := Get(first, r, Call{Endpoint: "product", Key: "1"}, f.load)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who left: got %v", err)
			}
		})
		synctest.Wait()
		for range 199 {
			all.Go(func() {
				res, err := get(t, r, f, "product", "1")
				if err != nil {
					t.Error(err)
				}
				results <- res
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		if got := f.primary.Load(); got != 1 {
			t.Errorf("loads: got %d, want 1", got)
		}
		close(f.hold)
		all.Wait()
		for range 199 {
			if res := <-results; res.Source != FromPrimary || res.Value != "primary" {
				t.Errorf("got %+v", res)
			}
		}
		if res, _ := get(t, r, f, "product", "1"); res.Source != FromCache {
			t.Errorf("afterwards: got %+v, want the cache", res)
		}
		if got := r.Stats().Reads[Degradable][FromPrimary]; got != 199 {
			t.Errorf("answers of the primary: got %d, want 199", got)
		}
	})
}

// REQ-D10: a caller waits no longer than MaxWait, then gets the default.
func TestWaitForALoaderIsBounded(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		f.hold = make(chan struct{})
		began := time.Now()
		res, err := get(t, r, f, "price", "1")
		if took := time.Since(began); err != nil || res.Source != FromDefault || took != 250*time.Millisecond {
			t.Errorf("got %+v, %v after %v; want the default after 250ms", res, err, took)
		}
		after(2 * time.Second) // LoadTimeout ends the loader
		if got := f.at.Load(); got != 0 {
			t.Errorf("loaders: got %d, want 0", got)
		}
	})
}

// A loader that panics is an error to those who wait for it, and nothing else.
func TestLoaderPanics(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		boom := func(ctx context.Context) (string, error) {
			if ctx.Value(fakeKey{}).(asked).req.PrimaryOnly {
				panic("boom")
			}
			return f.load(ctx)
		}
		_, err := Get(t.Context(), r, Call{Endpoint: "product", Key: "1"}, boom)
		if !errors.Is(err, errUnwound) {
			t.Errorf("got %v", err)
		}
		exit := func(ctx context.Context) (string, error) {
			if ctx.Value(fakeKey{}).(asked).req.PrimaryOnly {
				runtime.Goexit()
			}
			return f.load(ctx)
		}
		if _, err = Get(t.Context(), r, Call{Endpoint: "product", Key: "2"}, exit); !errors.Is(err, errUnwound) {
			t.Errorf("Goexit: got %v", err)
		}
		if res, err := get(t, r, f, "product", "1"); err != nil || res.Source != FromPrimary {
			t.Errorf("afterwards: got %+v, %v", res, err)
		}
		if got := r.Stats().InFallback; got != 0 {
			t.Errorf("fall-back reads: got %d, want 0", got)
		}
	})
}

// REQ-D3: never more than Concurrent at once at the primary.
func TestConcurrentFallBackReads(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget.Concurrent = 3 }, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		f.hold = make(chan struct{})
		var all sync.WaitGroup
		refused := make(chan error, 100)
		for range 100 {
			all.Go(func() {
				if _, err := get(t, r, f, "balance", ""); err != nil {
					refused <- err
				}
			})
		}
		synctest.Wait()
		close(f.hold)
		all.Wait()
		if got := f.peak.Load(); got != 3 || len(refused) != 97 {
			t.Errorf("got %d at once, %d refused; want 3, 97", got, len(refused))
		}
	})
}

// REQ-R17: a full replica is no stale one: the class's policy answers, the mode stays.
func TestSaturationIsNotDegradation(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.saturated.Store(true)
		if res, err := get(t, r, f, "balance", ""); err != nil || res.Source != FromPrimary {
			t.Errorf("critical: got %+v, %v", res, err)
		}
		if _, err := get(t, r, f, "related", ""); !errors.Is(err, ErrShed) {
			t.Errorf("sheddable: got %v", err)
		}
		wantMode(t, r, Normal)
	})
}

// REQ-D4, REQ-D5, REQ-D6: a node that dies under a read is no error of the read: its class's policy answers,
// and what the primary failed with is told.
func TestNodesThatFail(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		t.f.down.Store(true)
		_, err := get(t, t.r, t.f, "balance", "")
		if refused, ok := errors.AsType[*RefusedError](err); !ok || !errors.Is(err, ErrDegraded) || !errors.Is(err, errDown) || refused.RetryAfter() < 2*time.Second {
			t.Errorf("critical: got %v, want a refusal with its cause", err)
		}
		if res, err := get(t, t.r, t.f, "price", "1"); err != nil || res.Value != "unknown" || !res.Stale {
			t.Errorf("degradable: got %+v, %v; want the default", res, err)
		}
		if _, err := get(t, t.r, t.f, "related", ""); !errors.Is(err, ErrShed) {
			t.Errorf("sheddable: got %v, want ErrShed", err)
		}
		if shared := t.r.settings.Load().endpoints["balance"].refused[Critical]; shared.cause != nil {
			t.Errorf("the shared refusal has a cause: %v", shared.cause)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Get(ctx, t.r, Call{Endpoint: "balance"}, t.f.load); !errors.Is(err, errDown) || errors.Is(err, ErrDegraded) {
			t.Errorf("a caller who has gone: got %v, want the error of the load", err)
		}
	})
}

// REQ-D10: a primary that does not answer its samples is not asked, nor waited for, and takes no token.
func TestPrimaryThatIsDown(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 1e-6, Burst: 1, CriticalShare: -1} }, func(t bubble) {
		t.f.eligible.Store(false)
		t.f.lost.Store(true)
		if _, err := get(t, t.r, t.f, "balance", ""); !errors.Is(err, ErrDegraded) {
			t.Errorf("critical: got %v, want ErrDegraded", err)
		}
		if res, err := get(t, t.r, t.f, "price", "1"); err != nil || res.Source != FromDefault {
			t.Errorf("degradable: got %+v, %v; want the default", res, err)
		}
		t.f.lost.Store(false)
		if res, err := get(t, t.r, t.f, "balance", ""); err != nil || res.Source != FromPrimary || t.f.primary.Load() != 1 {
			t.Errorf("it is back: got %+v, %v, and the primary was asked %d times; want it, once", res, err, t.f.primary.Load())
		}
	})
}

// REQ-R14: without a look at the primary the reads that accept it go on; the others find no replica, which
// is no outage of the path.
func TestReadsThatAcceptUnverifiedGoOn(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		t.f.picky.Store(true)
		if res, err := get(t, t.r, t.f, "balance", ""); err != nil || res.Source != FromPrimary {
			t.Errorf("critical: got %+v, %v; want the primary", res, err)
		}
		after(time.Second)
		wantMode(t, t.r, Normal)
		for _, endpoint := range []string{"product", "related"} {
			if res, err := get(t, t.r, t.f, endpoint, "1"); err != nil || res.Source != FromReplica {
				t.Errorf("%s: got %+v, %v; want a replica", endpoint, res, err)
			}
		}
		t.f.degrade()
		after(lookEvery)
		wantMode(t, t.r, Degraded)
	})
}

// REQ-R12, REQ-D7: a read with a position that no replica has replayed goes to the primary, within the budget,
// never to the cache; the mode stays.
func TestReadWithAPosition(t *testing.T) {
	cache := &mapCache{m: map[CacheKey]Entry{}}
	inBubble(t, func(c *Config) { c.Cache, c.Budget = cache, Budget{Rate: 0.001, Burst: 4} }, func(t bubble) {
		r, f := t.r, t.f
		if _, err := get(t, r, f, "product", "1"); err != nil { // in the cache
			t.Fatal(err)
		}
		f.behind.Store(true)
		ctx := replica.WithPosition(t.Context(), replica.Position{SystemID: "7", Timeline: 1, LSN: 7})
		for range 2 {
			res, err := Get(ctx, r, Call{Endpoint: "product", Key: "1"}, f.load)
			if err != nil || res.Source != FromPrimary || res.Stale {
				t.Errorf("got %+v, %v; want the primary", res, err)
			}
		}
		if res, _ := Get(ctx, r, Call{Endpoint: "product", Key: "1"}, f.load); res.Source != FromDefault || !res.Stale {
			t.Errorf("without room: got %+v, want the default, flagged, and not the cache", res)
		}
		wantMode(t, r, Normal)
		if res, err := get(t, r, f, "balance", ""); err != nil || res.Source != FromReplica {
			t.Errorf("without a position: got %+v, %v; want a replica", res, err)
		}
	})
}

// REQ-D12: a call can be more critical than its endpoint, or less.
func TestClassOfACall(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		res, err := Get(t.Context(), r, Call{Endpoint: "related", Class: Critical}, f.load)
		if err != nil || res.Source != FromPrimary {
			t.Errorf("got %+v, %v; want the primary", res, err)
		}
		if _, err = Get(t.Context(), r, Call{Endpoint: "balance", Class: Sheddable}, f.load); !errors.Is(err, ErrShed) {
			t.Errorf("got %v, want ErrShed", err)
		}
	})
}

// REQ-D2: an endpoint that is not registered.
func TestUnknownEndpoint(t *testing.T) {
	for _, class := range []Class{0, Sheddable} {
		inBubble(t, func(c *Config) { c.DefaultClass = class }, func(t bubble) {
			r, f := t.r, t.f
			f.eligible.Store(false)
			_, err := get(t, r, f, "nobody", "")
			if want := []error{ErrUnknownEndpoint, nil, nil, ErrShed}[class]; !errors.Is(err, want) {
				t.Errorf("class %v: got %v, want %v", class, err, want)
			}
			if got := r.Stats().Unknown; got != 1 {
				t.Errorf("unknown: got %d, want 1", got)
			}
			if got := r.Missing("nobody", "balance"); len(got) != 1 || got[0] != "nobody" {
				t.Errorf("missing: got %v", got)
			}
		})
	}
}

// A load's own error is the caller's.
func TestErrorOfALoad(t *testing.T) {
	errQuery := errors.New("syntax error")
	inBubble(t, nil, func(t bubble) {
		r := t.r
		for _, name := range []string{"balance", "product", "related"} {
			_, err := Get(t.Context(), r, Call{Endpoint: name}, func(context.Context) (string, error) { return "", errQuery })
			if !errors.Is(err, errQuery) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		wantMode(t, r, Normal)
	})
}

// A default of another type than the read's is an error that says so.
func TestDefaultOfAnotherType(t *testing.T) {
	inBubble(t, nil, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		_, _ = get(t, r, f, "related", "")
		_, err := Get(t.Context(), r, Call{Endpoint: "banner"}, func(context.Context) (int, error) { return 1, nil })
		if want := `readpath: Endpoints["banner"].Default is a string: the read returns a int; give it that type`; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}
