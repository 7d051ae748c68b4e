package flight

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

// Config says what is kept. The zero value works.
type Config struct {
	// MinAge is how far back a snapshot goes at least, where MaxBytes allows it. Default: 5s.
	MinAge time.Duration
	// MaxBytes is about what the recorder holds, and a snapshot has at most. It goes before MinAge. Default: 8 MiB.
	MaxBytes int
	// Keep is how many snapshots are kept, the newest ones. Default: 4.
	Keep int
	// Every is the least time between two of them: breakers that open together make one. Default: 10s.
	Every time.Duration
}

const (
	defaultMinAge   = 5 * time.Second
	defaultMaxBytes = 8 << 20
	defaultKeep     = 4
	defaultEvery    = 10 * time.Second
)

func (c Config) withDefaults() Config {
	setDefault(&c.MinAge, defaultMinAge)
	setDefault(&c.MaxBytes, defaultMaxBytes)
	setDefault(&c.Keep, defaultKeep)
	setDefault(&c.Every, defaultEvery)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) check() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value int64
	}{{"MinAge", int64(c.MinAge)}, {"MaxBytes", int64(c.MaxBytes)}, {"Keep", int64(c.Keep)}, {"Every", int64(c.Every)}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("flight: %s is %d: use a positive value, or 0 for the default", f.name, f.value))
		}
	}
	return errors.Join(errs...)
}

// A Snapshot tells of one that is kept.
type Snapshot struct {
	ID     uint64    `json:"id"` // of the event that made it
	At     time.Time `json:"at"` // of the opening
	Scope  string    `json:"scope"`
	Name   string    `json:"name"` // of the breaker
	Reason string    `json:"reason"`
	Bytes  int       `json:"bytes"`

	data []byte // immutable
}

// A Recorder keeps the newest snapshots. Make it with [Start]: a process can have one.
type Recorder struct {
	config Config // with its defaults; immutable
	write  func(*bytes.Buffer) error
	stop   func()

	mu struct {
		sync.Mutex
		kept  []*Snapshot // oldest first
		newer time.Time   // no snapshot before
	}
}

// Start begins to record. The error names every fault of the Config, or says that the process records already.
func Start(c Config) (*Recorder, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	flights := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: c.MinAge, MaxBytes: uint64(c.MaxBytes)}) //nolint:gosec // it is positive
	if err := flights.Start(); err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	return newRecorder(c, func(b *bytes.Buffer) error {
		_, err := flights.WriteTo(b)
		return err
	}, flights.Stop), nil
}

func newRecorder(c Config, write func(*bytes.Buffer) error, stop func()) *Recorder {
	return &Recorder{config: c, write: write, stop: stop}
}

// Close ends the recording. Call it once, after Run has returned. What is kept can still be had.
func (r *Recorder) Close() { r.stop() }

// Run makes a snapshot where a breaker opens, from now on until ctx ends. A failure is told to the Hub.
func (r *Recorder) Run(ctx context.Context, hub *api.Hub) {
	for after := hub.Last(); ; {
		events, _, err := hub.Next(ctx, after)
		if err != nil {
			return
		}
		for i := range events {
			if err := r.see(ctx, &events[i]); err != nil {
				hub.Fault("flight recorder", err)
			}
			after = events[i].ID
		}
	}
}

// see makes a snapshot if the event is an opening, and it is time for one.
func (r *Recorder) see(ctx context.Context, e *api.Event) error {
	if e.Kind != api.KindTransition || e.To != breaker.Open.String() || !r.due(e.At) {
		return nil
	}
	s := &Snapshot{ID: e.ID, At: e.At, Scope: e.Scope, Name: e.Name}
	if e.Reason != nil {
		s.Reason = e.Reason.Text
	}
	trace.Log(ctx, "breakwater", "opened: "+s.Scope+" "+s.Name) // a mark that the viewer shows
	var b bytes.Buffer
	if err := r.write(&b); err != nil {
		return err
	}
	s.data, s.Bytes = bytes.Clone(b.Bytes()), b.Len() // a buffer may be twice as large
	r.keep(s)
	return nil
}

// due reports whether Every has passed, and begins it anew.
func (r *Recorder) due(at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Before(r.mu.newer) {
		return false
	}
	r.mu.newer = at.Add(r.config.Every)
	return true
}

func (r *Recorder) keep(s *Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.kept = append(r.mu.kept, s)
	if extra := len(r.mu.kept) - r.config.Keep; extra > 0 {
		r.mu.kept = slices.Delete(r.mu.kept, 0, extra)
	}
}

// Snapshots are those that are kept, the newest first.
func (r *Recorder) Snapshots() []Snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Snapshot, 0, len(r.mu.kept))
	for _, s := range slices.Backward(r.mu.kept) {
		all = append(all, *s)
	}
	return all
}
