package pgxread_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// A hook of the pool that reads through the DB, with the context that it was given, once hung every call on its node:
// the clock asked that context, a call of its own, while it held its lock.
func TestHookThatReads(t *testing.T) {
	var w *watched
	var inside, told atomic.Bool
	w = open(t, quick(), []string{"r1"}, func(cfg *pgxread.Config) {
		before := cfg.Configure
		cfg.Configure = func(node string, c *pgxpool.Config) {
			before(node, c)
			if node != "r1" {
				return
			}
			c.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
				if w == nil || !inside.CompareAndSwap(false, true) {
					return true, nil
				}
				var n int
				err := w.Reader(replica.Requirement{}).QueryRow(ctx, "SELECT 7").Scan(&n)
				told.Store(err == nil && n == 7)
				return true, err
			}
		}
	})
	w.usable(t, "r1")
	inside.Store(false)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var n int
	if err := w.Reader(replica.Requirement{}).QueryRow(ctx, "SELECT 7").Scan(&n); err != nil || !told.Load() {
		t.Errorf("the read: %v; the hook's read succeeded: %v", err, told.Load())
	}
}

// REQ-R17, behaviours-routing 17: a replica whose pool is full when it is to be probed is not held open for it.
func TestFullPoolIsNoFailedProbe(t *testing.T) {
	w := open(t, quick(), []string{"r1"}, func(cfg *pgxread.Config) {
		cfg.CallTimeout = 200 * time.Millisecond
		before := cfg.Configure
		cfg.Configure = func(node string, c *pgxpool.Config) {
			before(node, c)
			c.MaxConns = 1
		}
	})
	w.usable(t, "r1")
	tx, err := w.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must(t, err)
	w.Set().Breaker("r1").Trip(breaker.Reason{Detail: "test"})
	halfOpen := func() bool { return w.Set().Breaker("r1").State() == breaker.HalfOpen }
	eventually(t, "half-open", halfOpen)
	ignored := func() bool { return w.Set().Breaker("r1").Stats().Ignored >= 2 }
	eventually(t, "two probes that waited for the pool", ignored)
	// Other openings may be: a machine that stalls lets a sample time out.
	if failed := of(w.seen("r1"), func(c change) bool { return c.Reason.Rule == breaker.RuleProbeFailure }); len(failed) > 0 {
		t.Errorf("failed probes: %+v, want none", failed)
	}
	must(t, tx.Rollback(t.Context()))
	eventually(t, "closed", func() bool { return w.Set().Breaker("r1").State() == breaker.Closed })
}
