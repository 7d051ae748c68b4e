package proxycheck

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/replica"
)

// A server is what samples of it say: the primary's position, or that of a replica, which may be down.
type server struct {
	replica  bool
	position *atomic.Uint64
	down     atomic.Bool
	slow     atomic.Bool // it does not answer
	barred   atomic.Bool // the sampling role may not see what it must
}

// errDown is as a driver tells that nobody listens.
var errDown = fmt.Errorf("failed to connect to `user=app database=shop`:\n\tdb1:5432: %w", syscall.ECONNREFUSED)

func (s *server) connect(context.Context) (replica.Conn, error) {
	if s.down.Load() {
		return nil, errDown
	}
	return s, nil
}

func (s *server) Look(ctx context.Context) (replica.Look, error) {
	if s.down.Load() {
		return replica.Look{}, errDown
	}
	if s.slow.Load() {
		<-ctx.Done()
		return replica.Look{}, ctx.Err()
	}
	look := replica.Look{SystemID: "1", Instance: "primary", Timeline: 1, Position: s.position.Load()}
	if s.replica {
		look.Instance, look.InRecovery = "r1", true
		if s.barred.Load() {
			look.MissingRights = `GRANT pg_monitor TO "app"`
		}
	}
	return look, nil
}

func (*server) Close() {}

// newSet is a primary with the replica r1, which has all that the primary has.
func newSet(t *testing.T, change func(*replica.Settings)) (*replica.Set, *server) {
	t.Helper()
	position := new(atomic.Uint64)
	position.Store(100)
	primary, r1 := &server{position: position}, &server{replica: true, position: position}
	settings := fleettest.Quick()
	if change != nil {
		change(&settings)
	}
	set, err := replica.NewSet(replica.Config{
		Primary: replica.Node{Name: "primary", Connect: primary.connect}, Replicas: []replica.Node{{Name: "r1", Connect: r1.connect}}, Settings: settings,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	fleettest.Usable(t, set, "r1")
	return set, r1
}

func get(t *testing.T, set *replica.Set, method, target string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/replica/{name}", Handler(func() *replica.Set { return set }, nil))
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody))
	return w
}

func TestHandler(t *testing.T) {
	set, r1 := newSet(t, nil)
	want := func(method, target string, status int, text string) http.Header {
		t.Helper()
		w := get(t, set, method, target)
		if body := w.Body.String(); w.Code != status || !strings.Contains(body, text) || text != "" && strings.Count(body, "\n") != 1 {
			t.Errorf("%s %s: got %d %q, want %d %q", method, target, w.Code, body, status, text)
		}
		return w.Header()
	}
	for method, text := range map[string]string{"GET": "r1 may take reads: at most", "OPTIONS": "r1 may take reads", "HEAD": ""} {
		h := want(method, "/replica/r1", 200, text)
		if h.Get("Breakwater-Condition") != "ok" || h.Get("Breakwater-Share") != "1.00" || h.Get("Breakwater-Staleness") == "" {
			t.Errorf("%s: got %v", method, h)
		}
	}
	want("GET", "/replica/r1?max_staleness=2s", 200, "r1 may take reads")
	want("GET", "/replica/r1?max_staleness=1ns", 503, "r1 takes no reads: stale: staleness up to")
	for _, bad := range []string{"2", "0s", "-1s", "soon"} {
		want("GET", "/replica/r1?max_staleness="+bad, 400, "give a time above 0 with its unit")
	}
	for _, unread := range []string{"max_staleness=%zz", "max_staleness=1ms;x=1"} { // a bound that is passed over is no bound
		want("GET", "/replica/r1?"+unread, 400, "query cannot be read")
	}
	want("GET", "/replica/r9", 404, `no replica is named "r9"`)
	want("GET", "/replica/primary", 404, `no replica is named "primary"`)
	if h := want("POST", "/replica/r1", 405, "ask by GET"); h.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("got %v", h)
	}
	r1.down.Store(true)
	fleettest.Eventually(t, "r1 is unreachable", func() bool { return get(t, set, "GET", "/replica/r1").Code == 503 })
	if h := want("GET", "/replica/r1", 503, "unreachable: connection refused"); h.Get("Breakwater-Condition") != "unreachable" {
		t.Errorf("got %v", h)
	}
	if w := get(t, nil, "GET", "/replica/r1"); w.Code != 404 {
		t.Errorf("without nodes: got %d", w.Code)
	}
}

// serve starts an Agent; ask sends what and returns the answer.
func serve(t *testing.T, c AgentConfig) (a *Agent, address string) {
	t.Helper()
	a, err := NewAgent(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(a.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return a, l.Addr().String()
}

func ask(t *testing.T, address, what string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(fleettest.Patience))
	_, _ = io.WriteString(conn, what)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func TestAgent(t *testing.T) {
	set, r1 := newSet(t, func(s *replica.Settings) { s.Ramp, s.RampFrom = time.Hour, 0.1 })
	_, address := serve(t, AgentConfig{Set: func() *replica.Set { return set }})
	want := func(what, prefix string) {
		t.Helper()
		if got := ask(t, address, what); !strings.HasPrefix(got, prefix) || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: got %q, want %q", what, got, prefix)
		}
	}
	want("r1\n", "up 100%\n")
	want("r1\r\n", "up 100%\n")
	want("r1", "up 100%\n") // no line feed
	want("r9\n", "down #no replica is named")
	want(strings.Repeat("x", 200)+"\n", "down #no replica is named")
	force := func(to breaker.State) { fleettest.Must(t, set.Breaker("r1").Force(to, "an operator")) }
	force(breaker.ForcedOpen)
	want("r1\n", "stopped #open: ")
	force(breaker.Closed)
	want("r1\n", "up 10%\n") // the slow start, which an hour makes stand still
	r1.down.Store(true)
	fleettest.Eventually(t, "r1 is unreachable", func() bool { return strings.HasPrefix(ask(t, address, "r1\n"), "down #unreachable: ") })
	want("r1\n", "down #unreachable: connection refused\n")
}

// The bound of the reads that the proxy sends is the agent's.
func TestAgentHasABound(t *testing.T) {
	set, _ := newSet(t, nil)
	_, address := serve(t, AgentConfig{Set: func() *replica.Set { return set }, MaxStaleness: 1})
	if got := ask(t, address, "r1\n"); !strings.HasPrefix(got, "fail #stale: staleness up to") {
		t.Errorf("got %q", got)
	}
}

// Who says nothing is let go; who is one too many is not answered; Close ends those that are there.
func TestAgentIsBounded(t *testing.T) {
	_, address := serve(t, AgentConfig{Set: func() *replica.Set { return nil }, Timeout: 20 * time.Millisecond})
	if got := ask(t, address, ""); got != "" {
		t.Errorf("of nobody: got %q", got)
	}
	if got := ask(t, address, "r1\n"); !strings.HasPrefix(got, "down #no replica") {
		t.Errorf("without nodes: got %q", got)
	}
	a, address := serve(t, AgentConfig{Set: func() *replica.Set { return nil }, Timeout: time.Hour, Clients: 1})
	first, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	fleettest.Eventually(t, "the first is there", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.mu.open) == 2
	})
	if got, err := unanswered(address); err != nil {
		t.Errorf("one too many: got %q, %v", got, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(first); len(got) > 0 || err != nil && errors.Is(err, net.ErrClosed) {
		t.Errorf("at the end: got %q, %v", got, err)
	}
}

// unanswered connects and says nothing; the other side closing is no error.
func unanswered(address string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(fleettest.Patience))
	got, err := io.ReadAll(conn)
	if len(got) > 0 {
		return string(got), errors.New("it was answered")
	}
	return "", err
}

func TestAgentConfig(t *testing.T) {
	_, err := NewAgent(AgentConfig{MaxStaleness: -1, Clients: -1, Timeout: -1})
	for _, field := range []string{"Set is nil", "MaxStaleness is -1ns", "Clients is -1", "Timeout is -1ns"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %s", err, field)
		}
	}
}

// A check costs a proxy's interval nothing: 30 checks a second of one replica are as nothing.
func BenchmarkJudge(b *testing.B) {
	position := new(atomic.Uint64)
	position.Store(100)
	primary, r1 := &server{position: position}, &server{replica: true, position: position}
	set, err := replica.NewSet(replica.Config{
		Primary: replica.Node{Name: "primary", Connect: primary.connect}, Replicas: []replica.Node{{Name: "r1", Connect: r1.connect}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer set.Close()
	if err := set.Ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	a, _ := NewAgent(AgentConfig{Set: func() *replica.Set { return set }})
	b.ReportAllocs()
	for b.Loop() {
		if a.words("r1") != "up 100%" {
			b.Fatal("r1 is down")
		}
	}
}

// REQ-O4: both checks are served without a credential. They tell the kind of a failure, and not what a server or its driver said; of an operator's words they
// leave out what is secret.
func TestNoSecretInAReason(t *testing.T) {
	set, r1 := newSet(t, func(s *replica.Settings) { s.Open.Base, s.Open.Max = time.Hour, time.Hour })
	hide := func(text string) string { return strings.ReplaceAll(text, "hunter2", "…") }
	h := http.NewServeMux()
	h.Handle("/replica/{name}", Handler(func() *replica.Set { return set }, hide))
	_, address := serve(t, AgentConfig{Set: func() *replica.Set { return set }, Redact: hide})
	both := func(want string, never ...string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/replica/r1", http.NoBody))
		for _, got := range []string{w.Body.String(), ask(t, address, "r1\n")} {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			for _, secret := range never {
				if strings.Contains(got, secret) {
					t.Errorf("got %q, want it without %q", got, secret)
				}
			}
		}
	}
	until := func(prefix string) {
		t.Helper()
		fleettest.Eventually(t, prefix, func() bool { return strings.HasPrefix(ask(t, address, "r1\n"), prefix) })
	}
	r1.down.Store(true)
	until("down #unreachable: ")
	both("unreachable: connection refused", "shop", "5432")
	r1.down.Store(false)
	r1.barred.Store(true)
	until("fail #no_rights: ")
	both("no_rights: its sampling role lacks pg_monitor", "app")
	r1.barred.Store(false)
	until("fail #open: ") // the breaker remembers the error
	both("open: breaker open: unreachable", "shop", "5432")
	fleettest.Must(t, set.Breaker("r1").Force(breaker.ForcedOpen, "the password was hunter2"))
	both("the password was …", "hunter2")
}

// REQ-O4: the kind of each failure that a driver tells.
func TestFailure(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		err  error
		want string
	}{
		{refused, "connection refused"},
		{timeout, "timed out"},
		{fmt.Errorf("connect: %w", context.DeadlineExceeded), "timed out"},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}, "no route to it"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "connection lost"},
		{io.ErrUnexpectedEOF, "connection lost"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "db1"}}, "its name could not be resolved"},
		{&tls.CertificateVerificationError{Err: errors.New("of db1")}, "its certificate was not accepted"},
		{errors.Join(refused, &pgconn.PgError{Code: "28P01", Message: `user "app"`}), "authentication failed (SQLSTATE 28P01)"},
		{&pgconn.PgError{Code: "3D000"}, "the database does not exist (SQLSTATE 3D000)"},
		{&pgconn.PgError{Code: "42501"}, "its role lacks a right (SQLSTATE 42501)"},
		{&pgconn.PgError{Code: "53300"}, "too many connections (SQLSTATE 53300)"},
		{&pgconn.PgError{Code: "57014"}, "the query was cancelled (SQLSTATE 57014)"},
		{&pgconn.PgError{Code: "57P03"}, "it is starting up or shutting down (SQLSTATE 57P03)"},
		{&pgconn.PgError{Code: "XX000", Message: "db1"}, "it answered with an error (SQLSTATE XX000)"},
		{errors.New("something of db1"), "the sample failed"},
		{nil, "the sample failed"},
	} {
		if got := failure(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

// REQ-O4: a sample that runs out of time is told as such.
func TestASampleThatTimesOut(t *testing.T) {
	set, r1 := newSet(t, nil)
	r1.slow.Store(true)
	fleettest.Eventually(t, "r1 has timed out", func() bool {
		return strings.Contains(get(t, set, "GET", "/replica/r1").Body.String(), "unreachable: timed out")
	})
}
