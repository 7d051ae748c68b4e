package boltletters

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/breakwater-go/breakwater/emit"
)

// A batch is one transaction of the committer.
type batch struct {
	s         *Store
	tx        *bbolt.Tx
	letters   *bbolt.Bucket
	claims    *bbolt.Bucket
	buckets   map[laneKey]*bbolt.Bucket
	lanes     map[laneKey]bool // whose counts have changed
	consumers map[string]bool  // whose Depth has changed
	bad       int64            // records that were put aside
	events    []func(*Observer)
}

// A tally counts the letters of one priority.
type tally struct {
	letters, bytes               int64
	claimedLetters, claimedBytes int64
	lanes                        []*lane
}

func (t *tally) evictable() (letters, bytes int64) {
	return t.letters - t.claimedLetters, t.bytes - t.claimedBytes
}

func (s *Store) begin() (*batch, error) {
	tx, err := s.file.db.Begin(true)
	if err != nil {
		return nil, err
	}
	return &batch{
		s: s, tx: tx, letters: tx.Bucket(lettersBucket), claims: tx.Bucket(claimsBucket),
		buckets: map[laneKey]*bbolt.Bucket{}, lanes: map[laneKey]bool{}, consumers: map[string]bool{},
	}, nil
}

// bucket is that of a lane, which is made if it is missing.
func (b *batch) bucket(k laneKey) (*bbolt.Bucket, error) {
	if bucket := b.buckets[k]; bucket != nil {
		return bucket, nil
	}
	bucket, err := b.letters.CreateBucketIfNotExists(k.name())
	if err != nil {
		return nil, err
	}
	bucket.FillPercent = 0.95 // letters are appended
	b.buckets[k] = bucket
	return bucket, nil
}

// get is the record at a place, nil if there is none.
func (b *batch) get(at place) ([]byte, error) {
	bucket, err := b.bucket(at.lane)
	if err != nil {
		return nil, err
	}
	return getParts(bucket, at.seq), nil
}

// put stores a record that is new at its place.
func (b *batch) put(at place, record []byte, storedAt time.Time) error {
	bucket, err := b.bucket(at.lane)
	if err != nil {
		return err
	}
	seal(record, at)
	if err := putParts(bucket, at.seq, record); err != nil {
		return err
	}
	size := recordSize(record)
	b.change(at.lane, func(l *lane, t *tally) {
		l.came(at.seq, storedAt, size)
		t.letters++
		t.bytes += size
	})
	b.s.used += cost(size)
	return nil
}

// remove deletes the record at a place, and its claim.
func (b *batch) remove(at place, record []byte) error {
	size := recordSize(record) // the record is not valid after the next line
	if err := b.unclaim(at); err != nil {
		return err
	}
	bucket, err := b.bucket(at.lane)
	if err != nil {
		return err
	}
	if err := deleteParts(bucket, at.seq, record); err != nil {
		return err
	}
	b.change(at.lane, func(l *lane, t *tally) {
		l.gone(at.seq, size)
		t.letters--
		t.bytes -= size
	})
	b.s.used -= cost(size)
	return nil
}

// replace stores a record in the place of another, and ends its claim.
func (b *batch) replace(at place, old, record []byte) error {
	grown := recordSize(record) - recordSize(old)
	if err := b.unclaim(at); err != nil {
		return err
	}
	bucket, err := b.bucket(at.lane)
	if err != nil {
		return err
	}
	seal(record, at)
	if err := replaceParts(bucket, at.seq, old, record); err != nil {
		return err
	}
	b.change(at.lane, func(l *lane, t *tally) {
		l.bytes += grown
		t.bytes += grown
	})
	b.s.used += grown
	return nil
}

// claim notes that a letter is claimed.
func (b *batch) claim(at place, size int64, now time.Time) error {
	value := appendTime(binary.BigEndian.AppendUint64(nil, b.s.life), now)
	if err := b.claims.Put(seqKey(at.seq), append(value, at.lane.name()...)); err != nil {
		return err
	}
	b.change(at.lane, func(l *lane, t *tally) {
		b.s.mu.claimed[at.seq] = at.lane
		l.claim(at.seq, size)
		t.claimedLetters++
		t.claimedBytes += size
	})
	return nil
}

// unclaim ends a claim, if there is one.
func (b *batch) unclaim(at place) error {
	if _, claimed := b.s.mu.claimed[at.seq]; !claimed { // the committer alone writes it
		return nil
	}
	if err := b.claims.Delete(seqKey(at.seq)); err != nil {
		return err
	}
	b.change(at.lane, func(l *lane, t *tally) {
		t.claimedLetters--
		t.claimedBytes -= l.claimed[at.seq]
		l.unclaim(at.seq)
		delete(b.s.mu.claimed, at.seq)
	})
	return nil
}

// change changes what is known in memory of a lane.
func (b *batch) change(k laneKey, f func(*lane, *tally)) {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.lanes[k], b.consumers[k.consumer] = true, true
	f(b.s.laneLocked(k), &b.s.tallies[k.priority])
}

// laneLocked is what is known of a lane; an empty one if it is new.
func (s *Store) laneLocked(k laneKey) *lane {
	l := s.mu.lanes[k]
	if l == nil {
		l = &lane{key: k, claimed: map[uint64]int64{}, firstKnown: true, freeKnown: true}
		s.mu.lanes[k] = l
		t := &s.tallies[k.priority]
		t.lanes = append(t.lanes, l)
	}
	return l
}

// finish writes what is counted, and finds the oldest letters anew where they are gone.
func (b *batch) finish() error {
	for _, l := range b.s.mu.lanes { // the committer alone writes it
		if err := b.findFirst(l); err != nil {
			return err
		}
	}
	counts := b.tx.Bucket(countsBucket)
	for k := range b.lanes {
		l := b.s.mu.lanes[k]
		value := binary.BigEndian.AppendUint64(nil, uint64(l.letters))        //nolint:gosec // at least 0
		value = binary.BigEndian.AppendUint64(value, uint64(max(0, l.bytes))) //nolint:gosec // at least 0
		if err := counts.Put(k.name(), value); err != nil {
			return err
		}
	}
	if b.s.newest > b.letters.Sequence() {
		return b.letters.SetSequence(b.s.newest)
	}
	return nil
}

// findFirst finds the oldest letter of a lane. Damaged records on the way are put aside.
func (b *batch) findFirst(l *lane) error {
	for !l.firstKnown {
		first, v, err := b.seek(l, 0)
		if err != nil {
			return err
		}
		if first == 0 || v.seq == first {
			b.change(l.key, func(l *lane, _ *tally) { l.first, l.firstAt, l.firstKnown = first, v.storedAt, true })
		}
	}
	return nil
}

// seek is the oldest letter of a lane from a sequence on, 0 if there is none. A damaged record is put aside; v.seq is 0 then.
func (b *batch) seek(l *lane, from uint64) (seq uint64, v letterView, err error) {
	bucket, err := b.bucket(l.key)
	if err != nil {
		return 0, v, err
	}
	c := bucket.Cursor()
	k, record := c.Seek(seqKey(from))
	if k == nil {
		return 0, v, nil
	}
	at := place{l.key, seqOf(k)}
	record, _, _ = assemble(c, k, record)
	if v, err = view(record, at); err != nil {
		return at.seq, letterView{}, b.putAside(at, record, err)
	}
	return at.seq, v, nil
}

// putAside takes a damaged record out of its lane and keeps its bytes: it is one counted loss.
func (b *batch) putAside(at place, record []byte, cause error) error {
	bad := b.tx.Bucket(badBucket)
	n, err := bad.NextSequence()
	if err != nil {
		return err
	}
	value := append(at.lane.name(), seqKey(at.seq)...)
	if err := putParts(bad, n, append(value, record...)); err != nil {
		return err
	}
	if err := b.trimBad(bad); err != nil {
		return err
	}
	b.bad++
	b.events = append(b.events, func(o *Observer) {
		call(o.BadRecord, BadRecord{Consumer: at.lane.consumer, Priority: int(at.lane.priority), Seq: at.seq, Err: cause})
	})
	return b.remove(at, record)
}

// trimBad keeps of the damaged records the newest, within a share of the file.
func (b *batch) trimBad(bad *bbolt.Bucket) error {
	size, limit := int64(0), b.s.config.slack()/4
	c := bad.Cursor()
	var old [][]byte
	for k, v := c.Last(); k != nil; k, v = c.Prev() {
		if size += int64(len(v)); size > limit {
			old = append(old, k)
		}
	}
	for _, k := range old {
		if err := bad.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// mostGivenBack is how many claims of an earlier life one transaction ends.
const mostGivenBack = 256

// giveBack ends claims of an earlier life: each letter waits again, with an attempt that crashed (REQ-E7).
func (b *batch) giveBack() error {
	now := min(len(b.s.crashed), mostGivenBack)
	for _, at := range b.s.crashed[:now] {
		if err := b.giveBackOne(at); err != nil {
			return err
		}
	}
	b.s.crashed = b.s.crashed[now:]
	return nil
}

func (b *batch) giveBackOne(at place) error {
	claim := b.claims.Get(seqKey(at.seq))
	if len(claim) < claimHead {
		return b.unclaim(at)
	}
	r := reader{rest: claim[8:]}
	return b.settle(at, emit.Settlement{Seq: at.seq, Attempt: emit.Attempt{At: r.time(), Err: emit.AttemptCrashed}})
}

const claimHead = 8 + 16

// load reads what is kept in memory from the file: counts, oldest letters, claims; a few bytes for each lane and claim,
// however many letters there are.
func (s *Store) load() error {
	if err := guarded(func() error { return s.file.db.View(s.loadTx) }); err != nil {
		return fmt.Errorf("boltletters: read %s: %w", s.path, err)
	}
	size := s.measure()
	s.count(func(st *Stats) { st.FileBytes, st.UsedBytes = size, s.used })
	return nil
}

func (s *Store) loadTx(tx *bbolt.Tx) error {
	if err := checkVersion(tx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.lanes, s.mu.claimed = map[laneKey]*lane{}, map[uint64]laneKey{}
	s.tallies, s.crashed = [emit.MaxPriorities]tally{}, nil
	s.newest = tx.Bucket(lettersBucket).Sequence()
	s.mu.stats.BadRecords = int64(tx.Bucket(badBucket).Sequence()) //nolint:gosec // a count
	consumers := map[string]bool{}
	if err := errors.Join(s.loadLanesLocked(tx, consumers), s.loadClaimsLocked(tx)); err != nil {
		return err
	}
	s.mu.depths = map[string]emit.Depth{}
	s.publishLocked(consumers)
	return nil
}

func (s *Store) loadLanesLocked(tx *bbolt.Tx, consumers map[string]bool) error {
	letters, counts := tx.Bucket(lettersBucket), tx.Bucket(countsBucket)
	return letters.ForEachBucket(func(name []byte) error {
		k, ok := laneOf(name)
		if !ok {
			return nil
		}
		consumers[k.consumer] = true
		l := s.laneLocked(k)
		if l.letters, l.bytes, ok = countsOf(counts.Get(name)); !ok {
			l.letters, l.bytes = countLetters(letters.Bucket(name), func() bool { return true })
		}
		l.firstKnown, l.freeKnown = false, false
		c := letters.Bucket(name).Cursor()
		if first, record := c.First(); first == nil {
			l.firstKnown = true
		} else {
			record, _, _ = assemble(c, first, record)
			if v, err := view(record, place{k, seqOf(first)}); err == nil {
				l.first, l.firstAt, l.firstKnown = v.seq, v.storedAt, true
			}
		}
		t := &s.tallies[k.priority]
		t.letters += l.letters
		t.bytes += l.bytes
		return nil
	})
}

func countsOf(value []byte) (letters, bytes int64, ok bool) {
	if len(value) != 16 {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(value)), int64(binary.BigEndian.Uint64(value[8:])), true //nolint:gosec // as written
}

func (s *Store) loadClaimsLocked(tx *bbolt.Tx) error {
	letters := tx.Bucket(lettersBucket)
	return tx.Bucket(claimsBucket).ForEach(func(key, value []byte) error {
		at := place{seq: seqOf(key)}
		known, size := false, int64(0)
		if len(value) > claimHead {
			at.lane, known = laneOf(value[claimHead:])
		}
		if known {
			if bucket := letters.Bucket(value[claimHead:]); bucket != nil {
				if record := getParts(bucket, at.seq); record != nil {
					size = recordSize(record)
				}
			}
		}
		l, t := s.laneLocked(at.lane), &s.tallies[at.lane.priority]
		s.mu.claimed[at.seq] = at.lane
		l.claim(at.seq, size)
		t.claimedLetters++
		t.claimedBytes += size
		if !known || binary.BigEndian.Uint64(value) != s.life {
			s.crashed = append(s.crashed, at)
		}
		return nil
	})
}
