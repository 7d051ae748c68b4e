package httpbreaker

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A baseFunc is a Base in memory.
type baseFunc func(*http.Request) (*http.Response, error)

func (f baseFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// breakerConfig is what the behaviour sequences run on: a window of 10 s, at least 5 calls, 50 %,
// open for 1 s without jitter.
func breakerConfig() breaker.Config {
	return breaker.Config{
		Rules: []breaker.Rule{breaker.FailureRateByTime{MinCalls: 5}},
		Open:  breaker.Backoff{Base: time.Second, Jitter: -1},
	}
}

func newTransport(t *testing.T, c Config) *Transport {
	t.Helper()
	if c.Breaker.Rules == nil {
		c.Breaker = breakerConfig()
	}
	tr, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func newRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// fetch sends a request and reads the body to its end.
func fetch(rt http.RoundTripper, req *http.Request) (status int, body string, err error) {
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func get(t *testing.T, rt http.RoundTripper, url string) (status int, body string, err error) {
	t.Helper()
	return fetch(rt, newRequest(t, url))
}

// answer is a Base that answers with a status and a body.
func answer(status int, body string) baseFunc {
	return func(*http.Request) (*http.Response, error) { return response(status, body), nil }
}

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// failing is a Base that never gets an answer.
func failing(err error) baseFunc {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// silent is a Base that never answers and heeds its context.
func silent(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// servePipes serves h over connections in memory, for use in a bubble, and returns a Base that
// dials them.
func servePipes(t *testing.T, h http.HandlerFunc) *http.Transport {
	t.Helper()
	l := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	base := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }}
	t.Cleanup(func() {
		base.CloseIdleConnections()
		cancel()
		_ = s.Shutdown(context.Background()) // waits for the handlers
		serving.Wait()
	})
	return base
}

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

const anyURL = "http://api.test/"

func wantState(t *testing.T, b *breaker.Breaker, want breaker.State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("state of %s: got %v, want %v (%v)", b.Name(), got, want, b.Stats().Reason)
	}
}

// wantCounts compares what counted.
func wantCounts(t *testing.T, b *breaker.Breaker, successes, failures, ignored uint64) {
	t.Helper()
	s := b.Stats()
	if s.Successes != successes || s.Failures != failures || s.Ignored != ignored {
		t.Errorf("%s: got %d successes, %d failures, %d ignored, want %d, %d, %d (%v)",
			b.Name(), s.Successes, s.Failures, s.Ignored, successes, failures, ignored, s.Reason)
	}
}
