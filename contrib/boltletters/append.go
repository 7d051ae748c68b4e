package boltletters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// Append stores a letter; see [emit.DeadLetters]. It returns after fsync.
func (s *Store) Append(ctx context.Context, l emit.Letter) (evicted []emit.Letter, err error) {
	if l.Priority < 0 || l.Priority >= emit.MaxPriorities || l.Consumer == "" || len(l.Consumer) > 500 {
		return nil, fmt.Errorf("boltletters: consumer %.50q, priority %d: use a name of 1 to 500 bytes and a priority below %d", l.Consumer, l.Priority, emit.MaxPriorities)
	}
	record := encode(&l)
	if len(record) > s.config.MaxLetterBytes {
		return nil, fmt.Errorf("boltletters: %w: %d bytes with its fields, MaxLetterBytes is %d", emit.ErrTooLarge, len(record), s.config.MaxLetterBytes)
	}
	o := &appendOp{lane: laneKey{l.Consumer, uint8(l.Priority), l.Parked}, record: record, storedAt: l.StoredAt}
	if err := s.ask(ctx, o, len(record)); err != nil {
		return nil, pressure(err)
	}
	return o.evicted, o.err
}

// pressure makes of an error one that matches emit.ErrBackPressure, unless the store is closed.
func pressure(err error) error {
	if errors.Is(err, emit.ErrBackPressure) || errors.Is(err, emit.ErrStoreClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", emit.ErrBackPressure, err)
}

type appendOp struct {
	lane     laneKey
	record   []byte
	storedAt time.Time

	evicted []emit.Letter
	err     error
}

func (o *appendOp) apply(b *batch) error {
	size := recordSize(o.record)
	letters, bytes := b.excess(o.lane.priority, cost(size))
	if letters > 0 || bytes > 0 {
		o.err = b.hopeless(o.lane.priority, letters, bytes)
	}
	if o.err != nil {
		return nil //nolint:nilerr // it concerns this letter alone, not the transaction
	}
	return o.store(b, letters, bytes)
}

// store evicts until the letter is within the bounds, and puts it.
func (o *appendOp) store(b *batch, letters, bytes int64) error {
	size := recordSize(o.record)
	for q := emit.MaxPriorities - 1; q > int(o.lane.priority); q-- {
		for letters > 0 || bytes > 0 {
			found, err := b.evict(q, &o.evicted)
			if err != nil {
				return err
			}
			if !found {
				break
			}
			letters, bytes = b.excess(o.lane.priority, cost(size))
		}
	}
	b.s.newest++
	return b.put(place{o.lane, b.s.newest}, o.record, o.storedAt)
}

// excess is by how much another letter of a priority would be over the bounds. What is reserved and not used
// by priority 0 is not for others (REQ-E4).
func (b *batch) excess(priority uint8, size int64) (letters, bytes int64) {
	c, first := &b.s.config, &b.s.tallies[0]
	letterLimit, byteLimit := int64(c.MaxLetters), c.room()
	if priority > 0 {
		letterLimit -= max(0, int64(c.ReservedLetters)-first.letters)
		byteLimit -= max(0, c.ReservedBytes-first.bytes)
	}
	total := int64(0)
	for q := range b.s.tallies {
		total += b.s.tallies[q].letters
	}
	return total + 1 - letterLimit, b.s.used + size - byteLimit
}

// hopeless is the error of a letter for which nothing could be evicted that would make room, nil if
// there is hope.
func (b *batch) hopeless(priority uint8, letters, bytes int64) error {
	for q := int(priority) + 1; q < len(b.s.tallies); q++ {
		n, size := b.s.tallies[q].evictable()
		letters, bytes = letters-n, bytes-size
	}
	switch {
	case letters <= 0 && bytes <= 0:
		return nil
	case priority > 0:
		return fmt.Errorf("boltletters: %w, and with what is as important as priority %d", emit.ErrFull, priority)
	default:
		return fmt.Errorf("boltletters: %w: %w of priority 0", emit.ErrBackPressure, errNoRoom)
	}
}

var errNoRoom = errors.New("full of letters")

// evict removes the oldest letter of a priority that is not claimed.
func (b *batch) evict(priority int, evicted *[]emit.Letter) (found bool, err error) {
	var oldest *lane
	for _, l := range b.s.tallies[priority].lanes {
		if err := b.findFree(l); err != nil {
			return false, err
		}
		if l.free != 0 && (oldest == nil || l.free < oldest.free) {
			oldest = l
		}
	}
	if oldest == nil {
		return false, nil
	}
	at := place{oldest.key, oldest.free}
	record, err := b.get(at)
	if err != nil {
		return false, err
	}
	v, err := view(record, at)
	if err != nil {
		return true, b.putAside(at, record, err)
	}
	*evicted = append(*evicted, v.letter())
	return true, b.remove(at, record)
}

// findFree finds the oldest letter of a lane that is not claimed.
func (b *batch) findFree(l *lane) error {
	for from := uint64(0); !l.freeKnown; {
		seq, v, err := b.seek(l, from)
		if err != nil {
			return err
		}
		if _, claimed := l.claimed[seq]; seq != 0 && (claimed || v.seq == 0) {
			from = seq + 1
			continue
		}
		b.change(l.key, func(l *lane, _ *tally) { l.free, l.freeKnown = seq, true })
	}
	return nil
}
