package boltletters

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
)

const (
	minCompact  = mib // a smaller file is left as it is
	compactStep = 256 << 10
)

// errStopped says that something more urgent has come.
var errStopped = errors.New("boltletters: stopped")

// idle does what waits for idleness, and stops as soon as something is asked for.
func (s *Store) idle() {
	goOn := func() bool { return len(s.queue) == 0 }
	if s.ready() != nil {
		return
	}
	s.keepSpare()
	if s.recount {
		s.recount = !s.verifyCounts(goOn)
	}
	if s.worthCompacting() && goOn() {
		s.compactFile(func() bool { return !goOn() })
	}
}

// worthCompacting: a copy has half of the file's size or less, and there is room for it.
func (s *Store) worthCompacting() bool {
	size, live := s.measure(), int64(0)
	for i := range s.tallies {
		live += s.tallies[i].bytes
	}
	live = min(s.used, live+live/8+minCompact/4)
	return size >= minCompact && live*2 <= size && size+live+s.config.spareBytes() <= s.config.MaxBytes
}

// verifyCounts counts what is stored, and corrects what the file says of it. It returns false if it was stopped.
func (s *Store) verifyCounts(goOn func() bool) (done bool) {
	o := &correctOp{}
	err := s.read(func(tx *bbolt.Tx) error {
		letters, counts := tx.Bucket(lettersBucket), tx.Bucket(countsBucket)
		return letters.ForEachBucket(func(name []byte) error {
			k, ok := laneOf(name)
			if !ok {
				return nil
			}
			n, size := countLetters(letters.Bucket(name), goOn)
			if !goOn() {
				return errStopped
			}
			if hadN, had, ok := countsOf(counts.Get(name)); !ok || hadN != n || had != size {
				o.lanes = append(o.lanes, correction{k, n, size})
			}
			return nil
		})
	})
	if err != nil {
		return !errors.Is(err, errStopped)
	}
	if len(o.lanes) > 0 { // nothing has changed since: the committer runs this
		s.commit([]*request{{op: o, done: make(chan struct{})}})
	}
	return true
}

// countLetters counts a lane from its keys; it may stop early.
func countLetters(bucket *bbolt.Bucket, goOn func() bool) (letters, size int64) {
	const look = 1024
	c := bucket.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if len(k) == keySize {
			letters++
		}
		size += int64(len(v)) + perPart
		if letters%look == 0 && !goOn() {
			break
		}
	}
	return letters, size
}

type correction struct {
	lane           laneKey
	letters, bytes int64
}

// A correctOp sets counts to what was counted.
type correctOp struct{ lanes []correction }

func (o *correctOp) apply(b *batch) error {
	for _, c := range o.lanes {
		b.change(c.lane, func(l *lane, t *tally) {
			t.letters += c.letters - l.letters
			t.bytes += c.bytes - l.bytes
			l.letters, l.bytes = c.letters, c.bytes
		})
		b.events = append(b.events, func(o *Observer) {
			b.s.count(func(st *Stats) { st.Recounts++ })
			call(o.Recounted, c.lane.consumer)
		})
	}
	return nil
}

// compactFile replaces the file by a copy without its free pages. A crash leaves the one or the other, both whole: the copy is
// synced before it is renamed, and nothing is answered before the directory is synced too.
func (s *Store) compactFile(stop func() bool) {
	if s.ready() != nil {
		return
	}
	begun, before := time.Now(), s.measure()
	temp := filepath.Join(s.config.Dir, tempName)
	err := guarded(func() error { return s.copyTo(temp, stop) })
	if err == nil {
		err = s.config.hooks.at(copied)
	}
	if err != nil {
		_ = os.Remove(temp) // the next one does, if this fails
		return
	}
	s.unsynced, s.undo = true, true // whatever fails from here on, the next transaction begins with mending it
	if err := s.swap(temp); err != nil {
		return
	}
	if s.ready() != nil {
		return
	}
	after := s.measure()
	s.count(func(st *Stats) { st.Compactions++; st.FileBytes, st.UsedBytes = after, s.used })
	s.tell(func(o *Observer) {
		call(o.Compacted, Compaction{Before: before, After: after, Took: time.Since(begun)})
	})
}

// swap puts the copy in the file's place. bbolt's map is of the old one until the file is opened again.
func (s *Store) swap(temp string) error {
	s.file.Lock()
	defer s.file.Unlock()
	if err := os.Rename(temp, s.path); err != nil {
		return err
	}
	return s.config.hooks.at(renamed)
}

// copyTo writes a complete and synced copy.
func (s *Store) copyTo(temp string, stop func() bool) error {
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	dst, err := bbolt.Open(temp, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, MaxSize: int(s.config.MaxBytes - s.config.spareBytes() - s.measure())})
	if err != nil {
		return err
	}
	dst.AllocSize = compactStep
	c := &copying{dst: dst, stop: stop}
	err = s.file.db.View(c.copyAll)
	return errors.Join(err, dst.Sync(), dst.Close())
}

// A copying copies buckets, in steps that fit into memory.
type copying struct {
	dst  *bbolt.DB
	tx   *bbolt.Tx
	size int
	stop func() bool
}

func (c *copying) copyAll(src *bbolt.Tx) (err error) {
	if c.tx, err = c.dst.Begin(true); err != nil {
		return err
	}
	defer func() {
		if c.tx != nil {
			_ = c.tx.Rollback() // after an error; the copy is thrown away
		}
	}()
	err = src.ForEach(func(name []byte, b *bbolt.Bucket) error { return c.copyBucket([][]byte{name}, b) })
	if err != nil {
		return err
	}
	return c.commit()
}

func (c *copying) commit() error {
	tx := c.tx
	c.tx = nil
	return tx.Commit()
}

func (c *copying) copyBucket(path [][]byte, b *bbolt.Bucket) error {
	to, err := c.bucket(path)
	if err != nil {
		return err
	}
	if err := to.SetSequence(b.Sequence()); err != nil {
		return err
	}
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			if inner := b.Bucket(k); !isEmptyLane(path, inner) {
				err := c.copyBucket([][]byte{path[0], k}, inner)
				to = nil
				return err
			}
			return nil
		}
		if c.size += len(k) + len(v); c.size > compactStep || to == nil {
			if to, err = c.step(path); err != nil {
				return err
			}
		}
		return to.Put(k, v)
	})
}

// isEmptyLane: lanes that hold nothing are not copied.
func isEmptyLane(path [][]byte, inner *bbolt.Bucket) bool {
	k, _ := inner.Cursor().First()
	return k == nil && bytes.Equal(path[0], lettersBucket)
}

// step commits what was copied and begins anew, unless something more urgent has come.
func (c *copying) step(path [][]byte) (*bbolt.Bucket, error) {
	if c.stop() {
		return nil, errStopped
	}
	c.size = 0
	err := c.commit()
	if err == nil {
		c.tx, err = c.dst.Begin(true)
	}
	if err != nil {
		return nil, err
	}
	return c.bucket(path)
}

func (c *copying) bucket(path [][]byte) (*bbolt.Bucket, error) {
	b, err := c.tx.CreateBucketIfNotExists(path[0])
	if err == nil && len(path) > 1 {
		b, err = b.CreateBucketIfNotExists(path[1])
	}
	if err != nil {
		return nil, err
	}
	b.FillPercent = 1
	return b, nil
}
