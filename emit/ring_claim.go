package emit

import (
	"context"
	"iter"
	"slices"
)

// Claim takes letters for an attempt; see [DeadLetters].
func (r *Ring) Claim(_ context.Context, consumer string, f Filter, n int) ([]Letter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.consumerLocked(consumer)
	if d == nil || n <= 0 {
		return nil, err
	}
	var claimed []Letter
	slots := r.byRankLocked()
	held := map[uint64]bool{}
	if f.InOrder {
		slots = r.bySeqLocked(0)
	}
	sel := r.selector(f)
	for i := range slots {
		s := &r.mu.slots[i]
		if s.of != d || s.state == letterParked {
			continue
		}
		if f.InOrder && s.key != 0 {
			if held[s.key] {
				continue
			}
			held[s.key] = true
		}
		if s.state == letterWaiting && s.due(f) && r.matchesLocked(s, &sel) && !r.skippedLocked(s, f) {
			s.state = letterClaimed
			claimed = append(claimed, r.letterLocked(i))
		}
		if len(claimed) == n {
			break
		}
	}
	return claimed, nil
}

// consumerLocked is what is stored of a consumer, nil for nothing.
func (r *Ring) consumerLocked(name string) (*ringDepth, error) {
	if r.mu.closed {
		return nil, ErrStoreClosed
	}
	d := r.mu.of[name]
	if d != nil && d.letters == 0 {
		return nil, nil
	}
	return d, nil
}

// byRankLocked are the letters, the most important and the oldest first.
func (r *Ring) byRankLocked() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for p := range r.mu.ranks {
			for i := r.mu.ranks[p].head; i >= 0; i = r.mu.slots[i].rank.next {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// bySeqLocked are the letters after one, the oldest first. The one that is yielded may be dropped.
func (r *Ring) bySeqLocked(after uint64) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		i := r.mu.all.head
		if at := int32(after % uint64(len(r.mu.slots))); after > 0 && r.mu.slots[at].seq == after { //nolint:gosec // a slot's number
			i = r.mu.slots[at].all.next
		}
		for i >= 0 {
			next := r.mu.slots[i].all.next
			if r.mu.slots[i].seq > after && !yield(i) {
				return
			}
			i = next
		}
	}
}

// due reports whether a letter may be tried by the time that f names.
func (s *slot) due(f Filter) bool { return f.Now.IsZero() || !s.notBefore.After(f.Now) }

func (r *Ring) skippedLocked(s *slot, f Filter) bool {
	return f.Skip != nil && s.key != 0 && f.Skip(r.mu.arena.text(s.first, s.text, textKey))
}

// A selector is a Filter with its texts hashed.
type selector struct {
	Filter
	types []uint64
	key   uint64
}

func (r *Ring) selector(f Filter) selector {
	s := selector{Filter: f}
	for _, t := range f.Types {
		s.types = append(s.types, r.hash(t))
	}
	if f.Key != "" {
		s.key = r.hash(f.Key)
	}
	return s
}

// matchesLocked is the part of a Filter that asks neither the state, but for Parked, nor the time of an attempt.
func (r *Ring) matchesLocked(s *slot, f *selector) bool {
	switch {
	case s.seq <= f.After,
		f.Priorities != nil && !slices.Contains(f.Priorities, s.priority),
		f.Reasons != nil && !slices.Contains(f.Reasons, s.reason),
		!f.From.IsZero() && s.storedAt.Before(f.From),
		!f.To.IsZero() && !s.storedAt.Before(f.To),
		f.Types != nil && !slices.Contains(f.types, s.typ),
		f.key != 0 && f.key != s.key:
		return false
	}
	return (f.Types == nil || slices.Contains(f.Types, r.mu.arena.text(s.first, s.text, textType))) &&
		(f.key == 0 || f.Key == r.mu.arena.text(s.first, s.text, textKey))
}

// parkedAs reports whether a letter is parked or not, as f asks.
func (s *slot) parkedAs(f *selector) bool {
	return f.Parked == nil || *f.Parked == (s.state == letterParked)
}

// Settle ends claims; see [DeadLetters].
func (r *Ring) Settle(_ context.Context, consumer string, results []Settlement) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.consumerLocked(consumer)
	if d == nil {
		return err
	}
	for _, e := range results {
		i := int32(e.Seq % uint64(len(r.mu.slots))) //nolint:gosec // a slot's number
		if s := &r.mu.slots[i]; s.seq == e.Seq && s.of == d && s.state == letterClaimed {
			r.settleLocked(i, e)
		}
	}
	return nil
}

func (r *Ring) settleLocked(i int32, e Settlement) {
	if e.Delivered {
		r.dropLocked(i)
		return
	}
	s := &r.mu.slots[i]
	s.state = letterWaiting
	if e.Attempt != (Attempt{}) {
		s.attempts++
		s.remember(e.Attempt)
		s.notBefore = e.NotBefore
	}
	if e.Reason != "" {
		s.reason = e.Reason
	}
	if e.Park {
		s.state = letterParked
		s.of.parked++
	}
}

// Discard deletes letters; see [DeadLetters].
func (r *Ring) Discard(_ context.Context, consumer string, f Filter) (int, error) {
	return r.each(consumer, f, func(i int32) bool {
		if r.mu.slots[i].state == letterClaimed {
			return false
		}
		r.dropLocked(i)
		return true
	})
}

// Unpark makes parked letters wait; see [DeadLetters].
func (r *Ring) Unpark(_ context.Context, consumer string, f Filter) (int, error) {
	return r.each(consumer, f, func(i int32) bool {
		s := &r.mu.slots[i]
		if s.state != letterParked {
			return false
		}
		s.state = letterWaiting
		s.of.parked--
		return true
	})
}

// each counts the letters that match and for which do, which runs under mu, says so.
func (r *Ring) each(consumer string, f Filter, do func(int32) bool) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.consumerLocked(consumer)
	if d == nil {
		return 0, err
	}
	sel := r.selector(f)
	for i := range r.bySeqLocked(f.After) {
		if s := &r.mu.slots[i]; s.of == d && s.parkedAs(&sel) && s.due(f) && r.matchesLocked(s, &sel) && do(i) {
			n++
		}
	}
	return n, nil
}

// lettersAtOnce is how many letters a listing copies under the lock.
const lettersAtOnce = 64

// Letters lists letters; see [DeadLetters].
func (r *Ring) Letters(_ context.Context, consumer string, f Filter) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for {
			letters, err := r.some(consumer, &f)
			if err != nil {
				yield(Letter{}, err)
				return
			}
			for i := range letters {
				if !yield(letters[i], nil) {
					return
				}
			}
			if len(letters) < lettersAtOnce {
				return
			}
		}
	}
}

// some copies the next letters that match, and moves f behind them.
func (r *Ring) some(consumer string, f *Filter) (letters []Letter, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, err := r.consumerLocked(consumer)
	if d == nil {
		return nil, err
	}
	sel := r.selector(*f)
	for i := range r.bySeqLocked(f.After) {
		if s := &r.mu.slots[i]; s.of == d && s.parkedAs(&sel) && s.due(*f) && r.matchesLocked(s, &sel) {
			letters = append(letters, r.letterLocked(i))
			f.After = s.seq
			if len(letters) == lettersAtOnce {
				break
			}
		}
	}
	return letters, nil
}
