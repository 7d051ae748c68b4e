package boltletters

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// maxHeld is how many keys that are held back a Claim in order remembers: beyond it looks no further.
const maxHeld = 1 << 16

// Claim takes letters for an attempt; see [emit.DeadLetters]. It returns after fsync. Claims of one consumer
// wait for each other.
func (s *Store) Claim(ctx context.Context, consumer string, f emit.Filter, n int) ([]emit.Letter, error) {
	if s.isClosed() {
		return nil, emit.ErrStoreClosed
	}
	done, err := s.turn(ctx, consumer)
	if err != nil {
		return nil, err
	}
	defer done()
	choose := s.chooseByPriority
	if f.InOrder {
		choose = s.chooseInOrder
	}
	f.Parked = new(false)
	var bad []place
	places, err := choose(consumer, &f, n, &bad)
	if err != nil || len(places)+len(bad) == 0 {
		return nil, err
	}
	o := &claimOp{places: places, bad: bad, filter: &f, now: time.Now()}
	if err := s.ask(ctx, o, len(places)*recordRoom); err != nil {
		return nil, err
	}
	return o.letters, nil
}

// recordRoom is what a claim or a settlement writes, about.
const recordRoom = 2048

// turn waits until no other Claim of the consumer is under way.
func (s *Store) turn(ctx context.Context, consumer string) (done func(), err error) {
	s.mu.Lock()
	turn := s.mu.turns[consumer]
	if turn == nil {
		turn = make(chan struct{}, 1)
		s.mu.turns[consumer] = turn
	}
	s.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Store) isClosed() bool {
	s.sending.RLock()
	defer s.sending.RUnlock()
	return s.sending.closed
}

func (s *Store) isClaimed(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, claimed := s.mu.claimed[seq]
	return claimed
}

func skipped(f *emit.Filter, v *letterView) bool {
	return f.Skip != nil && len(v.key()) > 0 && f.Skip(string(v.key()))
}

func (s *Store) chooseByPriority(consumer string, f *emit.Filter, n int, bad *[]place) (places []place, err error) {
	for _, k := range s.lanesFor(consumer, f) {
		for sc := (scan{lanes: []laneKey{k}, after: f.After}); !sc.done && len(places) < n; {
			err := s.page(&sc, bad, func(v *letterView) bool {
				if matches(f, v) && !s.isClaimed(v.seq) && !skipped(f, v) {
					places = append(places, v.place)
				}
				return len(places) < n
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return places, nil
}

// chooseInOrder takes the oldest first, and of each key at most the first (REQ-E6).
func (s *Store) chooseInOrder(consumer string, f *emit.Filter, n int, bad *[]place) (places []place, err error) {
	seed, held := maphash.MakeSeed(), map[uint64]bool{}
	waiting := s.lanesFor(consumer, &emit.Filter{Parked: f.Parked})
	for sc := (scan{lanes: waiting}); !sc.done && len(places) < n && len(held) < maxHeld; {
		err := s.page(&sc, bad, func(v *letterView) bool {
			hash := maphash.Bytes(seed, v.key())
			if !held[hash] && matches(f, v) && !s.isClaimed(v.seq) && !skipped(f, v) {
				places = append(places, v.place)
			}
			if len(v.key()) > 0 {
				held[hash] = true
			}
			return len(places) < n && len(held) < maxHeld
		})
		if err != nil {
			return nil, err
		}
	}
	return places, nil
}

// A claimOp claims what was chosen, as far as it still is what was chosen.
type claimOp struct {
	places, bad []place
	filter      *emit.Filter
	now         time.Time

	letters []emit.Letter
}

func (o *claimOp) apply(b *batch) error {
	if err := b.putAsideAll(o.bad); err != nil {
		return err
	}
	for _, at := range o.places {
		record, err := b.get(at)
		if err != nil {
			return err
		}
		if record == nil {
			continue
		}
		v, err := view(record, at)
		if err != nil {
			if err := b.putAside(at, record, err); err != nil {
				return err
			}
			continue
		}
		if _, claimed := b.s.mu.claimed[at.seq]; claimed || !matches(o.filter, &v) {
			continue
		}
		o.letters = append(o.letters, v.letter())
		if err := b.claim(at, recordSize(record), o.now); err != nil {
			return err
		}
	}
	return nil
}

// putAsideAll puts aside the records that readers found damaged, those that still are.
func (b *batch) putAsideAll(bad []place) error {
	for _, at := range bad {
		record, err := b.get(at)
		if err != nil {
			return err
		}
		if record == nil {
			continue
		}
		if _, cause := view(record, at); cause != nil {
			if err := b.putAside(at, record, cause); err != nil {
				return err
			}
		}
	}
	return nil
}
