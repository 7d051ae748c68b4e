package pgxread_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// A spy is a tracer of pgx that asks for the call of each statement, but for those of checks.
type spy struct {
	mu   sync.Mutex
	seen []seen
}

type seen struct {
	info    pgxread.ReadInfo
	state   breaker.State
	outcome breaker.Outcome
}

func (s *spy) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (s *spy) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	call, ok := pgxread.CallOf(ctx)
	if !ok || pgxread.IsCheck(ctx) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, seen{call.Info(), call.State(), call.Outcome(data.Err)})
}

// last is what was seen last, and how much since it was asked before.
func (s *spy) last(t *testing.T) (seen, int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.seen)
	if n == 0 {
		t.Fatal("the tracer found no call")
	}
	last := s.seen[n-1]
	s.seen = nil
	return last, n
}

// A tracer of pgx learns from CallOf where a statement was sent, and what it counts as.
func TestCallOf(t *testing.T) {
	s := &spy{}
	w := open(t, quick(), []string{"r1"}, func(cfg *pgxread.Config) {
		before := cfg.Configure
		cfg.Configure = func(node string, c *pgxpool.Config) {
			before(node, c)
			c.ConnConfig.Tracer = s
		}
	})
	w.usable(t, "r1")
	if _, ok := pgxread.CallOf(t.Context()); ok {
		t.Error("a caller's own context has a call")
	}
	var n int
	var info pgxread.ReadInfo
	must(t, w.Reader(replica.Requirement{}).QueryRow(pgxread.WithInfo(t.Context(), &info), "SELECT 7").Scan(&n))
	got, _ := s.last(t)
	if got.info != info || info.Node != "r1" || info.Attempts != 1 || got.state != breaker.Closed || got.outcome != breaker.Success {
		t.Errorf("a read: got %+v, want %+v", got, info)
	}
	_, err := w.Exec(t.Context(), "SELECT 1/0")
	if err == nil {
		t.Fatal("no error")
	}
	if got, _ = s.last(t); got.info != (pgxread.ReadInfo{Node: "primary", Primary: true}) || got.outcome != breaker.Ignored {
		t.Errorf("a write that is at fault itself: got %+v", got)
	}
	tx, err := w.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must(t, err)
	defer tx.Rollback(t.Context())
	must(t, tx.QueryRow(t.Context(), "SELECT 7").Scan(&n))
	if got, _ = s.last(t); got.info.Node != "r1" || got.info.PickedAt.IsZero() {
		t.Errorf("a statement in a transaction: got %+v, want what was said of its begin", got)
	}
}
