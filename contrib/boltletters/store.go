package boltletters

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/breakwater-go/breakwater/emit"
)

// A Store is an [emit.DeadLetters] in a file. Make it with [Open].
type Store struct {
	config Config // immutable
	path   string // immutable
	lock   lock   // immutable

	queue chan *request
	ended chan struct{} // closed when the committer has ended
	// sending is held for reading while a request is sent, and for writing to close the queue.
	sending struct {
		sync.RWMutex
		closed bool
	}
	life uint64 // immutable: tells claims of this Store from those of an earlier one

	// The committer's alone.
	meta      metaPages
	undo      bool                      // a transaction failed: the state before it is to be put back and read again
	unsynced  bool                      // the directory was not synced after a rename
	used      int64                     // bytes of the file's pages that are in use
	newest    uint64                    // sequence of the newest letter
	tallies   [emit.MaxPriorities]tally // by priority
	crashed   []place                   // claims of an earlier life, to be given back
	recount   bool                      // the counts were not verified since Open
	unfitting bool                      // a transaction did not fit into the file: compact without waiting for idleness
	broken    error                     // a panic within bbolt: nothing works until the file is opened anew

	// file guards db, which is nil while the file could not be opened again; held for reading by readers.
	file struct {
		sync.RWMutex
		db  *bbolt.DB
		raw *os.File // what db reads and writes
	}
	mu struct {
		sync.Mutex
		lanes   map[laneKey]*lane
		claimed map[uint64]laneKey
		depths  map[string]emit.Depth    // of what is committed
		turns   map[string]chan struct{} // of each consumer: who may look for letters to claim
		stats   Stats
	}
}

var _ emit.DeadLetters = (*Store)(nil)

// Stats is what a Store has done since Open, and what it holds.
type Stats struct {
	Letters       int   // stored: waiting, claimed and parked
	FileBytes     int64 // size of the file
	UsedBytes     int64 // of it, what is in use
	Commits       int64 // transactions that were made durable
	Committed     int64 // requests in them
	FailedCommits int64
	BadRecords    int64 // letters that could not be read, in the life of this file
	Compactions   int64
	Recounts      int64 // counts that were wrong and were corrected
	Faults        int64 // panics of the Observer
	// Quarantined are the files that were put aside because they were damaged, by any Store of this directory.
	Quarantined []string
	// Broken is why the Store takes nothing until it is opened anew; nil: it works.
	Broken error
}

// Open opens the Store in c.Dir, or begins one. A damaged file is put into quarantine and the Store begins anew: Observer.Quarantined
// and Stats tell. The error names every fault of the Config, or who has the directory. ctx bounds the check
// of the file.
func Open(ctx context.Context, c Config) (*Store, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("boltletters: Dir is %q: %w", c.Dir, err)
	}
	held, err := acquire(c.Dir)
	if err != nil {
		return nil, err
	}
	s := newStore(c, held)
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.closeFile(), held.release())
	}
	return s, nil
}

func newStore(c Config, held lock) *Store {
	s := &Store{config: c, path: filepath.Join(c.Dir, fileName), lock: held, recount: true}
	s.queue = make(chan *request, maxBatch)
	s.ended = make(chan struct{})
	s.mu.turns = map[string]chan struct{}{}
	s.life = rand.Uint64()
	return s
}

func (s *Store) start(ctx context.Context) error {
	quarantine, err := judge(ctx, s.config, s.path)
	if err != nil {
		return err
	}
	if err := create(s.config, s.path); err != nil {
		return fmt.Errorf("boltletters: begin %s: %w", s.path, err)
	}
	err = guarded(func() (err error) {
		s.file.db, s.file.raw, err = openFile(s.config, s.path)
		return err
	})
	if err != nil {
		return fmt.Errorf("boltletters: open %s: %w", s.path, err)
	}
	if err := s.load(); err != nil {
		return err
	}
	s.mu.stats.Quarantined = quarantined(s.config.Dir)
	if quarantine != nil {
		s.tell(func(o *Observer) { call(o.Quarantined, *quarantine) })
	}
	s.keepSpare()
	transactions := 1 + len(s.crashed)/mostGivenBack // the committer's from the next line on
	go s.commitAll()
	for range transactions { // give back what was claimed; where the disk is full the next transactions that fit do it
		_ = s.ask(context.WithoutCancel(ctx), &nothing{}, 0)
	}
	return nil
}

// Close commits what was asked for before, and ends the Store. It is safe to call it more than once.
func (s *Store) Close() error {
	s.sending.Lock()
	first := !s.sending.closed
	s.sending.closed = true
	if first {
		close(s.queue)
	}
	s.sending.Unlock()
	<-s.ended
	if !first {
		return nil
	}
	return errors.Join(s.closeFile(), s.lock.release())
}

func (s *Store) closeFile() error {
	s.file.Lock()
	defer s.file.Unlock()
	s.meta.close()
	db := s.file.db
	s.file.db = nil
	switch {
	case db == nil:
		return nil
	case s.broken != nil:
		return errors.Join(unlockFile(s.file.raw), s.file.raw.Close()) // bbolt may hold its own locks for ever
	}
	return db.Close()
}

// Durability is emit.Synced.
func (s *Store) Durability() emit.Durability { return emit.Synced }

// Depths counts what is stored by consumer, from memory.
func (s *Store) Depths() map[string]emit.Depth {
	s.mu.Lock()
	defer s.mu.Unlock()
	depths := maps.Clone(s.mu.depths)
	for consumer, d := range depths {
		d.ByPriority = slices.Clone(d.ByPriority)
		depths[consumer] = d
	}
	return depths
}

// Stats tells what the Store has done and what it holds.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.mu.stats
	stats.Quarantined = slices.Clone(stats.Quarantined)
	for _, d := range s.mu.depths {
		stats.Letters += d.Letters
	}
	return stats
}

// read runs f in a read transaction. A damaged page is an error then, and no crash.
func (s *Store) read(f func(tx *bbolt.Tx) error) error {
	s.file.RLock()
	defer s.file.RUnlock()
	if s.file.db == nil {
		return s.unavailable()
	}
	return guarded(func() error { return s.file.db.View(f) })
}

func (s *Store) unavailable() error {
	select {
	case <-s.ended:
		return emit.ErrStoreClosed
	default:
		return errors.New("boltletters: the file could not be opened again yet")
	}
}

// publish makes what is committed visible in Depths.
func (s *Store) publish(consumers map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publishLocked(consumers)
}

func (s *Store) publishLocked(consumers map[string]bool) {
	for consumer := range consumers {
		if d := depthOf(s.mu.lanes, consumer); d.Letters > 0 {
			s.mu.depths[consumer] = d
		} else {
			delete(s.mu.depths, consumer)
		}
	}
}

func depthOf(lanes map[laneKey]*lane, consumer string) emit.Depth {
	var d emit.Depth
	for _, k := range lanesOf(lanes, consumer) {
		l := lanes[k]
		d.Letters += int(l.letters)
		d.Bytes += l.bytes
		if k.parked {
			d.Parked += int(l.letters)
		}
		for len(d.ByPriority) <= int(k.priority) {
			d.ByPriority = append(d.ByPriority, 0)
		}
		d.ByPriority[k.priority] += int(l.letters)
		if l.first != 0 && (d.Oldest.IsZero() || l.firstAt.Before(d.Oldest)) {
			d.Oldest = l.firstAt
		}
	}
	return d
}

// tell runs one of the Observer's functions; a panic in it stops nothing.
func (s *Store) tell(f func(o *Observer)) {
	defer func() {
		if recover() != nil {
			s.count(func(st *Stats) { st.Faults++ })
		}
	}()
	f(&s.config.Observer)
}

func call[T any](f func(T), v T) {
	if f != nil {
		f(v)
	}
}

func (s *Store) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.mu.stats)
}
