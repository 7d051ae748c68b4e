package readpath

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/breakwater-go/breakwater/replica"
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
	for r.Mode() != Degraded {
		_, _ = Get(context.Background(), r, Call{Endpoint: "balance"}, load) // takes the one token, and finds out
	}
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

// idle is a Backend that does nothing.
type idle struct{}

func (idle) WithRead(ctx context.Context, _ replica.Requirement, _ *ReadInfo) context.Context {
	return ctx
}
func (idle) Eligible(replica.Requirement) bool { return true }
func (idle) Sampled() bool                     { return true }
func (idle) Failed(error) bool                 { return false }

// BenchmarkNormal is what Get adds to a load that costs nothing, over a Backend that costs nothing.
func BenchmarkNormal(b *testing.B) {
	c := testConfig(nil)
	c.Backend = idle{}
	r, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	ctx := context.Background()
	load := func(context.Context) (int, error) { return 7, nil }
	for name, call := range map[string]Call{
		"class=critical":      {Endpoint: "balance"},
		"class=degradable":    {Endpoint: "product", Key: "1"},
		"class=sheddable":     {Endpoint: "related"},
		"class=primary_alone": {Endpoint: "balance", PrimaryOnly: true},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Get(ctx, r, call, load); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
