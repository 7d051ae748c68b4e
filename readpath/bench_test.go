package readpath

import (
	"context"
	"sync/atomic"
	"testing"
)

// BenchmarkDegraded is the decision of a degraded read, beside the floor (one atomic load and one atomic
// add) of the same run. The aim is 25 floors or less, and no allocation (REQ-D10).
func BenchmarkDegraded(b *testing.B) {
	f := new(fake)
	f.eligible.Store(false)
	c := testConfig(f)
	c.Budget = Budget{Rate: 1e-6, Burst: 1}
	r, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	load := f.load
	_, _ = Get(context.Background(), r, Call{Endpoint: "balance"}, load) // takes the one token, and finds out
	b.Run("op=floor", func(b *testing.B) {
		b.ReportAllocs()
		var word, cell atomic.Uint64
		for b.Loop() {
			if word.Load() == 0 {
				cell.Add(1)
			}
		}
	})
	for name, endpoint := range map[string]string{"op=refuse": "balance", "op=shed": "related", "op=default": "banner", "op=stale_default": "price"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			for b.Loop() {
				_, _ = Get(ctx, r, Call{Endpoint: endpoint}, load)
			}
		})
	}
}
