package emit_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// noop is a consumer that takes all at once.
var noop = emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })

func benchTrigger() emit.Trigger {
	return emit.Trigger{ID: "0123456789abcdef", Type: "order.paid", Source: "shop", Time: time.Now(), Key: "customer 7", Data: make([]byte, 500)}
}

// BenchmarkEmit is an emit to a consumer that costs nothing: what the lane costs. deadline is what its context costs alone.
func BenchmarkEmit(b *testing.B) {
	for name, c := range map[string]*emit.Config{
		"lane=plain":       {NoLabels: true, Consumers: []emit.Consumer{{Name: "a", Sink: noop}}},
		"lane=labels":      {Consumers: []emit.Consumer{{Name: "a", Sink: noop}}},
		"lane=ordered":     {NoLabels: true, Consumers: []emit.Consumer{{Name: "a", Sink: noop, Ordered: true}}},
		"lane=3_consumers": {NoLabels: true, Consumers: []emit.Consumer{{Name: "a", Sink: noop}, {Name: "b", Sink: noop}, {Name: "c", Sink: noop}}},
	} {
		b.Run(name, func(b *testing.B) {
			r, t, ctx := newRouter(b, *c), benchTrigger(), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = r.Emit(ctx, t)
			}
		})
	}
	b.Run("deadline", func(b *testing.B) {
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithTimeout(ctx, time.Second)
			cancel()
		}
	})
}

func BenchmarkEmitParallel(b *testing.B) {
	r, t := newRouter(b, emit.Config{NoLabels: true, Consumers: []emit.Consumer{{Name: "a", Sink: noop, Bulkhead: 1000}}}), benchTrigger()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, _ = r.Emit(context.Background(), t)
		}
	})
}

// BenchmarkDivert is an emit to a consumer whose breaker is open: into a ring with room, and into a full one, where it is shed.
func BenchmarkDivert(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run("full="+strconv.FormatBool(full), func(b *testing.B) {
			ring := newRing(b, emit.RingConfig{Letters: 1024, Bytes: 1 << 20, Reserved: -1})
			r := newRouter(b, emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: noop, DeadLetters: ring}}})
			if err := r.Breaker("a").Force(breaker.ForcedOpen, "benchmark"); err != nil {
				b.Fatal(err)
			}
			t, ctx := benchTrigger(), b.Context()
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Emit(ctx, t); err != nil != full && n > 1024 {
					b.Fatal(err)
				}
				if n++; n%1024 == 0 && !full {
					_, _ = r.Discard(ctx, "a", emit.Filter{}) // some 20 ns a letter
				}
			}
		})
	}
}

// TestMemoryOfBreakers guards what docs/emit.md says of 50 consumers.
func TestMemoryOfBreakers(t *testing.T) {
	const n = 50
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	ring := newRing(t, emit.RingConfig{Letters: 8, Bytes: 4096})
	config := emit.Config{DeadLetters: ring}
	for i := range n {
		config.Consumers = append(config.Consumers, emit.Consumer{Name: strconv.Itoa(i), Sink: noop})
	}
	before := heap()
	r := newRouter(t, config)
	_, _ = r.Emit(t.Context(), trigger("1"))
	lanes := heap() - before
	var all []*breaker.Breaker
	breakers := func(rules ...breaker.Rule) uint64 {
		before := heap()
		for range n {
			b, err := breaker.New(breaker.Config{Rules: rules})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b)
		}
		return heap() - before
	}
	latency := breakers(breaker.CUSUM{}, breaker.Percentile{}, breaker.FailureRateByTime{})
	failures := breakers(breaker.FailureRateByTime{})
	t.Logf("%d consumers: %d bytes; their breakers %d with a histogram, %d without", n, lanes, latency, failures)
	if lanes > 450_000 || latency > 250_000 || failures > 100_000 {
		t.Errorf("%d consumers take %d bytes, their breakers %d with a histogram and %d without; want at most 450,000, 250,000 and 100,000", n, lanes, latency, failures)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(r)
}
