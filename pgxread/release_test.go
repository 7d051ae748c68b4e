package pgxread_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/replica"
)

// explosive panics when it is scanned into.
type explosive struct{}

func (*explosive) Scan(any) error { panic("scan") }

// rewriter panics or fails before the statement is sent.
type rewriter struct{ err error }

func (r rewriter) RewriteQuery(context.Context, *pgx.Conn, string, []any) (string, []any, error) {
	if r.err == nil {
		panic("rewrite")
	}
	return "", nil, r.err
}

// However a read ends, its connection and its place are given back.
func TestNothingLeaks(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	r := w.Reader(replica.Requirement{})
	ctx := t.Context()
	many := "SELECT generate_series(1, 1000)"
	ends := map[string]func(t *testing.T){
		"all rows": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, many)
			must(t, err)
			got, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil || len(got) != 1000 || got[0] != 1 || got[999] != 1000 || rows.CommandTag().RowsAffected() != 1000 {
				t.Errorf("%d rows, tag %v, error %v, want 1000 in order", len(got), rows.CommandTag(), err)
			}
		},
		"early close": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, many)
			must(t, err)
			rows.Next()
			rows.Close()
			rows.Close()
			if rows.Err() != nil || rows.Next() {
				t.Errorf("after Close: error %v, want nil and no further row", rows.Err())
			}
		},
		"close before the first row": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, many)
			must(t, err)
			rows.Close()
		},
		"no rows, columns known": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, "SELECT 1 AS one WHERE false")
			must(t, err)
			if fd := rows.FieldDescriptions(); len(fd) != 1 || fd[0].Name != "one" {
				t.Errorf("columns %v, want one", fd)
			}
			if rows.Next() {
				t.Error("a row, want none")
			}
			must(t, rows.Err())
		},
		"scan error": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, "SELECT 'text'")
			must(t, err)
			var n int
			if rows.Next(); rows.Scan(&n) == nil || rows.Err() == nil {
				t.Error("no error, want one")
			}
		},
		"error after rows": func(t *testing.T) {
			t.Helper()
			rows, err := r.Query(ctx, "SELECT 1/(3-g) FROM generate_series(1, 5) g")
			must(t, err)
			n := 0
			for rows.Next() {
				n++
			}
			if rows.Err() == nil {
				t.Errorf("no error after %d rows, want division by zero", n)
			}
		},
		"no row": func(t *testing.T) {
			t.Helper()
			var n int
			if err := r.QueryRow(ctx, "SELECT 1 WHERE false").Scan(&n); !errors.Is(err, pgx.ErrNoRows) {
				t.Errorf("error %v, want ErrNoRows", err)
			}
		},
		"first of many": func(t *testing.T) {
			t.Helper()
			var n int
			if err := r.QueryRow(ctx, many).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d, %v, want 1, nil", n, err)
			}
		},
		"panic in Scan": func(t *testing.T) {
			t.Helper()
			defer func() { _ = recover() }()
			_ = r.QueryRow(ctx, "SELECT 'text'").Scan(&explosive{})
			t.Error("no panic")
		},
		"panic in the statement": func(t *testing.T) {
			t.Helper()
			defer func() { _ = recover() }()
			_, _ = r.Exec(ctx, "SELECT 1", rewriter{})
			t.Error("no panic")
		},
		"error before the statement": func(t *testing.T) {
			t.Helper()
			want := errors.New("no")
			if _, err := r.Exec(ctx, "SELECT 1", rewriter{want}); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		},
		"cancelled between rows": func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithCancel(ctx)
			rows, err := r.Query(ctx, "SELECT repeat('x', 10000), pg_sleep(0.01) FROM generate_series(1, 1000)")
			must(t, err)
			rows.Next()
			cancel()
			for rows.Next() {
			}
			if !errors.Is(rows.Err(), context.Canceled) {
				t.Errorf("error %v, want context.Canceled", rows.Err())
			}
		},
		"cancelled before": func(t *testing.T) {
			t.Helper()
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := r.Exec(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
		},
		"Exec": func(t *testing.T) {
			t.Helper()
			tag, err := r.Exec(ctx, many)
			if err != nil || tag.RowsAffected() != 1000 {
				t.Errorf("%v, %v, want 1000 rows", tag, err)
			}
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			end(t)
			w.idle(t, "r1")
			w.idle(t, "r2")
		})
	}
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.Failures != 0 {
			t.Errorf("%s: %d failures, want 0", n, b.Failures)
		}
	}
}
