package prombreakwater

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// A source is a part that is asked at each scrape.
type source struct {
	name string // the label of breakwater_source_up
	read func(*report)
}

const pathPrefix = "path "

func (s source) isPath() bool { return strings.HasPrefix(s.name, pathPrefix) }

// A report is what a source tells at one scrape.
type report struct {
	*carry
	label    labeller
	samples  []sample
	breakers []guarded // for the metrics that know no scope
	dropped  int
	parts    Parts // of the source "parts"
	degraded bool  // of a read path
}

// guarded is a breaker of whatever scope, with its labels.
type guarded struct {
	scope, name    string
	state          breaker.State
	failures, fast float64
}

func (r *report) add(f *family, v float64, labels ...string) {
	s, ok := f.sample(v, labels...)
	if !ok {
		r.dropped += int(number(f != nil))
		return
	}
	r.samples = append(r.samples, s)
}

// count adds a counter that never goes back, and returns what it says.
func (r *report) count(f *family, owner any, v float64, labels ...string) float64 {
	if f == nil {
		return v
	}
	v = r.carry.count(f.key(labels), owner, v)
	r.add(f, v, labels...)
	return v
}

// histogram adds one that never goes back.
func (r *report) histogram(f *family, owner any, h *emit.Histogram, labels ...string) {
	key, buckets := f.key(labels), map[float64]uint64{}
	told := func(i int) uint64 {
		return uint64(r.carry.count(key+"\xff"+strconv.Itoa(i), owner, float64(h.Counts[i])))
	}
	bounds := emit.LatencyBounds()
	for i, bound := range bounds {
		buckets[bound.Seconds()] = told(i)
	}
	sum := r.carry.count(key, owner, h.Sum.Seconds())
	m, err := prometheus.NewConstHistogram(f.desc, told(len(bounds)), sum, buckets, labels...)
	if err == nil {
		r.samples = append(r.samples, sample{key, m})
	}
}

// A flight is a source being asked. Scrapes that come meanwhile share its report.
type flight struct {
	done   chan struct{}
	report *report // nil: it panicked; read after done
}

// flights are the sources being asked, and what is remembered of each between scrapes.
type flights struct {
	mu struct {
		sync.Mutex
		under   map[string]*flight
		carries map[string]*carry
	}
	label labeller
}

func newFlights(l labeller) *flights {
	f := &flights{label: l}
	f.mu.under, f.mu.carries = map[string]*flight{}, map[string]*carry{}
	return f
}

// begin asks a source, unless it is being asked.
func (f *flights) begin(s source) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.mu.under[s.name]; t != nil {
		return t
	}
	if f.mu.carries[s.name] == nil {
		f.mu.carries[s.name] = newCarry()
	}
	t := &flight{done: make(chan struct{})}
	f.mu.under[s.name] = t
	go f.fly(s, t, f.mu.carries[s.name])
	return t
}

// fly asks a source, on the flight's goroutine. Goexit counts as a panic.
func (f *flights) fly(s source, t *flight, c *carry) {
	r := &report{carry: c, label: f.label}
	var fine bool
	defer func() {
		_ = recover() // source_up tells; what a panic holds may be a secret
		if fine {
			c.sweep()
			t.report = r
		}
		f.mu.Lock()
		delete(f.mu.under, s.name)
		f.mu.Unlock()
		close(t.done)
	}()
	s.read(r)
	fine = true
}

// wait is the report of a flight; nil if it panicked or ctx ended first.
func (t *flight) wait(ctx context.Context) *report {
	select {
	case <-t.done:
		return t.report
	default:
	}
	select {
	case <-t.done:
		return t.report
	case <-ctx.Done():
		return nil
	}
}

// keep forgets what is remembered of sources that are not among these.
func (f *flights) keep(sources []source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.mu.carries, func(name string, _ *carry) bool {
		return !slices.ContainsFunc(sources, func(s source) bool { return s.name == name })
	})
}

// drain waits for the flights under way.
func (f *flights) drain(ctx context.Context) error {
	f.mu.Lock()
	var under []*flight
	for _, t := range f.mu.under {
		under = append(under, t)
	}
	f.mu.Unlock()
	for _, t := range under {
		select {
		case <-t.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
