package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A plan says how much is measured.
type plan struct {
	rounds int
	batch  time.Duration // about what one contender runs at a time
	limit  time.Duration // after it no round begins, but for the first minRounds
}

// minRounds is how many rounds a median needs.
const minRounds = 10

// A figure is what was measured of one contender.
type figure struct {
	contest string
	contender
	one    float64 // ns a call, one goroutine on one processor
	two    float64 // ns of wall time a call, two goroutines on two processors; 0: not measured
	allocs float64 // a call
	calls  int     // of a batch
	rounds int
}

func (f *figure) name() string { return f.contest + "." + f.id }

// An entrant is a contender that is ready to run.
type entrant struct {
	figure
	loops [2]loop // one for each goroutine
	ones  []float64
	twos  []float64
}

// measure runs every contender of every contest in turn, round by round.
func measure(list []contest, p plan) ([]figure, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	entrants, err := enter(list)
	if err != nil {
		return nil, err
	}
	if err := prepare(entrants, p.batch); err != nil {
		return nil, err
	}
	begin := time.Now()
	for i := range p.rounds {
		if i >= minRounds && time.Since(begin) > p.limit {
			break
		}
		if err := round(entrants); err != nil {
			return nil, err
		}
	}
	return figures(entrants), nil
}

func enter(list []contest) ([]*entrant, error) {
	var entrants []*entrant
	for _, c := range list {
		for _, who := range c.contenders {
			e := &entrant{figure: figure{contest: c.id, contender: who}}
			if err := e.setUp(); err != nil {
				return nil, fmt.Errorf("%s: %w", e.name(), err)
			}
			entrants = append(entrants, e)
		}
	}
	return entrants, nil
}

func (e *entrant) setUp() (err error) {
	if e.loops[0], err = e.setup(); err != nil {
		return err
	}
	e.loops[1] = e.loops[0]
	if e.private {
		e.loops[1], err = e.setup()
	}
	return err
}

// prepare sizes the batches and counts what is allocated.
func prepare(entrants []*entrant, batch time.Duration) error {
	runtime.GOMAXPROCS(1)
	for _, e := range entrants {
		if err := e.size(batch); err != nil {
			return err
		}
		if err := e.count(); err != nil {
			return err
		}
	}
	return nil
}

// A batch is never smaller than fewest: what surrounds it would show in its figure. sizings is how many
// batches must have been long enough: one of them may have been interrupted, and then says
// that a few calls are.
const (
	fewest  = 16
	sizings = 8
)

// size doubles the calls of a batch until even the shortest of some lasts long enough.
func (e *entrant) size(batch time.Duration) error {
	for e.calls = fewest; ; e.calls *= 2 {
		lowest, err := e.lowest(sizings)
		if err != nil || lowest*float64(e.calls) >= float64(batch) {
			return err
		}
	}
}

// lowest is the ns of a call in the shortest of some batches.
func (e *entrant) lowest(batches int) (float64, error) {
	lowest := math.Inf(1)
	for range batches {
		ns, err := e.serial()
		if err != nil {
			return 0, err
		}
		lowest = min(lowest, ns)
	}
	return lowest, nil
}

// count takes the lowest of three batches, since the runtime allocates too now and then.
func (e *entrant) count() error {
	var before, after runtime.MemStats
	for i := range 3 {
		goroutines := runtime.NumGoroutine()
		runtime.ReadMemStats(&before)
		good := e.loops[0](e.calls)
		settle(goroutines)
		runtime.ReadMemStats(&after)
		if err := e.judge(good, e.calls); err != nil {
			return err
		}
		if allocs := float64(after.Mallocs-before.Mallocs) / float64(e.calls); i == 0 || allocs < e.allocs {
			e.allocs = allocs
		}
	}
	return nil
}

// round gives each contender a batch on one processor, then some of them one on two.
func round(entrants []*entrant) error {
	runtime.GOMAXPROCS(1)
	for _, i := range rand.Perm(len(entrants)) {
		e := entrants[i]
		ns, err := e.serial()
		if err != nil {
			return err
		}
		e.ones = append(e.ones, ns)
	}
	runtime.GOMAXPROCS(2)
	for _, i := range rand.Perm(len(entrants)) {
		e := entrants[i]
		if !e.parallel {
			continue
		}
		ns, err := e.both()
		if err != nil {
			return err
		}
		e.twos = append(e.twos, ns)
	}
	return nil
}

// serial runs one batch and returns the ns of a call.
func (e *entrant) serial() (float64, error) {
	defer e.collect()
	goroutines := runtime.NumGoroutine()
	e.loops[0](e.calls / 4) // what the others left in the caches is not its fault
	settle(goroutines)
	begin := time.Now()
	good := e.loops[0](e.calls)
	wall := time.Since(begin) + settle(goroutines)
	return float64(wall) / float64(e.calls), e.judge(good, e.calls)
}

// together is how many batches each of two goroutines runs: one would be short beside the
// difference between their starts.
const together = 4

// both runs batches on two goroutines and returns the ns of wall time a call.
func (e *entrant) both() (float64, error) {
	defer e.collect()
	var (
		good       [2]int
		from, to   [2]time.Time
		start      = make(chan struct{})
		ended      sync.WaitGroup
		goroutines = runtime.NumGoroutine()
	)
	for i, run := range e.loops {
		ended.Go(func() {
			<-start
			from[i] = time.Now()
			good[i] = run(together * e.calls)
			to[i] = time.Now()
		})
	}
	close(start)
	ended.Wait()
	wall := slices.MaxFunc(to[:], time.Time.Compare).Sub(slices.MinFunc(from[:], time.Time.Compare)) + settle(goroutines)
	calls := 2 * together * e.calls
	return float64(wall) / float64(calls), e.judge(good[0]+good[1], calls)
}

// yields is how often goroutines that a batch left behind get a chance to end.
const yields = 1000

// settle lets a contender's own goroutines end, and returns how long that took: it belongs to its calls.
func settle(goroutines int) time.Duration {
	if runtime.NumGoroutine() <= goroutines {
		return 0
	}
	begin := time.Now()
	for range yields {
		if runtime.Gosched(); runtime.NumGoroutine() <= goroutines {
			break
		}
	}
	return time.Since(begin)
}

// collect keeps a contender's garbage out of the batches of the others. What it costs is charged to nobody.
func (e *entrant) collect() {
	if e.allocs > 0 {
		runtime.GC()
	}
}

// judge tells a contender that did something else than its contest's work.
func (e *entrant) judge(good, calls int) error {
	if good == calls {
		return nil
	}
	return fmt.Errorf("%s: only %d of %d calls did what the contest is about", e.name(), good, calls)
}

func figures(entrants []*entrant) []figure {
	list := make([]figure, len(entrants))
	for i, e := range entrants {
		e.one, e.two, e.rounds = median(e.ones), median(e.twos), len(e.ones)
		list[i] = e.figure
	}
	return list
}

// median is 0 of nothing.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
