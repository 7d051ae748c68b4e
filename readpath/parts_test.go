package readpath

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A brokenCache panics.
type brokenCache struct{}

func (brokenCache) Get(CacheKey) (Entry, bool) { panic("get") }
func (brokenCache) Set(CacheKey, Entry)        { panic("set") }

// REQ-B18: a Cache that panics is an empty one, an Observer that panics none; both are told.
func TestBrokenParts(t *testing.T) {
	var told [3]atomic.Int64
	inBubble(t, func(c *Config) {
		c.Cache, c.Budget = brokenCache{}, Budget{Rate: 1}
		c.Observer.OnMode = func(ModeChange) { panic("mode") }
		c.Observer.OnOverBudget = func(OverBudget) { panic("over budget") }
		c.Observer.OnFault = func(f Fault) {
			for i, part := range []string{"Cache.Get", "Cache.Set", "OnMode"} {
				if f.Part == part && f.Panic != nil && !f.At.IsZero() {
					told[i].Add(1)
				}
			}
			panic("fault")
		}
	}, func(t bubble) {
		r, f := t.r, t.f
		if res, err := get(t, r, f, "product", "1"); err != nil || res.Source != FromReplica {
			t.Errorf("normal: got %+v, %v", res, err)
		}
		for range 100 {
			_, _ = get(t, r, f, "balance", "")
		}
		after(11 * time.Second) // the rates are looked at
		f.degrade()
		wantMode(t, r, Degraded)
		if res, err := get(t, r, f, "product", "1"); err != nil || res.Source != FromPrimary {
			t.Errorf("degraded: got %+v, %v; want the primary", res, err)
		}
		synctest.Wait()
		if get, set, mode := told[0].Load(), told[1].Load(), told[2].Load(); get != 1 || set != 2 || mode != 1 {
			t.Errorf("told of %d Get, %d Set, %d OnMode; want 1, 2, 1", get, set, mode)
		}
		if got := r.Stats().Faults; got != 10 { // those four, OnOverBudget, and OnFault each time
			t.Errorf("faults: got %d, want 10", got)
		}
	})
}
