package readpath

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
