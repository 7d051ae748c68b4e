package readpath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

func acceptLate(d time.Duration) func(*Config) {
	return func(c *Config) {
		c.Cache = &mapCache{m: map[CacheKey]Entry{}}
		c.Degradable.LateReplicas, c.Budget = d, Budget{Rate: 0.001, Burst: 2}
	}
}

// REQ-D5, REQ-D7: by choice a late replica serves what the cache has not, before the primary is asked, flagged with its
// age; what it answered is in the cache with that age.
func TestLateReplicaServesDegradableReads(t *testing.T) {
	inBubble(t, acceptLate(10*time.Second), func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		f.late.Store(true)
		f.hi.Store(int64(4 * time.Second))
		for _, key := range []string{"", "7"} {
			res, err := get(t, r, f, "product", key)
			want := Result[string]{Value: "r1", Source: FromReplica, Stale: true, Age: 4 * time.Second, Node: "r1"}
			if err != nil || res != want {
				t.Errorf("key %q: got %+v, %v; want %+v", key, res, err, want)
			}
		}
		wantMode(t, r, Degraded)
		after(time.Second)
		res, err := get(t, r, f, "product", "7")
		if want := (Result[string]{Value: "r1", Source: FromCache, Stale: true, Age: 5 * time.Second}); err != nil || res != want {
			t.Errorf("cached: got %+v, %v; want %+v", res, err, want)
		}
		if got := r.Stats(); f.primary.Load() != 0 || got.Late != 2 || got.Reads[Degradable][FromReplica] != 2 {
			t.Errorf("reads of the primary: %d, late: %d, of a replica: %d; want 0, 2, 2", f.primary.Load(), got.Late, got.Reads[Degradable][FromReplica])
		}
	})
}

// REQ-D4, REQ-D6, REQ-R4: neither critical nor sheddable reads get one, nor a read whose limit it exceeds, nor any without that choice.
func TestLateReplicaIsForDegradableReadsByChoice(t *testing.T) {
	for _, limit := range []time.Duration{0, 3 * time.Second} {
		inBubble(t, acceptLate(limit), func(t bubble) {
			r, f := t.r, t.f
			f.eligible.Store(false)
			f.late.Store(true)
			f.hi.Store(int64(4 * time.Second))
			if res, err := get(t, r, f, "product", ""); err != nil || res.Source != FromPrimary {
				t.Errorf("limit %v: got %+v, %v; want the primary", limit, res, err)
			}
		})
	}
	inBubble(t, acceptLate(10*time.Second), func(t bubble) {
		r, f := t.r, t.f
		f.eligible.Store(false)
		f.late.Store(true)
		f.hi.Store(int64(4 * time.Second))
		if res, err := get(t, r, f, "balance", ""); err != nil || res.Source != FromPrimary || res.Stale {
			t.Errorf("critical: got %+v, %v; want the primary", res, err)
		}
		if _, err := get(t, r, f, "related", ""); !errors.Is(err, ErrShed) {
			t.Errorf("sheddable: got %v, want ErrShed", err)
		}
	})
}

// REQ-D5, REQ-D8: the sources in their order: where the late replica has gone, or fails its read, the next ones follow. When it
// has caught up it goes on serving, not flagged, before the class is given back.
func TestAfterTheLateReplica(t *testing.T) {
	inBubble(t, acceptLate(10*time.Second), func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		f.late.Store(true)
		lost := func(ctx context.Context) (string, error) { // as of a node that fails, and no other is left
			if a := ctx.Value(fakeKey{}).(asked); !a.req.PrimaryOnly {
				return "", errors.Join(&replica.NoReplicaError{}, errors.New("reset"))
			}
			return f.load(ctx)
		}
		if res, err := Get(t.Context(), r, Call{Endpoint: "price"}, lost); err != nil || res.Source != FromPrimary {
			t.Errorf("it fails: got %+v, %v; want the primary", res, err)
		}
		errQuery := errors.New("syntax error")
		if _, err := Get(t.Context(), r, Call{Endpoint: "price"}, func(context.Context) (string, error) { return "", errQuery }); !errors.Is(err, errQuery) {
			t.Errorf("the query's own fault: got %v", err)
		}
		f.late.Store(false)
		if res, err := get(t, r, f, "price", ""); err != nil || res.Source != FromDefault || !res.Stale {
			t.Errorf("it is gone: got %+v, %v; want the default", res, err)
		}
		f.eligible.Store(true)
		f.hi.Store(int64(time.Second))
		res, err := get(t, r, f, "price", "")
		if want := (Result[string]{Value: "r1", Source: FromReplica, Age: time.Second, Node: "r1"}); err != nil || res != want {
			t.Errorf("it has caught up: got %+v, %v; want %+v", res, err, want)
		}
		wantMode(t, r, Degraded)
	})
}

// REQ-R12: with a position, the late replica must hold it.
func TestLateReplicaAndPosition(t *testing.T) {
	inBubble(t, acceptLate(10*time.Second), func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		f.late.Store(true)
		ctx := replica.WithPosition(t.Context(), replica.Position{SystemID: "7", Timeline: 1, LSN: 7})
		if res, err := Get(ctx, r, Call{Endpoint: "product", Key: "1"}, f.load); err != nil || res.Source != FromReplica || !res.Stale {
			t.Errorf("it holds it: got %+v, %v; want the late replica", res, err)
		}
		f.behind.Store(true)
		loads := 0
		res, err := Get(ctx, r, Call{Endpoint: "product", Key: "1"}, func(ctx context.Context) (string, error) {
			loads++
			return f.load(ctx)
		})
		if err != nil || res.Source != FromPrimary || loads != 1 { // asked in vain it would wait for the position
			t.Errorf("it does not: got %+v, %v in %d loads; want the primary in 1", res, err, loads)
		}
	})
}
