package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// DefaultAwait is how long Set.Await waits by default.
	DefaultAwait = 250 * time.Millisecond
	// leastPause is the least interval between samples of a replica while reads wait, however many.
	leastPause = 10 * time.Millisecond
	// pauseShare is how many times as long as a sample takes the interval is at least, so that
	// a replica under strain is sampled less.
	pauseShare = 10
)

// watch lets reads wait for what the samplers see, and the samplers know that somebody
// waits: they then sample more often, once for all of them (REQ-R16).
type watch struct {
	mu struct {
		sync.Mutex
		waiting int
		changed chan struct{} // closed by the next sample of a replica; nil if nobody asked
	}
}

// enter counts a waiting read in, and tells whether it is the first.
func (w *watch) enter() (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.waiting++
	return w.mu.waiting == 1
}

func (w *watch) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.waiting--
}

func (w *watch) anybody() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.waiting > 0
}

// next returns a channel that the next sample of a replica closes.
func (w *watch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.changed == nil {
		w.mu.changed = make(chan struct{})
	}
	return w.mu.changed
}

// wake is called after a sample was published.
func (w *watch) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.changed != nil {
		close(w.mu.changed)
		w.mu.changed = nil
	}
}

// Await is Pick for a read that may wait until a replica can take it: for replay up to
// r.Position, a first sample, a newer one, a place on a replica that is at its cap. While reads wait, the
// samplers sample each replica every 10 ms, or ten times as long as a sample takes if that is
// more, at most every Settings.Fast, once for all who wait (REQ-R16). A read that Pick would
// admit does not wait, and one with PrimaryOnly never does.
//
// limit bounds the wait. 0: DefaultAwait; negative: no wait. When it has passed, or
// waiting does not help, the error is Pick's own: a *NoReplicaError which says how much is
// missing on each replica and by RetryAfter when it may be there, or a *PositionError. When ctx
// ends first, the error is its cause.
func (s *Set) Await(ctx context.Context, r Requirement, limit time.Duration) (Choice, error) {
	c, err := s.Pick(r)
	if err == nil || limit < 0 || r.PrimaryOnly || !canWait(err) {
		return c, err
	}
	orDefault(&limit, DefaultAwait)
	end := time.NewTimer(limit)
	defer end.Stop()
	s.quicken()
	defer s.watch.leave()
	return s.awaitSample(ctx, &r, end.C)
}

// canWait tells whether a sample, or a read that ends, may bring a replica for a refused read.
func canWait(err error) bool {
	e, ok := errors.AsType[*NoReplicaError](err)
	return ok && (e.has(Behind) || e.has(Saturated) || e.has(Stale) || e.has(NoSample))
}

// quicken counts a waiting read in, and wakes the samplers for the first one.
func (s *Set) quicken() {
	if !s.watch.enter() {
		return
	}
	for _, n := range *s.replicas.Load() {
		if n.hurries() {
			n.demand.nudge()
		}
	}
}

// hurries tells whether a replica is one that waiting reads may yet use.
func (n *node) hurries() bool {
	c := n.view.Load().condition
	return n.admits() && (c == Fit || c == NoSample)
}

// awaitPause is the interval between its samples while reads wait.
func (n *node) awaitPause() time.Duration {
	return max(leastPause, pauseShare*time.Duration(n.view.Load().took))
}

// awaitSample asks again after each sample. Each wait ends by a sample, the limit, the
// caller or the Set's end.
func (s *Set) awaitSample(ctx context.Context, r *Requirement, end <-chan time.Time) (Choice, error) {
	for {
		changed := s.watch.next() // before the look at what is known, so that no sample is missed
		if s.mayTake(r) {
			if c, err := s.Pick(*r); err == nil || !canWait(err) {
				return c, err
			}
		}
		select {
		case <-changed:
		case <-end:
			return s.Pick(*r)
		case <-ctx.Done():
			return Choice{}, context.Cause(ctx)
		case <-s.ctx.Done():
			return Choice{}, ErrClosed
		}
	}
}

// mayTake tells whether it is worth a Pick, whose refusal is not for nothing: a replica has a
// place for the read, or none is left that may have one soon.
func (s *Set) mayTake(r *Requirement) bool {
	st, now, seen, hope := s.settings.Load(), s.now(), s.primarySeen.Load(), false
	for _, n := range *s.replicas.Load() {
		switch {
		case n.Name == r.Except:
		case n.eligible(now, st, r, seen):
			if n.MaxInFlight == 0 || n.inFlight() < n.MaxInFlight {
				return true
			}
			hope = true
		case n.admits():
			c, _ := n.view.Load().check(now, st, r, seen)
			hope = hope || c == Behind || c == NoSample || c == Stale
		}
	}
	return !hope
}

// Position returns the position of the primary as of a look that begins after the call, so
// one that covers every commit acknowledged before. It waits for the sampler's look, which all
// who wait share, and takes no connection of the application's: for who needs
// a position soon but not in the same breath as the commit. It waits for at most two sample
// timeouts. The error matches no sentinel, but for ErrClosed: the primary cannot be sampled,
// or ctx ended.
func (s *Set) Position(ctx context.Context) (Position, error) {
	r, err := s.lookAtPrimary(ctx)
	switch {
	case s.ctx.Err() != nil:
		return Position{}, ErrClosed
	case err != nil:
		return Position{}, fmt.Errorf("replica: no position: %w", err)
	}
	p := Position{SystemID: r.looked.SystemID, Timeline: r.looked.Timeline, LSN: r.looked.Position}
	if p.IsZero() || p.Timeline == 0 {
		return Position{}, errors.New("replica: no position: the driver's look at the primary has no timeline")
	}
	return p, nil
}
