package simfleet_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/simfleet"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/internal/relay"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, replicas int) *simfleet.Fleet {
	t.Helper()
	f, err := simfleet.Start(t.Context(), replicas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// pool is an unmodified pgxpool on a node.
func pool(t *testing.T, f *simfleet.Fleet, node int) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), f.Nodes()[node].DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func write(t *testing.T, p *pgxpool.Pool, n int64) {
	t.Helper()
	if _, err := p.Exec(t.Context(), truth.WriteSQL, n, "on"); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, p *pgxpool.Pool) (n int64) {
	t.Helper()
	if err := p.QueryRow(t.Context(), truth.ReadSQL).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func look(t *testing.T, p *pgxpool.Pool) replica.Look {
	t.Helper()
	l, err := postgres.ScanLook(p.QueryRow(t.Context(), postgres.SampleSQL))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplicasShowWhatThePrimaryCommitted(t *testing.T) {
	f := start(t, 2)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	write(t, primary, 7)
	if got := read(t, r1); got != 7 {
		t.Errorf("r1: got %d, want 7", got)
	}
	p, r := look(t, primary), look(t, r1)
	if p.InRecovery || !r.InRecovery || p.SystemID != r.SystemID || p.Instance == r.Instance {
		t.Errorf("looks: got %+v and %+v", p, r)
	}
	if p.Position == 0 || p.Position != r.Position || p.Flushed != p.Position {
		t.Errorf("positions: got %d, flushed %d, and %d, want the same", p.Position, p.Flushed, r.Position)
	}
}

// A paused replica receives and does not replay; one that is cut off does neither, and
// its receiver knows of a refusal only.
func TestLagFaults(t *testing.T) {
	f := start(t, 1)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	tests := []struct {
		name         string
		begin, heal  func() error
		receives     bool
		receiverDown bool
	}{
		{"paused", func() error { return f.Pause(t.Context(), "r1") }, func() error { return f.Resume(t.Context(), "r1") }, true, false},
		{"refused", func() error { return f.CutLink("r1", relay.Refuse) }, func() error { return f.HealLink("r1") }, false, true},
		{"swallowed", func() error { return f.CutLink("r1", relay.Blackhole) }, func() error { return f.HealLink("r1") }, false, false},
	}
	for i, tt := range tests {
		before := int64(10 * (i + 1))
		write(t, primary, before)
		must(t, tt.begin())
		write(t, primary, before+1)
		if got := read(t, r1); got != before {
			t.Errorf("%s: got %d, want %d", tt.name, got, before)
		}
		l, p := look(t, r1), look(t, primary)
		if l.Position >= p.Position || l.Received == p.Position != tt.receives || l.ReceiverDown != tt.receiverDown {
			t.Errorf("%s: got %+v while the primary is at %d", tt.name, l, p.Position)
		}
		must(t, tt.heal())
		if got := read(t, r1); got != before+1 {
			t.Errorf("%s, healed: got %d, want %d", tt.name, got, before+1)
		}
	}
}

func TestFrozenNodeAnswersAfterTheThaw(t *testing.T) {
	f := start(t, 1)
	r1 := pool(t, f, 1)
	read(t, r1)
	must(t, f.Freeze("r1"))
	answered := make(chan error, 1)
	go func() {
		var n int64
		answered <- r1.QueryRow(context.WithoutCancel(t.Context()), truth.ReadSQL).Scan(&n)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := pgx.Connect(ctx, f.Nodes()[1].DSN); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connecting to a frozen node: got %v, %v, want a timeout", conn, err)
	}
	select {
	case err := <-answered:
		t.Errorf("a frozen node answered: %v", err)
	default:
	}
	must(t, f.Thaw("r1"))
	if err := <-answered; err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}

func TestKilledNodeComesBackOnItsPort(t *testing.T) {
	f := start(t, 1)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	first := look(t, r1).Instance
	must(t, f.Kill("r1"))
	_, err := pgx.Connect(t.Context(), f.Nodes()[1].DSN)
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("connecting to a killed node: got %v, want connection refused", err)
	}
	write(t, primary, 5)
	must(t, f.Restart(t.Context(), "r1"))
	r1.Reset()
	if got := read(t, r1); got != 5 {
		t.Errorf("restarted: got %d, want 5", got)
	}
	if look(t, r1).Instance == first {
		t.Error("restarted: got the instance of before")
	}
}

// At a segment's start the insert position counts a header that replicas never reach.
func TestSegmentSwitchIsNoLag(t *testing.T) {
	f := start(t, 1)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	write(t, primary, 1)
	must(t, f.SwitchSegment(t.Context()))
	if p, r := look(t, primary), look(t, r1); p.Position != r.Position {
		t.Errorf("positions after a switch: got %d and %d, want the same once normalised", p.Position, r.Position)
	}
}

// Records as long as these would end right behind a page's header at every 1,024th: a primary that
// told such a position would seem to be behind its own replica.
func TestEveryCommitIsReached(t *testing.T) {
	f := start(t, 1)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	for n := range int64(2 * 1024) {
		write(t, primary, n)
		if p, r := look(t, primary), look(t, r1); p.Position != r.Position {
			t.Fatalf("after commit %d: the primary is at %d, the replica at %d", n, p.Position, r.Position)
		}
	}
}

func TestOnlyTheClosedSetIsAnswered(t *testing.T) {
	f := start(t, 1)
	r1 := pool(t, f, 1)
	tests := []struct {
		name, sql, code, text string
		args                  []any
	}{
		{"unknown", "SELECT * FROM customers", "0A000", "the simulated fleet does not know the statement", nil},
		{"a write on a replica", truth.WriteSQL, postgres.ReadOnlyTransaction, "read-only", []any{int64(1), "on"}},
	}
	for _, tt := range tests {
		_, err := r1.Exec(t.Context(), tt.sql, tt.args...)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != tt.code || !strings.Contains(pg.Message, tt.text) {
			t.Errorf("%s: got %v, want %s with %q", tt.name, err, tt.code, tt.text)
		}
	}
	read(t, r1) // the connection is none the worse
}

// What an unmodified pgx does besides: transactions, batches, every query mode.
func TestProtocol(t *testing.T) {
	f := start(t, 1)
	r1 := pool(t, f, 1)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		var n int64
		if err := r1.QueryRow(t.Context(), truth.ReadSQL, mode).Scan(&n); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	tx, err := r1.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	must(t, err)
	b := &pgx.Batch{}
	for range 3 {
		b.Queue(truth.ReadSQL)
	}
	must(t, tx.SendBatch(t.Context(), b).Close())
	must(t, tx.Commit(t.Context()))
	must(t, r1.Ping(t.Context()))
	_, err = r1.Exec(t.Context(), "SELECT 1")
	must(t, err)
}

// A replica with a delay shows what had been committed so long before, goes on receiving, and takes nothing back when the
// delay grows.
func TestApplyDelay(t *testing.T) {
	f := start(t, 1)
	primary, r1 := pool(t, f, 0), pool(t, f, 1)
	write(t, primary, 7)
	if got := read(t, r1); got != 7 {
		t.Fatalf("without a delay: got %d, want 7", got)
	}
	must(t, f.SetApplyDelay(t.Context(), "r1", time.Hour))
	write(t, primary, 8)
	if got := read(t, r1); got != 7 {
		t.Errorf("delayed by an hour: got %d, want 7", got)
	}
	if l, p := look(t, r1), look(t, primary); l.Received != p.Position || l.Position >= p.Position {
		t.Errorf("got %+v while the primary is at %d, want it received and not replayed", l, p.Position)
	}
	must(t, f.SetApplyDelay(t.Context(), "r1", time.Nanosecond))
	if got := read(t, r1); got != 8 {
		t.Errorf("delayed by nothing to speak of: got %d, want 8", got)
	}
	must(t, f.SetApplyDelay(t.Context(), "r1", time.Hour))
	must(t, f.Heal(t.Context()))
	write(t, primary, 9)
	if got := read(t, r1); got != 9 {
		t.Errorf("healed: got %d, want 9", got)
	}
}
