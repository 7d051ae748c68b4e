package emitlab

import (
	"context"
	"maps"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
)

// lookEvery is how often it is looked whether the counts add up.
const lookEvery = 100 * time.Millisecond

// watch is what is noted of a run besides its emits. Its methods may be called from any goroutine.
type watch struct {
	mu struct {
		sync.Mutex
		first, last  time.Duration // end of the first emit, and of the last
		began        time.Duration // begin of the first
		worst        time.Duration // how late a trigger was sent
		consumers    float64       // how late a consumer ended a call, ms
		faults       int
		misplaced    int
		checks, odds int
		usages       []usage // while the outage lasts
		accounts     accounts
	}
}

// usage is what the process held.
type usage struct {
	goroutines int
	heap       uint64 // bytes, live at the last collection
}

func (w *watch) stalled(late time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.worst = max(w.mu.worst, late)
}

func (w *watch) consumerStalled(ms float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.consumers = max(w.mu.consumers, rounded(ms))
}

func (w *watch) emitted(began, ended time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.first == 0 {
		w.mu.first, w.mu.began = ended, began
	}
	w.mu.last = max(w.mu.last, ended)
}

func (w *watch) fault() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.faults++
}

func (w *watch) misplaced() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.misplaced++
}

func (w *watch) checked(held bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.checks++
	if !held {
		w.mu.odds++
	}
}

func (w *watch) use() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.usages = append(w.mu.usages, usage{runtime.NumGoroutine(), sample[0].Value.Uint64()})
}

// quarter is the least and the most that was held in a quarter of the outage.
func (w *watch) quarter(n int) (least, most usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.mu.usages[len(w.mu.usages)*(n-1)/4 : len(w.mu.usages)*n/4]
	if len(all) == 0 {
		return usage{}, usage{}
	}
	least = all[0]
	for _, u := range all {
		least = usage{min(least.goroutines, u.goroutines), min(least.heap, u.heap)}
		most = usage{max(most.goroutines, u.goroutines), max(most.heap, u.heap)}
	}
	return least, most
}

// look checks that the counts add up, until ctx ends.
func (r *run) look(ctx context.Context) {
	lab.Every(ctx, lookEvery, func() {
		r.balance()
		if r.in() == during {
			r.watch.use()
		}
		for _, t := range r.targets {
			if report, err := t.process.Report(false); err == nil && r.in() != warmup {
				r.watch.consumerStalled(report.WorstStall)
			}
		}
	})
}

// balance compares what the library counts with what was emitted: not less than what had ended before, nor more than what has begun since.
func (r *run) balance() {
	ended := map[string]int{}
	for _, t := range r.targets {
		ended[t.name], _ = t.counts()
	}
	stats := r.path.stats()
	for i := range stats {
		_, begun := r.target(stats[i].Name).counts()
		r.watch.checked(addsUp(stats[i], ended[stats[i].Name], begun))
	}
}

// addsUp is REQ-E14. Counts never overflow to a large number.
func addsUp(s emit.ConsumerStats, ended, begun int) bool {
	sum := s.Delivered + s.Stored + s.Shed + s.Refused
	return sum == s.Emitted && s.Emitted >= uint64(ended) && s.Emitted <= uint64(begun) && //nolint:gosec // not negative
		max(s.Delivered, s.Stored, s.Shed, s.Refused) <= s.Emitted
}

const redraw = 250 * time.Millisecond

// seconds tells each second, and more often how things stand.
func (r *run) seconds(ctx context.Context) {
	last, i := SecondLine{}, 0
	replayed := map[string]uint64{}
	lab.Every(ctx, redraw, func() {
		if i++; i%int(time.Second/redraw) == 0 {
			last = r.secondLine(replayed)
			r.tell(last)
		}
		if r.live != nil {
			r.live(Live{Policy: r.policy, Second: r.stand(last)})
		}
	})
}

// stand is a second with the states of now.
func (r *run) stand(l SecondLine) SecondLine {
	l.Consumers = maps.Clone(l.Consumers)
	for name, c := range l.Consumers {
		c.State = r.target(name).state()
		l.Consumers[name] = c
	}
	return l
}

// secondLine is the second that ended; replayed holds the counts at its begin.
func (r *run) secondLine(replayed map[string]uint64) SecondLine {
	l := SecondLine{Head: r.head("second"), Consumers: map[string]SecondConsumer{}}
	stats := r.path.stats()
	for _, t := range r.targets {
		s := t.endSecond()
		took := sorted(s.took)
		c := SecondConsumer{
			Emitted: s.emitted, Delivered: s.by[emit.Delivered], Stored: s.by[emit.Stored], Shed: s.by[emit.Shed], Refused: s.by[emit.Refused],
			P50: took.percentile(0.50), P99: took.percentile(0.99), State: t.state(),
		}
		if i := slices.IndexFunc(stats, func(s emit.ConsumerStats) bool { return s.Name == t.name }); i >= 0 {
			c.InFlight, c.Letters = stats[i].InFlight, stats[i].Depth.Letters
			c.Replayed, replayed[t.name] = int(stats[i].Replayed-replayed[t.name]), stats[i].Replayed //nolint:gosec // of a second
		}
		l.Consumers[t.name] = c
		l.Emitted += c.Emitted
	}
	return l
}

func (t *target) state() breaker.State {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.mu.moves); n > 0 {
		return t.mu.moves[n-1].to
	}
	return breaker.Closed
}

var _ lab.Line = SecondLine{}
