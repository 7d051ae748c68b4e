package faultsink

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// add counts n emits of a latency.
func add(r *Run, consumer string, n int, d time.Duration, o emit.Outcome) {
	for range n {
		r.Add(consumer, d, o)
	}
}

func TestIsolation(t *testing.T) { // REQ-E13
	const ms = time.Millisecond
	for name, tc := range map[string]struct {
		change func(without, with *Run, i *Isolation)
		want   []string // findings; none: it holds
	}{
		"holds":          {func(_, _ *Run, _ *Isolation) {}, nil},
		"slow by ratio":  {func(_, w *Run, _ *Isolation) { add(w, "b", 10, 9*ms, emit.Delivered) }, []string{"b: the latency grew from 4ms to 9ms"}},
		"within slack":   {func(_, w *Run, i *Isolation) { add(w, "b", 10, 9*ms, emit.Delivered); i.Slack = 5 * ms }, nil},
		"a diverted one": {func(_, w *Run, _ *Isolation) { w.Add("b", ms, emit.Stored) }, []string{"b: 1 diverted and 0 failed with the fault"}},
		"a failed one":   {func(_, w *Run, _ *Isolation) { w.Add("b", ms, emit.Refused) }, []string{"b: 0 diverted and 1 failed with the fault"}},
		"ill before":     {func(o, _ *Run, _ *Isolation) { o.Add("b", ms, emit.Refused) }, []string{"b: 0 diverted and 1 failed without the fault"}},
		"starved":        {func(o, _ *Run, _ *Isolation) { add(o, "b", 500, ms, emit.Delivered) }, []string{"b: only 200 emits with the fault, after 700"}},
		"vanished": {func(o, _ *Run, _ *Isolation) { add(o, "c", 200, ms, emit.Delivered) }, []string{
			"c: 0 emits with the fault are too few", "c: only 0 emits with the fault, after 200",
		}},
		"too few": {func(_, w *Run, i *Isolation) { i.Quantile = 0.999 }, []string{
			"b: 200 emits without the fault are too few to judge by: 1000", "b: 200 emits with the fault are too few to judge by: 1000",
		}},
		"no fault": {func(_, w *Run, i *Isolation) { i.Faulty = []string{"x"} }, []string{"a: 100 diverted", "x: nothing of its fault"}},
		"only slow": {func(o, w *Run, i *Isolation) {
			add(o, "x", 99, ms, emit.Delivered)
			add(w, "x", 9, 99*ms, emit.Delivered)
			i.Faulty = append(i.Faulty, "x")
		}, nil},
		"zero Isolation": {func(_, _ *Run, i *Isolation) { *i = Isolation{Quantile: 1, Slack: -1} }, []string{"Faulty is empty", "MaxRatio is 0", "Quantile is 1", "Slack is -1"}},
	} {
		var without, with Run
		add(&without, "a", 200, 4*ms, emit.Delivered)
		add(&with, "a", 100, 4*ms, emit.Stored)
		add(&without, "b", 200, 4*ms, emit.Delivered)
		add(&with, "b", 200, 5*ms, emit.Delivered)
		i := Isolation{Faulty: []string{"a"}, MaxRatio: 2}
		tc.change(&without, &with, &i)
		r := i.Check(&without, &with)
		if (r.Err() == nil) != (len(tc.want) == 0) {
			t.Errorf("%s: got %v", name, r)
		}
		for _, want := range tc.want {
			if !strings.Contains(strings.Join(r.Findings, "\n"), want) {
				t.Errorf("%s: %q is not in %v", name, want, r)
			}
		}
		if exact := name != "no fault" && name != "zero Isolation"; exact && len(r.Findings) != len(tc.want) {
			t.Errorf("%s: got %d findings, want %d: %v", name, len(r.Findings), len(tc.want), r)
		}
	}
}

func TestQuantile(t *testing.T) {
	var a tally
	for n := range 100 {
		a.latencies = append(a.latencies, time.Duration(100-n))
	}
	for q, want := range map[float64]time.Duration{0.01: 1, 0.5: 50, 0.99: 99, 0.999: 100} {
		if got := a.quantile(q); got != want {
			t.Errorf("%v: got %d, want %d", q, got, want)
		}
	}
}

func TestRunIsSafe(t *testing.T) {
	var r Run
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { add(&r, "a", 100, 1, emit.Delivered) })
		all.Go(func() { r.snapshot() })
	}
	all.Wait()
	if got := r.snapshot()["a"]; got.emitted() != 800 || got.delivered != 800 {
		t.Errorf("got %d", got.emitted())
	}
}
