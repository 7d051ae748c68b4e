package pgxread_test

import (
	"context"
	"errors"
	"maps"
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
	calls := maps.Clone(statements)
	calls["second of a batch"] = secondOfABatch(t)
	for name, call := range calls {
		var info pgxread.ReadInfo
		err := call(pgxread.WithInfo(t.Context(), &info), w.Reader(replica.Requirement{}), hide("read"))
		refused(t, name, err, &info)
		if info.Primary {
			t.Errorf("%s: sent to the primary", name)
		}
	}
	if n := w.hidden(t, "read"); n != 0 {
		t.Errorf("%d rows were written, want 0", n)
	}
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.State != breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v with %d failures, want closed with 0", n, b.State, b.Failures)
		}
		w.idle(t, n)
	}
}

// behaviours-routing 44: a read that its caller wants on the primary runs in sessions that
// can write, as Reader's comment says: a write in it happens, once. In a transaction, which is
// read-only, it is refused there too.
func TestWriteInReadOfThePrimary(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	for name, call := range statements {
		t.Cleanup(func() {
			must(t, runSQL(context.Background(), dsn("primary"), "DELETE FROM item WHERE note = '"+name+"'"))
		})
		var info pgxread.ReadInfo
		err := call(pgxread.WithInfo(t.Context(), &info), w.Reader(replica.Requirement{PrimaryOnly: true}), hide(name))
		refused(t, name, err, &info)
		if info.Node != "primary" || !info.Primary || info.Attempts != 1 {
			t.Errorf("%s: %d attempts, the last on %s, want 1 on the primary", name, info.Attempts, info.Node)
		}
		if got := w.hidden(t, name); got != 0 {
			t.Errorf("%s: %d rows were written, want none", name, got)
		}
	}
}

// hide is a statement that looks like a read.
func hide(note string) string {
	return "WITH x AS (INSERT INTO item (note) VALUES ('" + note + "') RETURNING 1) SELECT 1"
}

func (w *watched) hidden(t *testing.T, note string) (rows int) {
	t.Helper()
	must(t, w.QueryRow(t.Context(), "SELECT count(*) FROM item WHERE note = $1", note).Scan(&rows))
	return rows
}

// refused checks that a call's one attempt was refused as a write, by the node of info.
func refused(t *testing.T, name string, err error, info *pgxread.ReadInfo) {
	t.Helper()
	told, ok := errors.AsType[*pgxread.WriteInReadError](err)
	if !ok || !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("%s: error %v, want ErrWriteInRead", name, err)
		return
	}
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pgErr.Code != "25006" || told.Node != info.Node || info.Attempts != 1 {
		t.Errorf("%s: %+v on %s after %d attempts, want SQLSTATE 25006 of the first node", name, told, info.Node, info.Attempts)
	}
}

// secondOfABatch runs a statement as the second of a batch whose first one is answered.
func secondOfABatch(t *testing.T) func(context.Context, *pgxread.Reader, string) error {
	t.Helper()
	return func(ctx context.Context, r *pgxread.Reader, sql string) error {
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
