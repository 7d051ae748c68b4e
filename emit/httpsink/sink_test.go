package httpsink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// What each status means (REQ-E15).
func TestAnswers(t *testing.T) {
	code := 0
	s := serve(t, func(w http.ResponseWriter, req *http.Request) { status(code, "said")(w, req) })
	sink := newSink(t, Config{URL: s.URL})
	for code = 200; code < 600; code++ {
		err := sink.Deliver(t.Context(), trigger())
		rejected := code/100 == 4 && code != 408 && code != 429
		if (err == nil) != (code/100 == 2) || errors.Is(err, emit.ErrRejected) != rejected {
			t.Errorf("%d: got %v", code, err)
		}
		if answer, ok := errors.AsType[*StatusError](err); err != nil && (!ok || answer.Status != code) {
			t.Errorf("%d: got %#v", code, err)
		}
	}
	if got := s.conns.Load(); got != 1 {
		t.Errorf("connections: got %d, want 1", got)
	}
}

func TestRetryAfter(t *testing.T) { // REQ-E15
	for _, tc := range []struct {
		code   int
		header []string
		want   time.Duration
	}{
		{429, []string{"Retry-After: 7"}, 7 * time.Second},
		{503, []string{"Retry-After: 7"}, 7 * time.Second},
		{503, []string{"Date: Fri, 02 Jan 1970 03:04:05 GMT", "Retry-After: Fri, 02 Jan 1970 03:05:05 GMT"}, time.Minute},
		{503, []string{"Retry-After: 4294967295"}, MaxRetryAfter},
		{503, []string{"Retry-After: soon"}, 0},
		{503, []string{"Retry-After: 0"}, 0},
		{500, []string{"Retry-After: 7"}, 0},
		{400, []string{"Retry-After: 7"}, 0},
	} {
		s := serve(t, status(tc.code, "", tc.header...))
		err := newSink(t, Config{URL: s.URL}).Deliver(t.Context(), trigger())
		var after time.Duration
		if later, ok := errors.AsType[*emit.LaterError](err); ok {
			after = later.After
		}
		if answer, ok := errors.AsType[*StatusError](err); after != tc.want || !ok || answer.Status != tc.code {
			t.Errorf("%d %v: got %v, %v", tc.code, tc.header, after, err)
		}
	}
}

// Both modes on the wire, with what comes from the Config.
func TestRequest(t *testing.T) { // REQ-E8
	got := make(chan *http.Request, 1)
	s := serve(t, func(_ http.ResponseWriter, req *http.Request) {
		text, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(text)))
		got <- req
	})
	for _, structured := range []bool{false, true} {
		token := "Bearer a"
		sink := newSink(t, Config{
			URL: s.URL + "/events?team=x#part", Structured: structured, Header: http.Header{"x-api-key": {"k"}},
			Authorization: func(context.Context) (string, error) { return token, nil },
		})
		for _, token = range []string{"Bearer a", "Bearer b"} {
			if err := sink.Deliver(t.Context(), trigger()); err != nil {
				t.Fatal(err)
			}
			req := <-got
			for name, want := range map[string]string{
				"Idempotency-Key": "id%201", "Authorization": token, "X-Api-Key": "k", "Accept-Encoding": "",
				"Content-Type": map[bool]string{false: "application/json", true: cloudevent.StructuredType}[structured],
			} {
				if got := req.Header.Get(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
			}
			event, err := cloudevent.Read(req, 1<<20)
			want := trigger()
			want.ContentType = "application/json"
			if err != nil || !reflect.DeepEqual(event, want) || req.Method != http.MethodPost || req.RequestURI != "/events?team=x" || req.ContentLength <= 0 {
				t.Errorf("got %s %s with %+v, %v", req.Method, req.RequestURI, event, err)
			}
		}
	}
}

// What can be no CloudEvent is rejected, and nothing is sent.
func TestNoCloudEvent(t *testing.T) {
	s := serve(t, status(200, ""))
	for _, structured := range []bool{false, true} {
		bad := trigger()
		bad.Attributes = map[string]string{"Trace-ID": "1"}
		err := newSink(t, Config{URL: s.URL, Structured: structured}).Deliver(t.Context(), bad)
		if !errors.Is(err, emit.ErrRejected) || s.conns.Load() != 0 {
			t.Errorf("got %v, %d connections", err, s.conns.Load())
		}
	}
}

// A redirect is a failure, and goes nowhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := serve(t, status(200, ""))
	for _, code := range []int{301, 302, 303, 307, 308} {
		s := serve(t, status(code, "", "Location: "+other.URL))
		err := newSink(t, Config{URL: s.URL}).Deliver(t.Context(), trigger())
		if err == nil || errors.Is(err, emit.ErrRejected) || other.conns.Load() != 0 {
			t.Errorf("%d: got %v", code, err)
		}
	}
}

func TestAuthorizationFails(t *testing.T) {
	s := serve(t, status(200, ""))
	var value string
	var fault error
	sink := newSink(t, Config{URL: s.URL, Authorization: func(context.Context) (string, error) { return value, fault }})
	fault = context.DeadlineExceeded
	if err := sink.Deliver(t.Context(), trigger()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	value, fault = "Bearer hunter2\n", nil
	if err := sink.Deliver(t.Context(), trigger()); err == nil || strings.Contains(err.Error(), "hunter2") || s.conns.Load() != 0 {
		t.Errorf("got %v", err)
	}
}

// One connection serves what comes one after the other, whatever the answers are, up to a body of 64 KiB.
func TestConnectionsAreReused(t *testing.T) {
	for name, tc := range map[string]struct {
		code, size int
		reused     bool
	}{
		"delivered":           {200, 0, true},
		"delivered and talks": {200, maxBody / 2, true},
		"rejected and talks":  {400, maxBody / 2, true},
		"fails and talks":     {500, maxBody / 2, true},
		"endless":             {200, 4 << 20, false},
		"fails endlessly":     {500, 4 << 20, false},
	} {
		s := serve(t, status(tc.code, strings.Repeat("x", tc.size)))
		sink := newSink(t, Config{URL: s.URL})
		const n = 20
		for range n {
			_ = sink.Deliver(t.Context(), trigger())
		}
		if got := s.conns.Load(); (got == 1) != tc.reused || got > n {
			t.Errorf("%s: got %d connections for %d deliveries", name, got, n)
		}
	}
}

// More deliveries than connections wait for one, and all arrive.
func TestMaxConns(t *testing.T) {
	const conns, deliveries = 3, 24
	arrived, release := make(chan struct{}, deliveries), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release })
	sink := newSink(t, Config{URL: s.URL, MaxConns: conns})
	var all sync.WaitGroup
	for range deliveries {
		all.Go(func() {
			if err := sink.Deliver(t.Context(), trigger()); err != nil {
				t.Error(err)
			}
		})
	}
	for range conns {
		<-arrived
	}
	if got := s.conns.Load(); got != conns {
		t.Errorf("connections with all waiting: got %d, want %d", got, conns)
	}
	close(release)
	all.Wait()
	if got := s.conns.Load(); got != conns {
		t.Errorf("connections at the end: got %d, want %d", got, conns)
	}
}

// An idle connection that the server closes when the next request comes costs no failure, whatever the header is called.
func TestStaleConnection(t *testing.T) {
	for _, header := range []string{"", "X-Event-Id"} {
		names := make(chan http.Header, 3)
		url := raw(t, func(n int, c net.Conn, in *bufio.Reader) {
			for requests := 0; ; requests++ {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				names <- req.Header
				if n == 0 && requests == 1 {
					return // without an answer
				}
				fmt.Fprint(c, "HTTP/1.1 204 No Content\r\n\r\n")
				if n == 1 {
					return
				}
			}
		})
		sink := newSink(t, Config{URL: url, IdempotencyHeader: header})
		for range 2 {
			if err := sink.Deliver(t.Context(), trigger()); err != nil {
				t.Fatalf("%q: %v", header, err)
			}
		}
		for range 3 {
			h := <-names
			if want := header == ""; (h.Get("Idempotency-Key") != "") != want || (h.Get("X-Event-Id") != "") == want {
				t.Errorf("%q: got %v", header, h)
			}
		}
	}
}

// One connection of HTTP/2 carries many deliveries at a time.
func TestOneConnectionOfHTTP2(t *testing.T) {
	const deliveries = 50
	arrived, release := make(chan struct{}, deliveries), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived <- struct{}{}; <-release }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	sink := newSink(t, Config{URL: s.URL, MaxConns: 1, TLS: s.Client().Transport.(*http.Transport).TLSClientConfig})
	var all sync.WaitGroup
	for range deliveries {
		all.Go(func() {
			if err := sink.Deliver(t.Context(), trigger()); err != nil {
				t.Error(err)
			}
		})
	}
	for range deliveries {
		<-arrived
	}
	close(release)
	all.Wait()
}

// Over TLS with roots of its own, by HTTP/2 too.
func TestTLS(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		major := make(chan int, 1)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { major <- req.ProtoMajor }))
		s.EnableHTTP2 = http2
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of handshakes that the client ends
		s.StartTLS()
		t.Cleanup(s.Close)
		if err := newSink(t, Config{URL: s.URL}).Deliver(t.Context(), trigger()); err == nil || errors.Is(err, emit.ErrRejected) {
			t.Errorf("with the system's roots: got %v", err)
		}
		roots := s.Client().Transport.(*http.Transport).TLSClientConfig
		if err := newSink(t, Config{URL: s.URL, TLS: roots}).Deliver(t.Context(), trigger()); err != nil {
			t.Fatal(err)
		}
		if got, want := <-major, map[bool]int{false: 1, true: 2}[http2]; got != want {
			t.Errorf("HTTP/%d, want %d", got, want)
		}
	}
}

// A closed sink keeps no connection, not that of a delivery that was under way, nor that of one that began later.
func TestClose(t *testing.T) {
	arrived, answer, gone := make(chan struct{}), make(chan struct{}), make(chan struct{}, 2)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			gone <- struct{}{}
		}
	}
	srv.Start()
	t.Cleanup(srv.Close)
	s := newSink(t, Config{URL: srv.URL})
	var deliveries sync.WaitGroup
	for n := range 2 {
		deliveries.Go(func() {
			if err := s.Deliver(t.Context(), trigger()); err != nil {
				t.Error(err)
			}
		})
		<-arrived
		if n == 0 {
			s.Close()
		}
	}
	close(answer)
	deliveries.Wait()
	for n := range 2 {
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Fatalf("got %d connections closed, want 2", n)
		}
	}
}
