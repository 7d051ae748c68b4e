package emit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// RingConfig says how much a Ring holds. The zero value works.
type RingConfig struct {
	// Letters is how many it holds, up to 1,000,000. Default: 1,024.
	Letters int
	// Bytes is what their triggers may take together, in blocks of 256 bytes: at least 4 KiB, up to 16 GiB. Default: 512
	// for each of Letters.
	Bytes int64
	// Reserved is how many of Letters, and the same share of Bytes, are for priority 0 only. Negative:
	// none. Default: an eighth.
	Reserved int
}

// A Ring keeps dead letters in memory, in room that it takes when it is made: a letter is copied into it and
// pins nothing of its caller's. Make it with [NewRing]. All its methods may be called at any time from any goroutine.
//
// An Append allocates nothing (REQ-E5), but for one that evicts, which
// allocates what it returns, and the first of a consumer or of a priority.
//
// It takes 0.5 KB for each of Letters and Bytes besides; the system gives the pages as they are first used.
type Ring struct {
	seed     maphash.Seed // immutable
	reserved int          // letters for priority 0 only; immutable
	kept     int          // blocks for priority 0 only; immutable

	mu struct {
		sync.Mutex
		closed bool
		arena  arena
		slots  []slot
		free   []int32 // slots that hold nothing
		all    chain   // in the order of Seq
		ranks  []chain // by priority, each in the order of Seq
		count  uint64  // letters so far
		of     map[string]*ringDepth
		blocks int // in use
		others struct{ letters, blocks int }
	}
}

// A slot holds one letter: in place what is asked often, the trigger in the arena.
type slot struct {
	seq           uint64 // 0: free
	of            *ringDepth
	priority      int
	state         letterState
	attempts      int
	kept          int // of last
	last          [KeptAttempts]Attempt
	reason        Reason
	storedAt      time.Time
	notBefore     time.Time
	typ, key      uint64 // hashes; key 0: none
	first, blocks int32  // in the arena
	text          layout
	all, rank     link
}

type letterState uint8

const (
	letterWaiting letterState = iota
	letterClaimed
	letterParked
)

// A ringDepth is what is stored of a consumer.
type ringDepth struct {
	name       string
	letters    int
	parked     int
	blocks     int
	byPriority []int
}

// NewRing makes an empty Ring. The error names every fault of the RingConfig.
func NewRing(c RingConfig) (*Ring, error) {
	if c.Letters == 0 {
		c.Letters = 1024
	}
	if c.Bytes == 0 {
		c.Bytes = 512 * int64(max(c.Letters, 8))
	}
	if c.Reserved == 0 {
		c.Reserved = c.Letters / 8
	}
	c.Reserved = max(c.Reserved, 0)
	if err := c.check(); err != nil {
		return nil, err
	}
	blocks := int(c.Bytes / blockSize)
	r := &Ring{seed: maphash.MakeSeed(), reserved: c.Reserved, kept: int(int64(blocks) * int64(c.Reserved) / int64(c.Letters))}
	r.mu.arena, r.mu.slots = newArena(blocks), make([]slot, c.Letters)
	r.mu.free, r.mu.all, r.mu.of = make([]int32, c.Letters), emptyChain, map[string]*ringDepth{}
	for i := range r.mu.free {
		r.mu.free[i] = int32(c.Letters - 1 - i) //nolint:gosec // at most a million
	}
	return r, nil
}

func (c RingConfig) check() error {
	var faults []error
	if c.Letters < 1 || c.Letters > 1_000_000 {
		faults = append(faults, fmt.Errorf("emit: RingConfig.Letters is %d: give 1 to 1,000,000", c.Letters))
	}
	if c.Bytes < 4<<10 || c.Bytes > 16<<30 {
		faults = append(faults, fmt.Errorf("emit: RingConfig.Bytes is %d: give 4,096 to %d", c.Bytes, int64(16<<30)))
	}
	if c.Reserved >= max(c.Letters, 1) {
		faults = append(faults, fmt.Errorf("emit: RingConfig.Reserved is %d: it must be less than Letters, %d, or nothing but priority 0 is ever stored", c.Reserved, c.Letters))
	}
	return errors.Join(faults...)
}

// Durability is InMemory.
func (r *Ring) Durability() Durability { return InMemory }

// Append stores a letter; see [DeadLetters].
func (r *Ring) Append(_ context.Context, l Letter) ([]Letter, error) {
	if l.Priority < 0 || l.Priority >= MaxPriorities {
		return nil, fmt.Errorf("%w: priority %d is not one of 0 to %d", ErrBackPressure, l.Priority, MaxPriorities-1)
	}
	text := measure(&l.Trigger)
	need := text.blocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whole := r.mu.arena.len(); {
	case r.mu.closed:
		return nil, ErrStoreClosed
	case need > whole, l.Priority > 0 && need > whole-r.kept:
		return nil, ErrTooLarge
	}
	evicted, ok := r.makeRoomLocked(l.Priority, need)
	switch {
	case !ok && l.Priority == 0:
		return nil, ErrBackPressure
	case !ok:
		return nil, ErrFull
	}
	r.storeLocked(&l, text, need)
	return evicted, nil
}

// lackLocked is how many letters and blocks must go, so that one of that size has room.
func (r *Ring) lackLocked(priority, need int) (letters, blocks int) {
	letters = 1 - len(r.mu.free)
	blocks = r.mu.blocks + need - r.mu.arena.len()
	if priority > 0 {
		letters = max(letters, r.mu.others.letters+1-(len(r.mu.slots)-r.reserved))
		blocks = max(blocks, r.mu.others.blocks+need-(r.mu.arena.len()-r.kept))
	}
	return letters, blocks
}

// makeRoomLocked evicts what is less important, if that makes room enough; else it evicts nothing.
func (r *Ring) makeRoomLocked(priority, need int) (evicted []Letter, ok bool) {
	letters, blocks := r.lackLocked(priority, need)
	if letters <= 0 && blocks <= 0 {
		return nil, true
	}
	n := 0
	for i := range r.victimsLocked(priority) {
		n++
		letters, blocks = letters-1, blocks-int(r.mu.slots[i].blocks)
		if letters <= 0 && blocks <= 0 {
			break
		}
	}
	if letters > 0 || blocks > 0 {
		return nil, false
	}
	evicted = make([]Letter, 0, n)
	for i := range r.victimsLocked(priority) {
		if len(evicted) == n {
			break
		}
		evicted = append(evicted, r.letterLocked(i))
		r.dropLocked(i)
	}
	return evicted, true
}

// victimsLocked are the slots that a letter of that priority may push out, the first ones first. The one that is
// yielded may be dropped.
func (r *Ring) victimsLocked(priority int) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for p := len(r.mu.ranks) - 1; p > priority; p-- {
			for i := r.mu.ranks[p].head; i >= 0; {
				next := r.mu.slots[i].rank.next
				if r.mu.slots[i].state != letterClaimed && !yield(i) {
					return
				}
				i = next
			}
		}
	}
}

func (r *Ring) storeLocked(l *Letter, text layout, need int) {
	i := r.mu.free[len(r.mu.free)-1]
	r.mu.free = r.mu.free[:len(r.mu.free)-1]
	r.mu.count++
	s := &r.mu.slots[i]
	s.seq = r.mu.count*uint64(len(r.mu.slots)) + uint64(i) //nolint:gosec // a slot's number; so Seq names its slot and grows
	s.of, s.priority, s.state = r.depthLocked(l.Consumer), l.Priority, letterWaiting
	if l.Parked {
		s.state = letterParked
	}
	s.attempts, s.reason, s.storedAt, s.notBefore = l.Attempts, l.Reason, l.StoredAt, l.NotBefore
	s.kept = 0
	for _, a := range l.Last[max(0, len(l.Last)-KeptAttempts):] {
		s.remember(a)
	}
	s.typ, s.key = r.hash(l.Trigger.Type), 0
	if l.Trigger.Key != "" {
		s.key = r.hash(l.Trigger.Key)
	}
	s.text, s.blocks = text, int32(need) //nolint:gosec // blocks of the arena
	s.first = r.mu.arena.put(&l.Trigger, need)
	for len(r.mu.ranks) <= l.Priority {
		r.mu.ranks = append(r.mu.ranks, emptyChain)
	}
	r.pushLocked(i)
	r.countLocked(s, 1)
}

// remember keeps an attempt as the newest.
func (s *slot) remember(a Attempt) {
	if s.kept == KeptAttempts {
		copy(s.last[:], s.last[1:])
		s.kept--
	}
	s.last[s.kept] = Attempt{At: a.At, Err: clip(a.Err)}
	s.kept++
}

// maxAttemptText is how much of an attempt's error is kept.
const maxAttemptText = 500

// clip keeps the begin of a text, in memory of its own where it is cut.
func clip(text string) string {
	if len(text) <= maxAttemptText {
		return text
	}
	return strings.Clone(strings.ToValidUTF8(text[:maxAttemptText], ""))
}

// hash is never 0.
func (r *Ring) hash(text string) uint64 { return maphash.String(r.seed, text) | 1 }

func (r *Ring) depthLocked(consumer string) *ringDepth {
	d := r.mu.of[consumer]
	if d == nil {
		name := strings.Clone(consumer)
		d = &ringDepth{name: name, byPriority: make([]int, MaxPriorities)}
		r.mu.of[name] = d
	}
	return d
}

// countLocked adds a letter to what is stored, or with n = -1 takes it off.
func (r *Ring) countLocked(s *slot, n int) {
	blocks := n * int(s.blocks)
	s.of.letters += n
	s.of.blocks += blocks
	s.of.byPriority[s.priority] += n
	if s.state == letterParked {
		s.of.parked += n
	}
	r.mu.blocks += blocks
	if s.priority > 0 {
		r.mu.others.letters += n
		r.mu.others.blocks += blocks
	}
}

func (r *Ring) dropLocked(i int32) {
	s := &r.mu.slots[i]
	r.countLocked(s, -1)
	r.unlinkLocked(i)
	r.mu.arena.release(s.first)
	*s = slot{}
	r.mu.free = append(r.mu.free, i)
}

// letterLocked is a copy of the letter in a slot.
func (r *Ring) letterLocked(i int32) Letter {
	s := &r.mu.slots[i]
	return Letter{
		Seq: s.seq, Consumer: s.of.name, Priority: s.priority, Trigger: r.mu.arena.get(s.first, s.text), Reason: s.reason, StoredAt: s.storedAt,
		Attempts: s.attempts, Last: append([]Attempt(nil), s.last[:s.kept]...), Parked: s.state == letterParked, NotBefore: s.notBefore,
	}
}

// Depths counts what is stored by consumer.
func (r *Ring) Depths() map[string]Depth {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[string]Depth, len(r.mu.of))
	for name, d := range r.mu.of {
		ranks := slices.Clone(d.byPriority[:len(r.mu.ranks)])
		out[name] = Depth{Letters: d.letters, Parked: d.parked, Bytes: int64(d.blocks) * blockSize, ByPriority: ranks, Oldest: r.oldestLocked(d)}
	}
	return out
}

func (r *Ring) oldestLocked(d *ringDepth) time.Time {
	if d.letters == 0 {
		return time.Time{}
	}
	for i := r.mu.all.head; i >= 0; i = r.mu.slots[i].all.next {
		if r.mu.slots[i].of == d {
			return r.mu.slots[i].storedAt
		}
	}
	return time.Time{}
}

// Close ends the Ring and with it what it holds. It returns nil.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = true
	return nil
}
