package breaker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Every duration lies within 1.6 % of what its cell stands for, or 2.05 µs if that is more.
func TestHistogramCells(t *testing.T) {
	last := -1
	for d := time.Microsecond; d < 2*time.Minute; d += d/100 + 1 {
		cell := histogramCell(d)
		if cell < last || cell > last+1 && last >= 0 {
			t.Fatalf("%v: cell %d after %d", d, cell, last)
		}
		last = cell
		if off := (cellMiddle(cell) - d).Abs(); off > max(d*16/1000, 2050) {
			t.Fatalf("%v: cell %d stands for %v, off by %v", d, cell, cellMiddle(cell), off)
		}
	}
	for _, d := range []time.Duration{-time.Hour, 0, 1, time.Microsecond, time.Hour, longestDuration} {
		if cell := histogramCell(d); cell < 0 || cell >= histogramCells {
			t.Errorf("%v: cell %d", d, cell)
		}
	}
}

// The percentiles are those of a sorted list, but for the width of a cell.
func TestHistogramPercentiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 100, 10_000} {
		h, ds := new(histogram), []time.Duration(nil)
		for range n {
			d := time.Duration(float64(ms) * (1 + 100*r.ExpFloat64()))
			h.record(d, 1)
			ds = append(ds, d)
		}
		slices.Sort(ds)
		var read reading
		h.read(&read)
		got := read.since(nil)
		if got.Calls != uint64(n) {
			t.Errorf("n %d: got %d calls", n, got.Calls)
		}
		for _, p := range []struct {
			percent int
			got     time.Duration
		}{{50, got.P50}, {95, got.P95}, {99, got.P99}} {
			want := ds[(n*p.percent+99)/100-1]
			if off := float64(p.got-want) / float64(want); off > 0.016 || off < -0.016 {
				t.Errorf("n %d, P%d: got %v, want %v", n, p.percent, p.got, want)
			}
		}
	}
}

// Stats.Latency tells of the last 10 to 20 s, for whoever asks at least every 10 s.
func TestLatencyOfTheLastSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Histogram: true})
		calls := func(n int, d time.Duration) {
			ps := startN(t, b, n)
			after(d)
			doneAll(ps, nil)
		}
		if l := b.Stats().Latency; l != (Latency{}) {
			t.Errorf("at first: got %+v", l)
		}
		calls(99, 10*ms)
		calls(1, 500*ms)
		l := b.Stats().Latency
		if l.Calls != 100 || l.P50.Round(ms) != 10*ms || l.P99.Round(ms) != 10*ms || l.Span != 510*ms {
			t.Errorf("got %+v", l)
		}
		for range 4 {
			after(8 * time.Second)
			calls(10, 20*ms)
			l = b.Stats().Latency
		}
		if l.Calls == 0 || l.Calls > 30 || l.P99.Round(ms) != 20*ms || l.Span < 10*time.Second || l.Span > 25*time.Second {
			t.Errorf("later: got %+v", l)
		}
	})
	if l := mustNew(t, Config{}).Stats().Latency; l != (Latency{}) {
		t.Errorf("without a measure: got %+v", l)
	}
}
