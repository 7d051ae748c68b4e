package replica_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

func benchSet(b *testing.B) *replica.Set {
	b.Helper()
	c := &cluster{t: b}
	cfg := c.config(3)
	cfg.Observer = replica.Observer{}
	set, err := replica.NewSet(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(set.Close)
	if err := set.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	time.Sleep(50 * ms) // let the position of a look reach all views
	return set
}

// BenchmarkPick measures a pick among three replicas with its Done, in rounds interleaved with
// the floor (one atomic load and one atomic add) and with one reading of the clock, which a pick
// cannot do without; x-floor and x-clock are ratios of the medians.
func BenchmarkPick(b *testing.B) {
	set := benchSet(b)
	b.ReportAllocs()
	// Batches of about the same time, short against a time slice, so that work of others
	// on the machine falls on few of them and leaves the medians alone.
	const floorBatch, clockBatch, pickBatch = 20_000, 2_000, 1_000
	begin := time.Now()
	var instant time.Duration
	var word, cell atomic.Uint64
	var floors, clocks, picks []time.Duration
	floor := func() {
		if word.Load() == 0 {
			cell.Add(1)
		}
	}
	pick := func() {
		choice, err := set.Pick(replica.Requirement{})
		if err != nil {
			b.Fatal(err)
		}
		choice.Done(nil)
	}
	for b.Loop() {
		floors = append(floors, timed(floorBatch, floor))
		clocks = append(clocks, timed(clockBatch, func() { instant = time.Since(begin) }))
		picks = append(picks, timed(pickBatch, pick))
	}
	_ = instant
	f, c, p := float64(median(floors))/floorBatch, float64(median(clocks))/clockBatch, float64(median(picks))/pickBatch
	b.ReportMetric(c, "clock-ns")
	b.ReportMetric(p/c, "x-clock")
	b.ReportMetric(f, "floor-ns")
	b.ReportMetric(p, "pick-ns")
	b.ReportMetric(p/f, "x-floor")
}

func timed(n int, f func()) time.Duration {
	begin := time.Now()
	for range n {
		f()
	}
	return time.Since(begin)
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkPickParallel is the same from all processors at once.
func BenchmarkPickParallel(b *testing.B) {
	set := benchSet(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if choice, err := set.Pick(replica.Requirement{}); err == nil {
				choice.Done(nil)
			}
		}
	})
}
