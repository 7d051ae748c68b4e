package pgxread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
)

func connectError(t *testing.T, dial error) error {
	t.Helper()
	c, err := pgconn.ParseConfig("host=127.0.0.1 sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return nil, dial }
	_, err = pgconn.ConnectConfig(t.Context(), c)
	return err
}

// REQ-B9, REQ-R6: what an error says about the node that it came from.
func TestClassify(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: code}) }
	for _, c := range []struct {
		name string
		err  error
		want breaker.Outcome
	}{
		{"nil", nil, breaker.Success},
		{"refused", connectError(t, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), breaker.Fatal},
		{"starting up", pg("57P03"), breaker.Fatal},
		{"starting up, while connecting", connectError(t, pg("57P03")), breaker.Fatal},
		{"connect timeout", connectError(t, context.DeadlineExceeded), breaker.Failure},
		{"no such host", connectError(t, &net.DNSError{Err: "no such host"}), breaker.Failure},
		{"no route", connectError(t, syscall.EHOSTUNREACH), breaker.Failure},
		{"reset", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, breaker.Failure},
		{"EOF", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), breaker.Failure},
		{"closed", net.ErrClosed, breaker.Failure},
		{"conn closed", pgconn.ErrConnClosed, breaker.Failure},
		{"admin shutdown", pg("57P01"), breaker.Failure},
		{"crash shutdown", pg("57P02"), breaker.Failure},
		{"connection exception", pg("08006"), breaker.Failure},
		{"too many connections", connectError(t, pg("53300")), breaker.Ignored},
		{"wrong password", connectError(t, pg("28P01")), breaker.Ignored},
		{"syntax error", pg("42601"), breaker.Ignored},
		{"conflict with recovery", pg("40001"), breaker.Ignored},
		{"query cancelled", pg("57014"), breaker.Ignored},
		{"write", pg("25006"), breaker.Ignored},
		{"no rows", pgx.ErrNoRows, breaker.Ignored},
		{"guard", route.ErrFenced, breaker.Ignored},
		{"guard, while connecting", connectError(t, route.ErrFenced), breaker.Ignored},
		{"cancelled", context.Canceled, breaker.Ignored},
		{"unknown", errors.New("scan"), breaker.Ignored},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s: %v (%v), want %v", c.name, got, c.err, c.want)
		}
	}
}

// Which errors send a read to another node, and which to a new pick.
func TestNext(t *testing.T) {
	pg := func(code string) error { return &pgconn.PgError{Code: code} }
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var cfg Config
	cfg.withDefaults()
	for _, c := range []struct {
		name   string
		parent context.Context
		err    error
		last   bool
		want   route.Verdict
	}{
		{"answered", t.Context(), nil, false, route.Done},
		{"lost", t.Context(), io.ErrUnexpectedEOF, false, route.Elsewhere},
		{"lost again", t.Context(), io.ErrUnexpectedEOF, true, route.GiveUp},
		{"lost, caller gone", over, io.ErrUnexpectedEOF, false, route.GiveUp},
		{"conflict with recovery", t.Context(), pg("40001"), false, route.Elsewhere},
		{"full server", t.Context(), pg("53300"), false, route.Elsewhere},
		{"write", t.Context(), pg("25006"), false, route.GiveUp},
		{"syntax error", t.Context(), pg("42601"), false, route.GiveUp},
		{"guard", t.Context(), route.ErrFenced, true, route.Anew},
		{"moved", t.Context(), route.ErrMoved, false, route.Anew},
	} {
		call := newCall(c.parent, &node{db: &DB{cfg: cfg}}, &route.Intent{}, time.Now())
		if got := call.next(c.err, c.last); got != c.want {
			t.Errorf("%s: verdict %v, want %v", c.name, got, c.want)
		}
		call.untime()
	}
}
