package pgxread_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

var readOnly = pgx.TxOptions{AccessMode: pgx.ReadOnly}

const where = "SELECT current_setting('port')::int"

// A read-only transaction stays on its node, whatever its breaker does meanwhile.
func TestReadOnlyTransactionStaysOnItsNode(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	var info pgxread.ReadInfo
	ctx := pgxread.WithInfo(t.Context(), &info)
	tx, err := w.BeginTx(ctx, readOnly)
	must(t, err)
	defer tx.Rollback(ctx)
	if info.Primary || info.Attempts != 1 {
		t.Fatalf("began on %s after %d attempts, want a replica after 1", info.Node, info.Attempts)
	}
	node := info.Node
	must(t, w.Set().Breaker(node).Force(breaker.ForcedOpen, "test"))
	for range 10 {
		var port int
		must(t, tx.QueryRow(ctx, where).Scan(&port))
		if port != nodeOf(node).Port {
			t.Errorf("statement on port %d, want that of %s", port, node)
		}
	}
	sp, err := tx.Begin(ctx)
	must(t, err)
	_, err = sp.Exec(ctx, "SELECT 1/0")
	if err == nil {
		t.Error("no error of the statement in the savepoint")
	}
	must(t, sp.Rollback(ctx))
	b := &pgx.Batch{}
	b.Queue(where)
	must(t, tx.SendBatch(ctx, b).Close())
	rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
	must(t, err)
	if got, err := pgx.CollectRows(rows, pgx.RowTo[int]); err != nil || len(got) != 3 {
		t.Errorf("rows %v, %v, want 3", got, err)
	}
	if _, err := tx.Prepare(ctx, "p", "SELECT 1"); err != nil {
		t.Errorf("prepare: %v", err)
	}
	must(t, tx.Commit(ctx))
	if err := tx.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("Rollback after Commit: %v, want ErrTxClosed", err)
	}
	w.idle(t, node)
	must(t, w.Set().Breaker(node).Force(breaker.Closed, "test over"))
}

// Which transactions may use a replica.
func TestWhereTransactionsRun(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	serializable := pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.Serializable}
	ctx := t.Context()
	read := pgxread.WithRead(ctx, replica.Requirement{})
	r := w.Reader(replica.Requirement{})
	for _, c := range []struct {
		name    string
		begin   func() (pgx.Tx, error)
		replica bool
	}{
		{"Begin", func() (pgx.Tx, error) { return w.Begin(ctx) }, false},
		{"Begin under WithRead", func() (pgx.Tx, error) { return w.Begin(read) }, false},
		{"read-only", func() (pgx.Tx, error) { return w.BeginTx(ctx, readOnly) }, true},
		{"read-only, primary only", func() (pgx.Tx, error) {
			return w.BeginTx(pgxread.WithRead(ctx, replica.Requirement{PrimaryOnly: true}), readOnly)
		}, false},
		{"read-only, repeatable read", func() (pgx.Tx, error) {
			return w.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly, IsoLevel: pgx.RepeatableRead})
		}, true},
		{"read-only, serializable", func() (pgx.Tx, error) { return w.BeginTx(ctx, serializable) }, false},
		{"Reader", func() (pgx.Tx, error) { return r.Begin(ctx) }, true},
		{"Reader, serializable", func() (pgx.Tx, error) { return r.BeginTx(ctx, serializable) }, false},
	} {
		tx, err := c.begin()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var rec bool
		must(t, tx.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&rec))
		if rec != c.replica {
			t.Errorf("%s: on a replica: %v, want %v", c.name, rec, c.replica)
		}
		must(t, tx.Rollback(ctx))
	}
	if _, err := r.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadWrite}); !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("read-write transaction of a Reader: %v, want ErrWriteInRead", err)
	}
	w.idle(t, "r1")
	w.idle(t, "r2")
}

// A transaction gives its connection back and reports its outcome once, however it ends.
func TestTransactionEnds(t *testing.T) {
	broken(t)
	for name, c := range map[string]struct {
		end      func(t *testing.T, w *watched, tx pgx.Tx)
		failures uint64
	}{
		"rollback with a dead context": {func(t *testing.T, _ *watched, tx pgx.Tx) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := tx.Rollback(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Rollback: %v, want context.Canceled", err)
			}
		}, 0},
		"rollback after a failed statement": {func(t *testing.T, _ *watched, tx pgx.Tx) {
			t.Helper()
			_, _ = tx.Exec(t.Context(), "SELECT 1/0")
			must(t, tx.Rollback(t.Context()))
		}, 0},
		"commit after a failed statement": {func(t *testing.T, _ *watched, tx pgx.Tx) {
			t.Helper()
			_, _ = tx.Exec(t.Context(), "SELECT 1/0")
			if err := tx.Commit(t.Context()); !errors.Is(err, pgx.ErrTxCommitRollback) {
				t.Errorf("Commit: %v, want ErrTxCommitRollback", err)
			}
		}, 0},
		"statement past its timeout": {func(t *testing.T, _ *watched, tx pgx.Tx) {
			t.Helper()
			ctx := pgxread.WithCallTimeout(t.Context(), 100*time.Millisecond)
			if _, err := tx.Exec(ctx, "SELECT pg_sleep(30)"); !errors.Is(err, pgxread.ErrCallTimeout) {
				t.Errorf("statement: %v, want ErrCallTimeout", err)
			}
			_ = tx.Rollback(t.Context())
		}, 1},
		"server killed": {func(t *testing.T, _ *watched, tx pgx.Tx) {
			t.Helper()
			must(t, pg.Kill("r1"))
			if _, err := tx.Exec(t.Context(), "SELECT 1"); err == nil {
				t.Error("statement on a dead server: nil")
			}
			_, _ = tx.Exec(t.Context(), "SELECT 1")
			_ = tx.Rollback(t.Context())
			_ = tx.Rollback(t.Context())
			must(t, pg.Restart(t.Context(), "r1"))
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			s := blind()
			s.Open.Base, s.Open.Max = time.Minute, time.Minute // no probe counts too
			w := open(t, s, []string{"r1"})
			w.usable(t, "r1")
			tx, err := w.BeginTx(t.Context(), readOnly)
			must(t, err)
			c.end(t, w, tx)
			w.idle(t, "r1")
			// Late: the sampler may have opened the breaker first.
			if st := w.stats("r1"); st.Breaker.Failures+st.Breaker.Late != c.failures || st.Reads != 1 {
				t.Errorf("%d reads, %d failures, %d late, want 1, %d", st.Reads, st.Breaker.Failures, st.Breaker.Late, c.failures)
			}
		})
	}
}

// REQ-R6: a BEGIN that failed is tried once elsewhere, a later statement never.
func TestFailedBeginIsTriedElsewhere(t *testing.T) {
	broken(t)
	w := open(t, blind(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.spread(t, 30)
	must(t, pg.Kill("r1"))
	var info pgxread.ReadInfo
	ctx := pgxread.WithInfo(t.Context(), &info)
	eventually(t, "a BEGIN was tried twice", func() bool {
		tx, err := w.BeginTx(ctx, readOnly)
		must(t, err)
		must(t, tx.Rollback(ctx))
		return info.Attempts == 2
	})
	w.idle(t, "r1")
	w.idle(t, "r2")
}
