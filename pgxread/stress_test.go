package pgxread_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// behaviours-routing 45b: reads and writes from 64 goroutines over sets of one and of
// three, while nodes come and go. Nothing panics, hangs, races or is lost.
func TestManyAtOnce(t *testing.T) {
	calls := 40_000 // about 10 s; three times that with -race
	if os.Getenv("BREAKWATER_PROVE") != "" {
		calls = 1_000_000
	}
	// The load itself, on few processors, must not make a replica late or slow.
	s := quick()
	s.Trip, s.Reenter, s.Calm, s.SampleTimeout = replica.Never, 0, time.Minute, 30*time.Second
	w := open(t, s, []string{"r1", "r2", "r3"}, func(c *pgxread.Config) {
		for i := range c.Replicas {
			c.Replicas[i].DSN += "&pool_max_conns=12"
		}
		c.ConnectTimeout, c.CallTimeout = 30*time.Second, time.Minute
	})
	w.usable(t, "r1", "r2", "r3")
	must(t, runSQL(t.Context(), dsn("primary"), "TRUNCATE tick"))
	var next, reads, writes, refused, moves atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(calls); i = next.Add(1) {
				switch {
				case i%1000 == 0:
					if w.RemoveReplica("r3") == nil {
						moves.Add(1)
						if err := w.AddReplica(pgxread.Node{Name: "r3", DSN: dsn("r3")}); err != nil {
							t.Errorf("AddReplica: %v", err)
						}
					}
				case i%10 == 0:
					if _, err := w.Exec(t.Context(), "INSERT INTO tick VALUES ($1)", i); err != nil {
						t.Errorf("write: %v", err)
					}
					writes.Add(1)
				case i%10 == 1:
					if !stressTx(t, w) {
						refused.Add(1)
					}
				default:
					_, err := w.port(t.Context(), replica.Requirement{})
					switch {
					case err == nil:
						reads.Add(1)
					case errors.Is(err, replica.ErrSaturated):
						refused.Add(1)
					default:
						t.Errorf("read: %v", err)
					}
				}
			}
		})
	}
	wg.Wait()
	var rows int64
	must(t, w.QueryRow(t.Context(), "SELECT count(*) FROM tick").Scan(&rows))
	if rows != writes.Load() || reads.Load() == 0 || moves.Load() == 0 {
		t.Errorf("%d rows of %d writes, %d reads, %d moves", rows, writes.Load(), reads.Load(), moves.Load())
	}
	t.Logf("%d reads, %d writes, %d refused as saturated, %d moves", reads.Load(), writes.Load(), refused.Load(), moves.Load())
	for _, n := range []string{"r1", "r2", "r3"} {
		w.idle(t, n)
		if b := w.stats(n).Breaker; b.Failures != 0 {
			t.Errorf("%s: %d failures, want 0", n, b.Failures)
		}
	}
}

// stressTx makes two reads in one transaction, which must be answered by one session.
func stressTx(t *testing.T, w *watched) bool {
	t.Helper()
	ctx := t.Context()
	tx, err := w.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if errors.Is(err, replica.ErrSaturated) {
		return false
	}
	if err != nil {
		t.Errorf("begin: %v", err)
		return false
	}
	defer tx.Rollback(ctx)
	var a, b int
	errA := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&a)
	errB := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&b)
	if err := errors.Join(errA, errB, tx.Commit(ctx)); err != nil || a != b {
		t.Errorf("transaction in sessions %d and %d, error %v", a, b, err)
	}
	return true
}
