package faultsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// ErrFault matches the error of a call that Faults made fail.
var ErrFault = errors.New("faultsink: failed on purpose")

// Config sets up a Sink. The zero Config is a consumer that is well.
type Config struct {
	// Seed is that of the random numbers.
	Seed uint64
	// Faults are those to begin with; Set changes them. Default: none.
	Faults Faults
	// Next is called for what Faults let pass, so that a real sink can be made ill. Default: the trigger counts as taken.
	Next emit.Sink
	// Remember is how many deliveries are remembered for Duplicates, Disordered and Taken, 1 to 100,000,000. Those after it are
	// counted as Forgotten. Default: 100,000.
	Remember int
}

const (
	defaultRemember = 100_000
	maxRemember     = 100_000_000
)

// A Sink delivers to nobody, or to Config.Next, and meets faults. Make it with [New]; it must not be copied.
type Sink struct {
	next     emit.Sink // immutable, may be nil
	remember int       // immutable

	mu struct {
		sync.Mutex

		faults  Faults
		random  *rand.Rand
		release chan struct{} // closed by Release, which makes a new one
		stats   Stats
		seen    map[string]bool      // IDs taken
		newest  map[string]time.Time // of each key: the newest Time taken
		taken   []record             // in order
	}
}

type record struct{ key, id string }

// New makes a Sink. The error names every fault of the Config.
func New(c Config) (*Sink, error) {
	err := c.Faults.check()
	if c.Remember < 0 || c.Remember > maxRemember {
		err = errors.Join(err, fmt.Errorf("faultsink: Remember is %d: use 1 to 100000000, or 0 for 100000", c.Remember))
	}
	if err != nil {
		return nil, err
	}
	s := &Sink{next: c.Next, remember: c.Remember}
	if s.remember == 0 {
		s.remember = defaultRemember
	}
	s.mu.faults, s.mu.random = c.Faults, rand.New(rand.NewPCG(c.Seed, 0))
	s.mu.release = make(chan struct{})
	s.mu.seen, s.mu.newest = map[string]bool{}, map[string]time.Time{}
	return s, nil
}

// Set changes the faults of calls that begin from now on. Calls that hang go on hanging: see Release. The error names every fault
// of f, and nothing is changed then.
func (s *Sink) Set(f Faults) error {
	if err := f.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.faults = f
	return nil
}

// Release lets the calls that hang now go on: they succeed.
func (s *Sink) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mu.release)
	s.mu.release = make(chan struct{})
}

// A lot is what was drawn for a call.
type lot struct {
	latency time.Duration
	fate    fate
	release <-chan struct{}
	later   time.Duration
}

// Deliver meets the faults, then calls Config.Next. It panics where Faults say so.
func (s *Sink) Deliver(ctx context.Context, t emit.Trigger) error {
	l := s.begin()
	end := &s.mu.stats.Panicked // also of a panic of Next
	defer func() { s.end(end) }()
	if err := l.wait(ctx); err != nil {
		end = &s.mu.stats.Ended
		return err
	}
	switch l.fate {
	case panics:
		panic("faultsink: panicked on purpose")
	case rejects:
		end = &s.mu.stats.Rejected
		return fmt.Errorf("faultsink: on purpose: %w", emit.ErrRejected)
	case fails:
		end = &s.mu.stats.Failed
		return l.failure()
	default: // it succeeds, or hung and was released
	}
	if err := s.pass(ctx, t); err != nil {
		end = &s.mu.stats.NextFailed
		return err
	}
	s.took(t)
	end = &s.mu.stats.Delivered
	return nil
}

// pass hands t to Config.Next.
func (s *Sink) pass(ctx context.Context, t emit.Trigger) error {
	if s.next == nil {
		return nil
	}
	return s.next.Deliver(ctx, t)
}

// begin counts a call and draws its lot: always three numbers, so that other Faults shift none.
func (s *Sink) begin() lot {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &s.mu.stats
	st.Received++
	st.InFlight++
	st.Peak = max(st.Peak, st.InFlight)
	f := s.mu.faults
	kind, slow, u := s.mu.random.Float64(), s.mu.random.Float64(), s.mu.random.Float64()
	l := lot{latency: f.Latency.draw(slow, u), fate: f.fate(kind), later: f.RetryAfter}
	if l.fate == hangs {
		st.Hung++
		l.release = s.mu.release
	}
	return l
}

func (s *Sink) end(count *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stats.InFlight--
	*count++
}

// wait takes the time of a call, and hangs if it is to hang.
func (l lot) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("faultsink: %w", err)
	}
	if l.latency > 0 {
		timer := time.NewTimer(l.latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return fmt.Errorf("faultsink: slow: %w", ctx.Err())
		}
	}
	if l.fate != hangs {
		return nil
	}
	select {
	case <-l.release:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("faultsink: hung: %w", ctx.Err())
	}
}

func (l lot) failure() error {
	if l.later > 0 {
		return &emit.LaterError{After: l.later, Err: ErrFault}
	}
	return ErrFault
}

// took remembers a delivery.
func (s *Sink) took(t emit.Trigger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.mu
	if len(m.taken) == s.remember {
		m.stats.Forgotten++
		return
	}
	m.taken = append(m.taken, record{t.Key, t.ID})
	switch newest, known := m.newest[t.Key]; {
	case t.ID != "" && m.seen[t.ID]:
		m.stats.Duplicates++
		return
	case t.Key == "":
	case known && t.Time.Before(newest):
		m.stats.Disordered++
	default:
		m.newest[t.Key] = t.Time
	}
	m.seen[t.ID] = true
}

// Stats are the counts of a Sink. Received is InFlight and Delivered, Failed, Rejected, Panicked, Ended and NextFailed.
type Stats struct {
	Received   uint64 // calls
	InFlight   uint64 // calls that have not ended
	Peak       uint64 // the most that were in flight at a time
	Delivered  uint64
	Failed     uint64 // on purpose
	Rejected   uint64 // on purpose
	Panicked   uint64 // on purpose, or Next did
	Ended      uint64 // by their context, in their latency or hanging
	NextFailed uint64 // by what Next answered
	Hung       uint64 // calls that were told to hang; how they ended is counted above
	Duplicates uint64 // deliveries of an ID that had been delivered before
	Disordered uint64 // first deliveries whose Time is before one of their key that was delivered earlier
	Forgotten  uint64 // deliveries over Config.Remember, which neither Duplicates nor Disordered know
}

// Stats returns the counts of one moment.
func (s *Sink) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stats
}

// Taken lists the IDs that were delivered, in order and with duplicates: of a key, "" being that of triggers without one.
func (s *Sink) Taken(key string) (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.mu.taken {
		if r.key == key {
			ids = append(ids, r.id)
		}
	}
	return slices.Clip(ids)
}
