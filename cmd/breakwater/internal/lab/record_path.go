package lab

import (
	"cmp"
	"maps"
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
)

// pathCounts is what the recorder keeps of the read path. The recorder's lock guards it.
type pathCounts struct {
	fallbacks []fallback
	steps     []readpath.ModeChange
	stepped   []time.Duration // when, on the run's clock
	resumed   resumptions
	usages    []usage // one a second, of the fault
	watching  bool    // the fault runs
	before    int     // most connections to the primary until it
}

// fallback is a read that fell back to the primary: its token was drawn between the two instants.
type fallback struct{ begin, at time.Duration }

// resumptions are the first answers of a replica by class, of reads that began after the path was degraded.
type resumptions struct {
	since time.Duration
	first map[readpath.Class]time.Duration
}

func (p *resumptions) note(a *answer) {
	if _, has := p.first[a.class]; a.class == 0 || has || p.since == 0 || a.begin <= p.since {
		return
	}
	p.first[a.class] = a.end
}

func (p *resumptions) order() []readpath.Class {
	classes := slices.Collect(maps.Keys(p.first))
	slices.SortFunc(classes, func(a, b readpath.Class) int { return cmp.Compare(p.first[a], p.first[b]) })
	return classes
}

// usage is what the process holds at an instant.
type usage struct {
	goroutines int
	heap       uint64 // bytes, live at the last collection
}

func (p *pathCounts) use() {
	if !p.watching {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	p.usages = append(p.usages, usage{runtime.NumGoroutine(), sample[0].Value.Uint64()})
}

// quarter is the least and the most of what was held in a quarter of the fault, counted from 0.
func (p *pathCounts) quarter(i int) (least, most usage) {
	n := len(p.usages)
	for j, u := range p.usages[i*n/4 : (i+1)*n/4] {
		if j == 0 {
			least = u
		}
		least = usage{min(least.goroutines, u.goroutines), min(least.heap, u.heap)}
		most = usage{max(most.goroutines, u.goroutines), max(most.heap, u.heap)}
	}
	return least, most
}

func classOf(m *map[readpath.Class]*BySource, c readpath.Class) *BySource {
	if *m == nil {
		*m = map[readpath.Class]*BySource{}
	}
	if (*m)[c] == nil {
		(*m)[c] = &BySource{}
	}
	return (*m)[c]
}

func (r *recorder) fellBack(begin, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.keep {
		return
	}
	r.mu.path.fallbacks = append(r.mu.path.fallbacks, fallback{begin, at})
}

func (r *recorder) stepped(c readpath.ModeChange, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.mu.path
	if r.keep {
		p.steps, p.stepped = append(p.steps, c), append(p.stepped, at)
	}
	if c.To == readpath.Degraded {
		p.resumed = resumptions{since: at, first: map[readpath.Class]time.Duration{}}
	}
}

// watch says whether the fault runs, during which nothing may grow.
func (r *recorder) watch(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.path.watching = on
}

// faultBegins notes what was before.
func (r *recorder) faultBegins() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.path.before == 0 {
		r.mu.path.before = r.mu.sum.PrimaryConnectionsMax
	}
}

func (r *recorder) ownRead(found, byReplica bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.mu.sum
	s.OwnReads++
	if !found {
		s.OwnMisses++
	}
	if byReplica {
		s.OwnByReplica++
	}
}

// pathLocked tells what happened to the read path.
func (r *recorder) pathLocked(s *Summary) {
	p := &r.mu.path
	s.FallbackReads, s.PrimaryConnectionsBefore = len(p.fallbacks), p.before
	s.Modes, s.RecoveryGaps, s.Resumed = []string{}, []float64{}, p.resumed.order()
	for i, step := range p.steps {
		s.Modes = append(s.Modes, modeWords(step))
		switch {
		case step.To == readpath.Degraded:
			s.RecoveryGaps = []float64{}
		case step.From == readpath.Recovering:
			s.RecoveryGaps = append(s.RecoveryGaps, ms(p.stepped[i]-p.stepped[i-1]))
		}
	}
	_, second := p.quarter(1)
	last, _ := p.quarter(3)
	s.GoroutinesSecond, s.GoroutinesLast = second.goroutines, last.goroutines
	s.HeapSecond, s.HeapLast = mb(second.heap), mb(last.heap)
}

func mb(bytes uint64) float64 { return math.Round(float64(bytes)/1e4) / 100 }

func modeWords(c readpath.ModeChange) string {
	words := []string{c.To.String()}
	if c.To == readpath.Recovering {
		for _, class := range c.Given {
			words = append(words, class.String())
		}
	}
	return strings.Join(words, " ")
}

// tally counts how many do the same at once, by key, and remembers the most; keys are few.
type tally struct {
	mu struct {
		sync.Mutex
		now, most map[string]int
	}
}

func (t *tally) enter(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.now == nil {
		t.mu.now, t.mu.most = map[string]int{}, map[string]int{}
	}
	t.mu.now[key]++
	t.mu.most[key] = max(t.mu.most[key], t.mu.now[key])
}

func (t *tally) leave(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.now[key]--; t.mu.now[key] == 0 {
		delete(t.mu.now, key)
	}
}

// most is the most of a key; "": of any.
func (t *tally) most(key string) (most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, n := range t.mu.most {
		if key == "" || k == key {
			most = max(most, n)
		}
	}
	return most
}

func (r *recorder) fallbacks() []fallback {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.mu.path.fallbacks)
}
