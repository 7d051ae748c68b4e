package pgxread_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

func threeQueries() *pgx.Batch {
	b := &pgx.Batch{}
	b.Queue("SELECT g FROM generate_series(1, $1::int) g", 3)
	b.Queue("SELECT 'two'")
	b.Queue("SELECT 3")
	return b
}

// Every way of taking a batch's results gives what pgx gives.
func TestBatchResults(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	r := w.Reader(replica.Requirement{})
	ctx := t.Context()
	ends := map[string]func(t *testing.T){
		"Query, QueryRow, Exec": func(t *testing.T) {
			t.Helper()
			br := r.SendBatch(ctx, threeQueries())
			rows, err := br.Query()
			must(t, err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[int])
			var two string
			errTwo := br.QueryRow().Scan(&two)
			tag, errThree := br.Exec()
			if err := errors.Join(err, errTwo, errThree, br.Close(), br.Close()); err != nil || len(got) != 3 || two != "two" || tag.RowsAffected() != 1 {
				t.Errorf("%v, %q, %v, error %v", got, two, tag, err)
			}
		},
		"Exec first": func(t *testing.T) {
			t.Helper()
			br := r.SendBatch(ctx, threeQueries())
			tag, err := br.Exec()
			if err != nil || tag.RowsAffected() != 3 {
				t.Errorf("%v, %v, want 3 rows", tag, err)
			}
			must(t, br.Close())
		},
		"QueryRow first": func(t *testing.T) {
			t.Helper()
			br := r.SendBatch(ctx, threeQueries())
			var one int
			if err := br.QueryRow().Scan(&one); err != nil || one != 1 {
				t.Errorf("%d, %v, want 1", one, err)
			}
			must(t, br.Close())
		},
		"Close alone":     func(t *testing.T) { t.Helper(); must(t, r.SendBatch(ctx, threeQueries()).Close()) },
		"nothing queued":  func(t *testing.T) { t.Helper(); must(t, r.SendBatch(ctx, &pgx.Batch{}).Close()) },
		"functions":       func(t *testing.T) { t.Helper(); batchFunctions(t, r.SendBatch) },
		"functions on DB": func(t *testing.T) { t.Helper(); batchFunctions(t, w.SendBatch) },
		"function fails":  func(t *testing.T) { t.Helper(); batchFunctionFails(t, r.SendBatch) },
		"SQL error in the second": func(t *testing.T) {
			t.Helper()
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue("SELECT 1/0")
			br := r.SendBatch(ctx, b)
			_, err := br.Exec()
			must(t, err)
			_, err = br.Exec()
			if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
				t.Errorf("second: %v, want division by zero", err)
			}
			if br.Close() == nil {
				t.Error("Close: nil, want the error")
			}
		},
		"SQL error in the first": func(t *testing.T) {
			t.Helper()
			b := &pgx.Batch{}
			b.Queue("SELECT 1/0")
			if err := r.SendBatch(ctx, b).Close(); err == nil {
				t.Error("Close: nil, want the error")
			}
		},
		"transaction": func(t *testing.T) { t.Helper(); batchTx(t, r.SendBatch, ctx) },
		"transaction on DB": func(t *testing.T) {
			t.Helper()
			batchTx(t, w.SendBatch, ctx)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			end(t)
			w.idle(t, "r1")
			w.idle(t, "r2")
			eventually(t, "primary idle", func() bool { return w.Pool("primary").Stat().AcquiredConns() == 0 })
		})
	}
}

type sendBatch = func(context.Context, *pgx.Batch) pgx.BatchResults

func batchFunctions(t *testing.T, send sendBatch) {
	t.Helper()
	var order []string
	b := &pgx.Batch{}
	b.Queue("SELECT g FROM generate_series(1, 2) g").Query(func(rows pgx.Rows) error {
		got, err := pgx.CollectRows(rows, pgx.RowTo[int])
		if len(got) == 2 {
			order = append(order, "query")
		}
		return err
	})
	b.Queue("SELECT 5").QueryRow(func(row pgx.Row) error {
		order = append(order, "row")
		var n int
		return row.Scan(&n)
	})
	b.Queue("SELECT 6").Exec(func(pgconn.CommandTag) error {
		order = append(order, "exec")
		return nil
	})
	must(t, send(t.Context(), b).Close())
	if len(order) != 3 || order[0] != "query" || order[1] != "row" || order[2] != "exec" {
		t.Errorf("functions called: %v, want query, row, exec", order)
	}
}

func batchFunctionFails(t *testing.T, send sendBatch) {
	t.Helper()
	want, called := errors.New("no"), false
	b := &pgx.Batch{}
	b.Queue("SELECT 1").QueryRow(func(row pgx.Row) error {
		var n int
		_ = row.Scan(&n)
		return want
	})
	b.Queue("SELECT 2").QueryRow(func(pgx.Row) error { called = true; return nil })
	if err := send(t.Context(), b).Close(); !errors.Is(err, want) || called {
		t.Errorf("Close: %v, second function called: %v, want %v, false", err, called, want)
	}
}

// batchTx begins a transaction by a batch, goes on in it and ends it.
func batchTx(t *testing.T, send sendBatch, ctx context.Context) { //nolint:revive // t first, as everywhere in tests
	t.Helper()
	b := &pgx.Batch{}
	b.BeginTx(pgx.TxOptions{AccessMode: pgx.ReadOnly})
	b.Queue("SELECT 1")
	br := send(ctx, b)
	tx := br.Tx()
	if tx == nil {
		t.Fatal("no transaction")
	}
	defer tx.Rollback(ctx)
	must(t, br.Close())
	var one int
	must(t, tx.QueryRow(ctx, "SELECT 1").Scan(&one))
	must(t, tx.Commit(ctx))
}

// REQ-R6: a batch whose connection turns out to be dead is sent again as a whole.
func TestBatchIsSentAgainElsewhere(t *testing.T) {
	broken(t)
	w := open(t, blind(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	var info pgxread.ReadInfo
	ctx := pgxread.WithInfo(t.Context(), &info)
	calls := 0
	batch := func(i int) *pgx.Batch {
		b := &pgx.Batch{}
		b.Queue(fmt.Sprintf("SELECT g, %d FROM generate_series(1, $1::int) g", i), 3)
		b.Queue("SELECT 'two'").QueryRow(func(row pgx.Row) error {
			calls++
			var two string
			return row.Scan(&two)
		})
		return b
	}
	const batches = 20
	for i := range batches { // prepared on r1, and not on r2
		must(t, w.Reader(onR1).SendBatch(ctx, batch(i)).Close())
	}
	must(t, pg.Kill("r1"))
	again := 0
	for i := range batches {
		calls = 0
		must(t, w.Reader(replica.Requirement{}).SendBatch(ctx, batch(i)).Close())
		if calls != 1 || info.Node != "r2" {
			t.Errorf("function called %d times, by %s, want once, by r2", calls, info.Node)
		}
		again += info.Attempts - 1
	}
	if again == 0 {
		t.Errorf("none of %d batches was sent twice", batches)
	}
	w.idle(t, "r1")
	w.idle(t, "r2")
}
