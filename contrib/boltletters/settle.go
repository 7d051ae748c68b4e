package boltletters

import (
	"context"
	"iter"

	"github.com/breakwater-go/breakwater/emit"
)

// Settle ends claims; see [emit.DeadLetters]. It returns after fsync.
func (s *Store) Settle(ctx context.Context, consumer string, results []emit.Settlement) error {
	if len(results) == 0 && !s.isClosed() {
		return nil
	}
	return s.ask(ctx, &settleOp{consumer, results}, len(results)*recordRoom)
}

type settleOp struct {
	consumer string
	results  []emit.Settlement
}

func (o *settleOp) apply(b *batch) error {
	for _, r := range o.results {
		k, claimed := b.s.mu.claimed[r.Seq] // the committer alone writes it
		if !claimed || k.consumer != o.consumer {
			continue
		}
		if err := b.settle(place{k, r.Seq}, r); err != nil {
			return err
		}
	}
	return nil
}

// settle ends a claim with its result.
func (b *batch) settle(at place, r emit.Settlement) error {
	record, err := b.get(at)
	switch {
	case err != nil:
		return err
	case record == nil, r == emit.Settlement{Seq: r.Seq}:
		return b.unclaim(at)
	case r.Delivered:
		return b.remove(at, record)
	}
	v, err := view(record, at)
	if err != nil {
		return b.putAside(at, record, err)
	}
	l := v.letter()
	if (r.Attempt != emit.Attempt{}) {
		l.Attempts++
		l.Last = append(l.Last, r.Attempt)
		l.NotBefore = r.NotBefore
	}
	if r.Reason != "" {
		l.Reason = r.Reason
	}
	return b.move(at, record, &l, r.Park)
}

// move writes a letter anew, waiting or parked.
func (b *batch) move(at place, old []byte, l *emit.Letter, parked bool) error {
	record := b.encodeWithin(l, len(old))
	if at.lane.parked == parked {
		return b.replace(at, old, record)
	}
	if err := b.remove(at, old); err != nil {
		return err
	}
	at.lane.parked = parked
	return b.put(at, record, l.StoredAt)
}

// encodeWithin encodes a letter that is in the file already. Where there is no more room it keeps less of what attempts said, so
// that letters do not outgrow the bound and a claim can always be ended.
func (b *batch) encodeWithin(l *emit.Letter, size int) []byte {
	record := encode(l)
	for n := shortErr; b.s.used > b.s.config.room() && len(record) > size && len(l.Last) > 0; n = 0 {
		if n == 0 {
			l.Last = l.Last[1:]
		}
		for i := range l.Last {
			l.Last[i].Err = l.Last[i].Err[:min(n, len(l.Last[i].Err))]
		}
		record = encode(l)
	}
	return record
}

// shortErr is what is kept of an attempt's words in a full file.
const shortErr = 40

// Discard deletes letters; see [emit.DeadLetters]. Many are deleted in several steps: after an error those counted are gone.
func (s *Store) Discard(ctx context.Context, consumer string, f emit.Filter) (int, error) {
	return s.edit(ctx, consumer, f, func(b *batch, v *letterView, record []byte) error { return b.remove(v.place, record) })
}

// Unpark makes parked letters wait again; see [emit.DeadLetters]. Many are moved in several steps, as by Discard.
func (s *Store) Unpark(ctx context.Context, consumer string, f emit.Filter) (int, error) {
	f.Parked = new(true)
	return s.edit(ctx, consumer, f, func(b *batch, v *letterView, record []byte) error {
		l := v.letter()
		return b.move(v.place, record, &l, false)
	})
}

const (
	maxEdit     = 256     // letters that are changed in one step
	maxPage     = 128     // letters that are copied in one read
	maxPageData = 1 * mib // bytes of them
)

// edit changes the letters that a filter selects and nobody has claimed, step by step.
func (s *Store) edit(ctx context.Context, consumer string, f emit.Filter, change func(*batch, *letterView, []byte) error) (n int, err error) {
	if s.isClosed() {
		return 0, emit.ErrStoreClosed
	}
	for sc := (scan{lanes: s.lanesFor(consumer, &f), after: f.After}); !sc.done; {
		o := &editOp{filter: &f, change: change}
		size := int64(0)
		err := s.page(&sc, &o.bad, func(v *letterView) bool {
			if matches(&f, v) && !s.isClaimed(v.seq) {
				o.places = append(o.places, v.place)
				size += int64(len(v.data)) + recordRoom
			}
			return len(o.places) < maxEdit && size < s.config.batchBytes()/2
		})
		if err != nil {
			return n, err
		}
		if len(o.places)+len(o.bad) == 0 {
			continue
		}
		if err := s.ask(ctx, o, int(size)); err != nil {
			return n, err
		}
		n += o.n
	}
	return n, nil
}

// An editOp changes what was selected, as far as it still is what was selected.
type editOp struct {
	places, bad []place
	filter      *emit.Filter
	change      func(*batch, *letterView, []byte) error

	n int
}

func (o *editOp) apply(b *batch) error {
	if err := b.putAsideAll(o.bad); err != nil {
		return err
	}
	for _, at := range o.places {
		record, err := b.get(at)
		if err != nil {
			return err
		}
		if _, claimed := b.s.mu.claimed[at.seq]; claimed || record == nil {
			continue
		}
		v, err := view(record, at)
		if err != nil {
			err = b.putAside(at, record, err)
		} else if matches(o.filter, &v) {
			o.n++
			err = o.change(b, &v, record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Letters lists letters; see [emit.DeadLetters]. A damaged letter is passed over, and put aside.
func (s *Store) Letters(ctx context.Context, consumer string, f emit.Filter) iter.Seq2[emit.Letter, error] {
	return func(yield func(emit.Letter, error) bool) {
		if s.isClosed() {
			yield(emit.Letter{}, emit.ErrStoreClosed)
			return
		}
		for sc := (scan{lanes: s.lanesFor(consumer, &f), after: f.After}); !sc.done; {
			letters, err := s.copyPage(ctx, &sc, &f)
			if err != nil {
				yield(emit.Letter{}, err)
				return
			}
			for i := range letters {
				if !yield(letters[i], nil) {
					return
				}
			}
		}
	}
}

func (s *Store) copyPage(ctx context.Context, sc *scan, f *emit.Filter) (letters []emit.Letter, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	size := 0
	var bad []place
	err = s.page(sc, &bad, func(v *letterView) bool {
		if matches(f, v) {
			letters = append(letters, v.letter())
			size += len(v.data)
		}
		return len(letters) < maxPage && size < maxPageData
	})
	if err == nil && len(bad) > 0 {
		err = s.ask(ctx, &editOp{bad: bad}, 0)
	}
	return letters, err
}
