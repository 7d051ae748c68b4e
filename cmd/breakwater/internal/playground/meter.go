package playground

import (
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/readpath"
)

// Of reads without an answer: words beside the sources.
const (
	shed   = "shed"
	failed = "failed"
)

// sample is one read or emit.
type sample struct {
	took    time.Duration
	what    string // a read's source, an emit's outcome
	of      string // the node that answered, the consumer
	class   readpath.Class
	stale   bool // not flagged so
	flagged bool
	good    bool // a read with an answer; an emit that was delivered at once
}

// counts are those of a time.
type counts struct {
	all, good, stale int
	what             map[string]int
	critical         int // flagged answers of critical reads
	took             lab.Durations
	longest          time.Duration
	of               map[string]*counts // by node or consumer; nil in these themselves
}

func newCounts() *counts {
	return &counts{what: map[string]int{}, of: map[string]*counts{}}
}

func (c *counts) add(s sample) {
	c.all++
	if s.good {
		c.good++
	}
	if s.stale {
		c.stale++
	}
	if s.class == readpath.Critical && s.flagged {
		c.critical++
	}
	c.what[s.what]++
	c.took.Add(s.took)
	c.longest = max(c.longest, s.took)
	if c.of == nil || s.of == "" {
		return
	}
	one := c.at(s.of)
	one.add(s)
	c.of[s.of] = one
}

// at are those of a node or a consumer.
func (c *counts) at(name string) *counts {
	if one := c.of[name]; one != nil {
		return one
	}
	return &counts{what: map[string]int{}}
}

// percentile is one of how long they took, in ms; 0 where there were none.
func (c *counts) percentile(part float64) float64 {
	if p := c.took.Percentiles(part)[0]; p != nil {
		return *p
	}
	return 0
}

// meter counts samples by the second and, where somebody measures, since then. The zero value is ready.
type meter struct {
	mu struct {
		sync.Mutex
		second, window *counts
	}
}

func (m *meter) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.second == nil {
		m.mu.second = newCounts()
	}
	m.mu.second.add(s)
	if m.mu.window != nil {
		m.mu.window.add(s)
	}
}

// endSecond returns what was counted since it was last called.
func (m *meter) endSecond() *counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.mu.second
	m.mu.second = newCounts()
	if c == nil {
		c = newCounts()
	}
	return c
}

// open begins a measurement, shut ends it.
func (m *meter) open() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.window = newCounts()
}

func (m *meter) shut() *counts {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.mu.window
	m.mu.window = nil
	if c == nil {
		c = newCounts()
	}
	return c
}

// traffic is a second as the interface shows it.
func traffic(reads, emits *counts) *api.Traffic {
	t := &api.Traffic{
		ReadsPerSec: float64(reads.all), BySource: map[string]float64{},
		P50MS: reads.percentile(0.50), P95MS: reads.percentile(0.95), P99MS: reads.percentile(0.99), StalePerSec: float64(reads.stale),
		EmitsPerSec: float64(emits.all), EmitP99MS: emits.percentile(0.99), EmitDelivered: float64(emits.good),
	}
	for _, what := range []string{"replica", "primary", "cache", "default", shed, failed} {
		t.BySource[what] = float64(reads.what[what])
	}
	return t
}

// happened remembers, while somebody measures, the steps of the read path's mode, the first opening of each breaker, and
// the first read that was sent to a node which did not answer.
type happened struct {
	mu struct {
		sync.Mutex
		watched bool
		steps   []readpath.ModeChange
		trips   map[string]breaker.Transition // by node or consumer
		hit     *lab.Answer
	}
}

// mode is an observer that remembers besides telling next.
func (h *happened) mode(next func(readpath.ModeChange)) func(readpath.ModeChange) {
	return func(c readpath.ModeChange) {
		h.mu.Lock()
		if h.mu.watched {
			h.mu.steps = append(h.mu.steps, c)
		}
		h.mu.Unlock()
		if next != nil {
			next(c)
		}
	}
}

// transition is the same for breakers.
func (h *happened) transition(next func(breaker.Transition)) func(breaker.Transition) {
	return func(t breaker.Transition) {
		h.mu.Lock()
		if _, has := h.mu.trips[t.Name]; h.mu.watched && !has && t.To == breaker.Open {
			h.mu.trips[t.Name] = t
		}
		h.mu.Unlock()
		if next != nil {
			next(t)
		}
	}
}

func (h *happened) open() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.watched, h.mu.steps, h.mu.trips, h.mu.hit = true, nil, map[string]breaker.Transition{}, nil
}

// answered looks at a read.
func (h *happened) answered(a lab.Answer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.watched && h.mu.hit == nil && (a.Attempts > 1 || a.Err != nil || a.Took >= waited) {
		h.mu.hit = &a
	}
}

// hit is the read that was sent to a node which did not answer; nil: there was none yet.
func (h *happened) hit() *lab.Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.hit
}

// trip is the first opening; false: there was none.
func (h *happened) trip(name string) (breaker.Transition, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.mu.trips[name]
	return t, ok
}

func (h *happened) shut() []readpath.ModeChange {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.watched = false
	return h.mu.steps
}
