package sqlread_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// written moves the primary on and returns its position, which those replicas have replayed.
func (r *rig) written(by ...*server) replica.Position {
	r.t.Helper()
	for _, s := range append(by, r.primary) {
		s.moved.Add(8)
	}
	p, err := r.Set().Position(r.t.Context())
	r.must(err)
	return p
}

// REQ-R12, REQ-R16: a read under a position goes to a replica that has replayed it, and waits for one.
func TestReadUnderAPosition(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		p := r.written(r.r[1])
		ctx := replica.WithPosition(r.t.Context(), p)
		for range 20 {
			if info, err := r.read(ctx, replica.Requirement{}); err != nil || info.Node != "r2" {
				r.t.Fatalf("got %+v, %v; want r2, which alone has replayed it", info, err)
			}
		}
		time.AfterFunc(100*time.Millisecond, func() { r.r[0].moved.Add(8) })
		asked := time.Now()
		info, err := r.read(ctx, only(r.r[0]))
		if took := time.Since(asked); err != nil || info.Node != "r1" || took < 100*time.Millisecond || took >= replica.DefaultAwait {
			r.t.Errorf("got %+v, %v after %v; want r1 once it has replayed it", info, err, took)
		}
		p.SystemID = "8"
		if _, err := r.read(ctx, replica.Requirement{Position: p}); !errors.Is(err, replica.ErrForeignPosition) {
			r.t.Errorf("positions of two clusters: got %v, want ErrForeignPosition", err)
		}
	})
}

// REQ-R12: a read for whose position no replica comes in time fails, however it is said to be one.
func TestNoReplicaHasThePosition(t *testing.T) {
	for name, read := range map[string]func(*rig, context.Context) error{
		"a reader's transaction": func(r *rig, ctx context.Context) error {
			return begun(r.Reader(replica.Requirement{}).BeginTx(ctx, nil))
		},
		"a context's read": func(r *rig, ctx context.Context) error {
			return r.PingContext(sqlread.WithRead(ctx, replica.Requirement{}))
		},
		"a read-only transaction": func(r *rig, ctx context.Context) error { return begun(r.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})) },
	} {
		inBubble(t, 1, nil, func(r *rig) {
			ctx, asked := replica.WithPosition(r.t.Context(), r.written()), time.Now()
			if err := read(r, ctx); !errors.Is(err, replica.ErrBehind) || time.Since(asked) != replica.DefaultAwait {
				r.t.Errorf("%s: got %v after %v, want ErrBehind after %v", name, err, time.Since(asked), replica.DefaultAwait)
			}
		})
	}
}

// begun ends a transaction.
func begun(tx interface{ Rollback() error }, err error) error {
	if err != nil {
		return err
	}
	return tx.Rollback()
}

// PositionWait bounds the wait, and negative there is none.
func TestPositionWait(t *testing.T) {
	for wait, want := range map[time.Duration]time.Duration{-1: 0, 50 * time.Millisecond: 50 * time.Millisecond} {
		inBubble(t, 1, func(_ *rig, cfg *sqlread.Config) { cfg.PositionWait = wait }, func(r *rig) {
			ctx, asked := replica.WithPosition(r.t.Context(), r.written()), time.Now()
			_, err := r.read(ctx, replica.Requirement{})
			if took := time.Since(asked); !errors.Is(err, replica.ErrBehind) || took != want {
				r.t.Errorf("PositionWait %v: got %v after %v, want ErrBehind after %v", wait, err, took, want)
			}
		})
	}
}
