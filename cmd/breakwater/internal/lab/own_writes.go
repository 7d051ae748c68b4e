package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

const (
	ownWrites     = 1000
	ownWriters    = 8                     // at once
	ownDelay      = 50 * time.Millisecond // of every replica
	ownWritesOver = 2 * time.Minute
)

// ownWriteScenarios are those in which a client reads what it has just written.
func ownWriteScenarios() []Scenario {
	return []Scenario{{
		Name: "own-writes", Shows: "all replicas 50 ms late; 1,000 rows are each read right after their commit: none is missing, replicas serve most",
		Lasts: ownWritesOver, shortest: ownWritesOver / 4, replicas: 1, real: true,
		classes: &classes{mix: mixed, rate: 200}, play: playOwnWrites, expect: expectOwnWrites,
	}}
}

func playOwnWrites(ctx context.Context, r *run, length time.Duration) error {
	if err := Wait(ctx, settled); err != nil {
		return err
	}
	r.enter(during)
	for _, name := range r.replicas() {
		if err := r.delayReplay(ctx, name, ownDelay); err != nil {
			return err
		}
	}
	err := r.writeAndRead(ctx, r.now()+length)
	for _, name := range r.replicas() {
		if ctx.Err() == nil {
			err = errors.Join(err, r.delayReplay(ctx, name, 0))
		}
	}
	return errors.Join(err, ctx.Err())
}

func (r *run) delayReplay(ctx context.Context, name string, d time.Duration) error {
	phase := "begin"
	if d == 0 {
		phase = "end"
	}
	err := r.fleet.SetApplyDelay(ctx, name, d)
	r.tellFault("replay_delayed", name, phase, err)
	if err != nil {
		return fmt.Errorf("delaying replay on %s: %w", name, err)
	}
	return nil
}

// writeAndRead inserts rows by a few writers at once and reads each back, until there are 1,000 or the time has passed.
func (r *run) writeAndRead(ctx context.Context, end time.Duration) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	failed := make([]error, ownWriters)
	for i := range failed {
		wg.Go(func() {
			for failed[i] == nil && ctx.Err() == nil && r.now() < end {
				id := next.Add(1)
				if id > ownWrites {
					return
				}
				failed[i] = r.ownWrite(ctx, id)
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// ownWrite commits a row with its position, and reads it with that.
func (r *run) ownWrite(ctx context.Context, id int64) error {
	pos, err := r.insert(ctx, id)
	if err != nil {
		return fmt.Errorf("inserting row %d: %w", id, err)
	}
	call := readpath.Call{Endpoint: balance}
	res, err := readpath.Get(replica.WithPosition(ctx, pos), r.path.router, call, func(ctx context.Context) (n int, err error) {
		err = r.db.QueryRow(ctx, truth.FindSQL, id).Scan(&n)
		return n, err
	})
	if err != nil {
		return fmt.Errorf("reading row %d: %w", id, err)
	}
	r.rec.ownRead(res.Value == 1, res.Source == readpath.FromReplica)
	return nil
}

func (r *run) insert(ctx context.Context, id int64) (pos replica.Position, err error) {
	tx, err := r.db.Begin(ctx)
	if err != nil {
		return pos, err
	}
	if _, err = tx.Exec(ctx, truth.InsertSQL, id); err != nil {
		return pos, errors.Join(err, tx.Rollback(ctx))
	}
	return pgxread.CommitPosition(ctx, tx)
}
