package readpath

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// REQ-D3: a read whose caller has gone spends nothing of the primary's budget, and starts no loader.
func TestCallerWhoHasGone(t *testing.T) {
	inBubble(t, func(c *Config) { c.Budget = Budget{Rate: 0.001, Burst: 10} }, func(t bubble) {
		r, f := t.r, t.f
		f.degrade()
		gone, leave := context.WithCancel(t.Context())
		leave()
		for _, c := range []Call{
			{Endpoint: "balance"}, {Endpoint: "balance", PrimaryOnly: true}, {Endpoint: "price"}, {Endpoint: "price", Key: "1"},
		} {
			if _, err := Get(gone, r, c, f.load); !errors.Is(err, context.Canceled) {
				t.Errorf("%+v: got %v, want context.Canceled", c, err)
			}
		}
		synctest.Wait()
		if got, tokens := f.primary.Load(), r.Stats().BudgetTokens; got != 0 || tokens < 10 {
			t.Errorf("got %d reads of the primary and %v tokens, want 0 and 10", got, tokens)
		}
	})
}

// REQ-D5: that a loader was ended, by its LoadTimeout or with the Router, is not the end of those who wait for it.
func TestEndOfALoaderIsNotItsCallers(t *testing.T) {
	for name, end := range map[string]func(r *Router){
		"LoadTimeout": func(*Router) { after(100 * time.Millisecond) },
		"Close":       (*Router).Close,
	} {
		inBubble(t, nil, func(t bubble) {
			r, f := t.r, t.f
			f.degrade()
			f.hold = make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() { _, _ = get(t, r, f, "price", "1") })
			after(r.settings.Load().Degradable.LoadTimeout - 100*time.Millisecond)
			all.Go(func() {
				if res, err := get(t, r, f, "price", "1"); err != nil || res.Source != FromDefault {
					t.Errorf("%s: got %+v, %v; want the default", name, res, err)
				}
			})
			synctest.Wait()
			end(r)
			all.Wait()
			if got := f.primary.Load(); got != 1 {
				t.Errorf("%s: got %d loads, want 1", name, got)
			}
		})
	}
}
