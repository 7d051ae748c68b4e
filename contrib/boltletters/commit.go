package boltletters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/breakwater-go/breakwater/emit"
)

const (
	maxBatch = 512 // requests in one transaction
	gathers  = 16  // how often the committer lets others run while requests still come
)

// An op is a change. apply makes it within a transaction; its error fails the whole transaction. What
// concerns it alone it keeps for its caller.
type op interface{ apply(b *batch) error }

// nothing changes nothing; what the committer does in each transaction is done.
type nothing struct{}

func (*nothing) apply(*batch) error { return nil }

// A request is an op on its way to the committer.
type request struct {
	op    op
	size  int // bytes that it writes, about
	stage atomic.Uint32
	done  chan struct{}
	err   error // why its transaction failed; read after done
}

// The stages of a request: it is withdrawn by its caller or taken by the committer, whoever is first.
const (
	queued uint32 = iota
	taken
	withdrawn
)

// ask has an op committed. An error means that nothing of it is in the file: a request whose context ends is withdrawn, or its commit
// is waited for once that has begun.
func (s *Store) ask(ctx context.Context, o op, size int) error {
	r := &request{op: o, size: size, done: make(chan struct{})}
	if err := s.send(ctx, r); err != nil {
		return err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.stage.CompareAndSwap(queued, withdrawn) {
			return ctx.Err()
		}
		<-r.done
	}
	return r.err
}

func (s *Store) send(ctx context.Context, r *request) error {
	s.sending.RLock()
	defer s.sending.RUnlock()
	if s.sending.closed {
		return emit.ErrStoreClosed
	}
	select {
	case s.queue <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// commitAll is the committer: it commits what has come until the queue is closed.
func (s *Store) commitAll() {
	defer close(s.ended)
	debug.SetPanicOnFault(true) // of this goroutine
	idle := time.NewTimer(max(time.Nanosecond, s.config.IdleAfter))
	defer idle.Stop()
	if s.config.IdleAfter < 0 {
		idle.Stop()
	}
	var next *request
	for {
		if next == nil {
			select {
			case r, ok := <-s.queue:
				if !ok {
					return
				}
				next = r
			case <-idle.C:
				s.idle()
				continue
			}
		}
		var requests []*request
		requests, next = s.gather(next)
		s.commit(requests)
		if s.config.IdleAfter > 0 {
			idle.Reset(s.config.IdleAfter)
		}
	}
}

// gather takes what else is there, up to what fits a transaction; next is the first that did not.
func (s *Store) gather(first *request) (requests []*request, next *request) {
	size := int64(0)
	take := func(r *request) {
		if r.stage.CompareAndSwap(queued, taken) {
			requests, size = append(requests, r), size+int64(r.size)
		}
	}
	take(first)
	for range gathers {
		came := len(s.queue)
		for range came {
			r, ok := <-s.queue
			switch {
			case !ok:
				return requests, nil
			case len(requests) >= maxBatch, size+int64(r.size) > s.config.batchBytes():
				return requests, r
			}
			take(r)
		}
		runtime.Gosched() // those that the last commit has answered ask again at once
		if len(s.queue) == 0 {
			break
		}
	}
	return requests, nil
}

// commit makes one transaction of the requests and answers them.
func (s *Store) commit(requests []*request) {
	if len(requests) == 0 {
		return
	}
	touched, err := s.transact(requests)
	if err != nil {
		again, failed := s.spend(err, requests)
		s.answer(failed, nil, err)
		s.commit(again)
		return
	}
	s.answer(requests, touched, nil)
}

// answer tells those who wait what became of their requests.
func (s *Store) answer(requests []*request, touched *batch, err error) {
	if err != nil {
		s.count(func(st *Stats) { st.FailedCommits++; st.Broken = s.broken })
		err = fmt.Errorf("%w: %w", emit.ErrBackPressure, err)
		if s.undo && s.broken == nil {
			_ = s.putBack() // else the next transaction tries again
		}
	} else {
		s.publish(touched.consumers)
		size := s.measure()
		s.count(func(st *Stats) {
			st.Commits++
			st.Committed += int64(len(requests))
			st.FileBytes, st.UsedBytes = size, s.used
			st.BadRecords += touched.bad
		})
	}
	for _, r := range requests {
		r.err = err
		close(r.done)
	}
	if err != nil {
		s.tell(func(o *Observer) { call(o.CommitFailed, err) })
	} else {
		for _, event := range touched.events {
			s.tell(event)
		}
	}
	if s.unfitting {
		s.unfitting = false
		s.compactFile(func() bool { return false })
	}
}

// transact runs the requests in one transaction. After an error nothing of it is in the file, or will not be once putBack
// has succeeded, without which there is no other transaction.
func (s *Store) transact(requests []*request) (*batch, error) {
	if err := s.ready(); err != nil {
		return nil, err
	}
	var b *batch
	err := guarded(func() (err error) {
		b, err = s.begin()
		if err != nil {
			return err
		}
		defer b.tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
		if err := b.giveBack(); err != nil {
			return err
		}
		for _, r := range requests {
			if err := r.op.apply(b); err != nil {
				return err
			}
		}
		if err := b.finish(); err != nil {
			return err
		}
		return s.write(b.tx)
	})
	if err != nil {
		s.undo = true
		s.unfitting = errors.Is(err, bolterrors.ErrMaxSizeReached)
		if p, ok := errors.AsType[*panicked](err); ok {
			s.broken = p
		}
	}
	return b, err
}

// write commits the transaction, so that what it was before can be put back.
func (s *Store) write(tx *bbolt.Tx) error {
	if err := s.config.hooks.at(beforeCommit); err != nil {
		return err
	}
	if err := s.meta.save(s.path, s.file.db.Info().PageSize); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if err := s.config.hooks.at(afterCommit); err != nil {
		return err
	}
	s.meta.armed = false
	return nil
}

// ready makes the file fit for a transaction after a fault, or says why it is not.
func (s *Store) ready() error {
	if s.broken != nil {
		return fmt.Errorf("boltletters: the file is damaged, open the Store anew: %w", s.broken)
	}
	if s.unsynced {
		if err := syncDir(s.config.Dir); err != nil {
			return err
		}
		s.unsynced = false
	}
	if s.undo {
		return s.putBack()
	}
	return nil
}

// putBack puts back the state before a failed transaction: in the file, in bbolt and in memory.
func (s *Store) putBack() error {
	err := guarded(func() error {
		if err := s.reopen(); err != nil {
			return err
		}
		return s.load()
	})
	s.undo = err != nil
	return err
}

func (s *Store) reopen() (err error) {
	s.file.Lock()
	defer s.file.Unlock()
	if err := s.config.hooks.at(beforeRestore); err != nil {
		return err
	}
	if err := s.meta.restore(); err != nil {
		return err
	}
	s.meta.close()
	if s.file.db != nil {
		_ = s.file.db.Close() // its file was synced or is not needed
		s.file.db = nil
	}
	if err := s.config.hooks.at(reopening); err != nil {
		return err
	}
	s.file.db, s.file.raw, err = openFile(s.config, s.path)
	return err
}

// measure looks at how much of the file is in use, and returns its size.
func (s *Store) measure() (size int64) {
	db := s.file.db
	if info, err := os.Stat(s.path); err == nil {
		size = info.Size()
	}
	stats := db.Stats()
	_ = db.View(func(tx *bbolt.Tx) error {
		s.used = tx.Size() - int64(stats.FreePageN+stats.PendingPageN)*int64(db.Info().PageSize)
		return nil
	})
	return size
}

// A panicked is a panic of bbolt's, which means that the file is damaged.
type panicked struct{ reason any }

func (p *panicked) Error() string {
	return fmt.Sprintf("boltletters: reading the file panics: %v", p.reason)
}

// guarded runs f, and makes a panic or a fault of the mapped file an error.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &panicked{r}
		}
	}()
	return f()
}
