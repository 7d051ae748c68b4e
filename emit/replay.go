package emit

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A demand is a caller of Replay who waits.
type demand struct {
	f         Filter
	delivered atomic.Uint64
}

// demands are those of one lane.
type demands struct {
	mu struct {
		sync.Mutex
		all     []*demand
		changed chan struct{} // closed when a letter was settled; nil: nobody waits
	}
}

func (d *demands) list() []*demand {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.all // it is replaced and never changed
}

func (d *demands) add(x *demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.all = append(slices.Clone(d.mu.all), x)
}

func (d *demands) remove(x *demand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.all = slices.DeleteFunc(slices.Clone(d.mu.all), func(y *demand) bool { return x == y })
}

// change is closed at the next progress.
func (d *demands) change() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.changed == nil {
		d.mu.changed = make(chan struct{})
	}
	return d.mu.changed
}

func (d *demands) progress() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.changed != nil {
		close(d.mu.changed)
		d.mu.changed = nil
	}
}

// Replay has the letters of a consumer that match f delivered before others, at the pace of the lane (REQ-E6): with f.Parked true
// the parked ones, which it unparks, with false the others, else both. It waits until none of them is left to try, since each was delivered or
// is parked again, or until ctx ends, or the consumer is taken out. It returns how many it has delivered. Letters that come meanwhile
// and match are among them. To go on after an interruption, or another start of the process, call it again: what was delivered is gone.
func (r *Router) Replay(ctx context.Context, consumer string, f Filter) (delivered int, err error) {
	l := r.lane(consumer)
	if l == nil {
		return 0, unknown(consumer)
	}
	parked := f.Parked == nil || *f.Parked
	f.Parked = nil
	d := &demand{f: f}
	l.demands.add(d) // first: what is unparked may be delivered at once
	defer l.demands.remove(d)
	if parked {
		if err := l.unpark(ctx, f); err != nil {
			return 0, err
		}
	}
	for {
		change := l.demands.change()
		l.letters.Store(true)
		l.wake()
		left, err := l.left(ctx, f)
		if l.current.Load().retired && left && err == nil {
			err = unknown(consumer)
		}
		if err != nil || !left {
			return int(d.delivered.Load()), err //nolint:gosec // letters
		}
		select {
		case <-change:
		case <-r.drained:
			return int(d.delivered.Load()), ErrClosed //nolint:gosec // letters
		case <-ctx.Done():
			return int(d.delivered.Load()), ctx.Err() //nolint:gosec // letters
		}
	}
}

func unknown(consumer string) error { return fmt.Errorf("emit: no consumer is named %q", consumer) }

// left reports whether letters wait or are claimed that match.
func (s *state) left(ctx context.Context, f Filter) (bool, error) {
	f.Parked = new(false)
	for _, err := range s.store.Letters(ctx, s.name, f) {
		return err == nil, err
	}
	return false, nil
}

// unpark makes parked letters wait again; of an ordered lane their keys first.
func (s *state) unpark(ctx context.Context, f Filter) error {
	keys := s.keys.Load()
	keys.pin(1)
	defer keys.pin(-1)
	f.Parked = new(true)
	known, err := s.hold(ctx, f)
	if err != nil {
		return err
	}
	n, err := s.store.Unpark(ctx, s.name, f)
	if n > known || s.keys.Load() != keys { // some were parked meanwhile, or it was not ordered before: rather count all twice
		_, _ = s.hold(ctx, Filter{Parked: new(false)})
	}
	s.letters.Store(true)
	s.wake()
	return err
}

// hold has the keys of the letters that match hold later triggers back, and returns how many letters there are. Where a lane is not
// ordered it does nothing.
func (s *state) hold(ctx context.Context, f Filter) (n int, err error) {
	keys := s.keys.Load()
	if keys == nil {
		return math.MaxInt, nil
	}
	for letter, err := range s.store.Letters(ctx, s.name, f) {
		if err != nil {
			return n, err
		}
		keys.comes(letter.Trigger.Key)
		n++
	}
	return n, nil
}

// Letters lists the dead letters of a consumer that match f, in the order in which they came; see [DeadLetters]. Those of one that is
// in Stats.Absent too.
func (r *Router) Letters(ctx context.Context, consumer string, f Filter) iter.Seq2[Letter, error] {
	if store, _ := r.storeOf(consumer); store != nil {
		return store.Letters(ctx, consumer, f)
	}
	return func(yield func(Letter, error) bool) { yield(Letter{}, unknown(consumer)) }
}

// Discard deletes the dead letters of a consumer that match f and are not being delivered just now, and
// returns how many: they count as shed. Those of one that is in Stats.Absent too, uncounted.
func (r *Router) Discard(ctx context.Context, consumer string, f Filter) (int, error) {
	store, s := r.storeOf(consumer)
	if store == nil {
		return 0, unknown(consumer)
	}
	n, err := store.Discard(ctx, consumer, f)
	if s != nil {
		s.count.discarded.Add(uint64(max(n, 0)))
		s.demands.progress()
		s.wake()
	}
	return n, err
}
