package faultsink

import (
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// A Run collects what the emits of a run ended in, by consumer. The zero Run is empty and ready; it must not be copied.
type Run struct {
	mu struct {
		sync.Mutex

		consumers map[string]*tally
	}
}

// A tally is a consumer's part of a run.
type tally struct {
	delivered, stored, failed int
	latencies                 []time.Duration // of all emits
}

func (t tally) emitted() int { return len(t.latencies) }

// quantile is the smallest latency that at least a share q of the emits did not exceed.
func (t tally) quantile(q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(t.latencies))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, ceil(q*float64(len(sorted)))-1)]
}

func ceil(f float64) int {
	n := int(f)
	if float64(n) < f-1e-9 {
		n++
	}
	return n
}

// Add counts an emit to a consumer: how long its emitter waited and what became of the trigger, as its emit.Receipt tells. Where a
// trigger has several consumers its emitter waits for the slowest of them: give each consumer a Type of its own, or measure in its Sink.
func (r *Run) Add(consumer string, latency time.Duration, o emit.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.consumers == nil {
		r.mu.consumers = map[string]*tally{}
	}
	t := r.mu.consumers[consumer]
	if t == nil {
		t = &tally{}
		r.mu.consumers[consumer] = t
	}
	switch o {
	case emit.Delivered:
		t.delivered++
	case emit.Stored:
		t.stored++
	default:
		t.failed++
	}
	t.latencies = append(t.latencies, latency)
}

// snapshot copies what was counted.
func (r *Run) snapshot() map[string]tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]tally, len(r.mu.consumers))
	for name, t := range r.mu.consumers {
		all[name] = *t // what Add appends later lies beyond the length of the copy
	}
	return all
}
