package emitmodel_test

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

const (
	maxLetters = 6
	reserved   = 1
)

// A disk is a store that survives its process: each process sees it through a view, which a crash makes blind.
type disk struct {
	mu      sync.Mutex
	ring    *emit.Ring
	claimed map[uint64]bool
	dropped map[string]bool // IDs of what was evicted or discarded: a process that is killed may have had no time to tell
	epoch   int
}

func newDisk() *disk {
	return &disk{ring: newRing(), claimed: map[uint64]bool{}, dropped: map[string]bool{}}
}

func newRing() *emit.Ring {
	r, err := emit.NewRing(emit.RingConfig{Letters: maxLetters, Bytes: 64 << 10, Reserved: reserved})
	if err != nil {
		panic(err)
	}
	return r
}

// crash blinds the views of before, and gives claimed letters back with an attempt that crashed (REQ-E7).
func (d *disk) crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.epoch++
	next := newRing()
	for l, err := range d.ring.Letters(context.Background(), consumer, emit.Filter{}) {
		if err != nil {
			panic(err)
		}
		if d.claimed[l.Seq] {
			l.Attempts++
			l.Last = append(l.Last, emit.Attempt{At: time.Now(), Err: emit.AttemptCrashed})
		}
		if _, err := next.Append(context.Background(), l); err != nil {
			panic(err)
		}
	}
	d.ring, d.claimed = next, map[uint64]bool{}
}

// A view is one process's.
type view struct {
	*disk
	epoch int
}

func (d *disk) open() *view {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &view{disk: d, epoch: d.epoch}
}

// in runs f on the ring, unless the process has crashed.
func (v *view) in(f func(*emit.Ring) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.epoch != v.disk.epoch {
		return emit.ErrStoreClosed
	}
	return f(v.ring)
}

func (v *view) Append(ctx context.Context, l emit.Letter) (evicted []emit.Letter, err error) {
	err = v.in(func(r *emit.Ring) (err error) {
		evicted, err = r.Append(ctx, l)
		for i := range evicted {
			v.dropped[evicted[i].Trigger.ID] = true
		}
		return err
	})
	return evicted, err
}

func (d *disk) hasDropped(n int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropped[strconv.Itoa(n)]
}

func (v *view) Claim(ctx context.Context, consumer string, f emit.Filter, n int) (letters []emit.Letter, err error) {
	err = v.in(func(r *emit.Ring) (err error) {
		letters, err = r.Claim(ctx, consumer, f, n)
		for i := range letters {
			v.claimed[letters[i].Seq] = true
		}
		return err
	})
	return letters, err
}

func (v *view) Settle(ctx context.Context, consumer string, results []emit.Settlement) error {
	return v.in(func(r *emit.Ring) error {
		for _, e := range results {
			delete(v.claimed, e.Seq)
		}
		return r.Settle(ctx, consumer, results)
	})
}

func (v *view) Discard(ctx context.Context, consumer string, f emit.Filter) (n int, err error) {
	err = v.in(func(r *emit.Ring) (err error) {
		for l := range r.Letters(ctx, consumer, f) {
			v.dropped[l.Trigger.ID] = true
		}
		n, err = r.Discard(ctx, consumer, f)
		return err
	})
	return n, err
}

func (v *view) Unpark(ctx context.Context, consumer string, f emit.Filter) (n int, err error) {
	err = v.in(func(r *emit.Ring) (err error) { n, err = r.Unpark(ctx, consumer, f); return err })
	return n, err
}

func (v *view) Letters(ctx context.Context, consumer string, f emit.Filter) iter.Seq2[emit.Letter, error] {
	var all []emit.Letter
	err := v.in(func(r *emit.Ring) error {
		for l, err := range r.Letters(ctx, consumer, f) {
			if err != nil {
				return err
			}
			all = append(all, l)
		}
		return nil
	})
	return func(yield func(emit.Letter, error) bool) {
		for l := range slices.Values(all) {
			if !yield(l, nil) {
				return
			}
		}
		if err != nil {
			yield(emit.Letter{}, err)
		}
	}
}

func (v *view) Depths() (depths map[string]emit.Depth) {
	_ = v.in(func(r *emit.Ring) error { depths = r.Depths(); return nil })
	return depths
}

func (v *view) Durability() emit.Durability { return emit.Synced }

func (v *view) Close() error { return nil }
