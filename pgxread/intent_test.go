package pgxread_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// behaviours-routing 44: a write in a read is refused by the server, told as such, and
// never tried again, counted, or sent to the primary.
func TestWriteInReadIsRefused(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	const sql = "WITH x AS (INSERT INTO item (note) VALUES ('hidden') RETURNING 1) SELECT 1"
	r := w.Reader(replica.Requirement{})
	var info pgxread.ReadInfo
	ctx := pgxread.WithInfo(t.Context(), &info)
	for name, call := range map[string]func() error{
		"Exec":     func() error { _, err := r.Exec(ctx, sql); return err },
		"Query":    func() error { rows, err := r.Query(ctx, sql); rows.Close(); return err },
		"QueryRow": func() error { var n int; return r.QueryRow(ctx, sql).Scan(&n) },
		"SendBatch": func() error {
			b := &pgx.Batch{}
			b.Queue(sql)
			return r.SendBatch(ctx, b).Close()
		},
		"second of a batch": func() error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			b.Queue(sql)
			br := r.SendBatch(ctx, b)
			_, err := br.Exec()
			must(t, err)
			var n int
			err = br.QueryRow().Scan(&n)
			if again := br.Close(); !errors.Is(again, pgxread.ErrWriteInRead) {
				t.Errorf("Close of the batch: %v, want ErrWriteInRead", again)
			}
			return err
		},
		"transaction": func() error {
			tx, err := r.Begin(ctx)
			must(t, err)
			defer tx.Rollback(ctx)
			_, err = tx.Exec(ctx, sql)
			return err
		},
	} {
		err := call()
		told, ok := errors.AsType[*pgxread.WriteInReadError](err)
		if !ok || !errors.Is(err, pgxread.ErrWriteInRead) {
			t.Errorf("%s: error %v, want ErrWriteInRead", name, err)
			continue
		}
		pgErr, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || pgErr.Code != "25006" || told.Node != info.Node || info.Primary || info.Attempts != 1 {
			t.Errorf("%s: %+v on %s after %d attempts, want SQLSTATE 25006 of the first replica", name, told, info.Node, info.Attempts)
		}
	}
	var hidden int
	must(t, w.QueryRow(t.Context(), "SELECT count(*) FROM item WHERE note = 'hidden'").Scan(&hidden))
	if hidden != 0 {
		t.Errorf("%d rows were written, want 0", hidden)
	}
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.State != breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v with %d failures, want closed with 0", n, b.State, b.Failures)
		}
		w.idle(t, n)
	}
}

// REQ-R13: what a call is, its method or its context says, never its text.
func TestIntentIsExplicit(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	inRecovery := func(q interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}, ctx context.Context,
	) bool {
		var rec bool
		must(t, q.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&rec))
		return rec
	}
	ctx := t.Context()
	read := pgxread.WithRead(ctx, replica.Requirement{})
	primary := replica.Requirement{PrimaryOnly: true}
	for _, c := range []struct {
		name string
		got  bool
		want bool
	}{
		{"DB", inRecovery(w, ctx), false},
		{"DB under WithRead", inRecovery(w, read), true},
		{"DB under WithRead, primary only", inRecovery(w, pgxread.WithRead(ctx, primary)), false},
		{"Reader", inRecovery(w.Reader(replica.Requirement{}), ctx), true},
		{"Reader, primary only", inRecovery(w.Reader(primary), ctx), false},
		{"Reader, primary only, under WithRead", inRecovery(w.Reader(primary), read), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: answered by a replica: %v, want %v", c.name, c.got, c.want)
		}
	}
	if _, err := w.CopyFrom(read, pgx.Identifier{"item"}, []string{"note"}, pgx.CopyFromRows(nil)); !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("CopyFrom under WithRead: %v, want ErrWriteInRead", err)
	}
	if _, err := w.Reader(primary).CopyFrom(ctx, nil, nil, nil); !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("CopyFrom of a Reader: %v, want ErrWriteInRead", err)
	}
	if _, err := w.Exec(read, "SELECT 1"); err != nil {
		t.Errorf("Exec under WithRead: %v, want nil", err)
	}
}

// REQ-R12: a read's own bound is compared with the replica's bound, and ReadInfo tells both.
func TestReadInfoAndBound(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	info, err := w.port(t.Context(), replica.Requirement{MaxStaleness: replica.Never})
	must(t, err)
	if info.Node == "" || info.Primary || info.Unverified || info.Attempts != 1 || info.PickedAt.IsZero() || info.Hi <= 0 || info.Hi < info.Lo {
		t.Errorf("info %+v, want one attempt on a replica with bounds", info)
	}
	_, err = w.port(t.Context(), replica.Requirement{MaxStaleness: 1}) // 1 ns
	reason(t, err, "r1", replica.Stale)
	info, err = w.port(t.Context(), replica.Requirement{PrimaryOnly: true})
	must(t, err)
	if info.Node != "primary" || !info.Primary || info.Hi != 0 {
		t.Errorf("info %+v, want the primary, Hi 0", info)
	}
}
