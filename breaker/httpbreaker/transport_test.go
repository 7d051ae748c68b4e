package httpbreaker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/httpwire"
)

// REQ-B4: a refusal touches no network, says when to retry, and closes the request's body.
func TestRefusal(t *testing.T) {
	asked := 0
	tr := newTransport(t, Config{Base: baseFunc(func(*http.Request) (*http.Response, error) {
		asked++
		return response(200, ""), nil
	})})
	tr.Breaker("api.test:80").Trip(breaker.Reason{Rule: "drill"})
	closed := 0
	req := newRequest(t, "http://user:hunter2@API.test/?token=hunter2")
	req.Body = &closeCounter{ReadCloser: io.NopCloser(strings.NewReader("x")), n: &closed}
	_, _, err := fetch(tr, req)
	e, ok := errors.AsType[*breaker.OpenError](err)
	if !ok || !errors.Is(err, breaker.ErrOpen) || e.RetryAfter() <= 0 || e.Reason.Rule != "drill" {
		t.Errorf("got %v, want the refusal with its reason", err)
	}
	if asked != 0 || closed != 1 {
		t.Errorf("Base asked %d times, body closed %d times, want 0, 1", asked, closed)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the secret is in %v", err)
	}
}

// No text of a URL gets into the reason of an opening, or into an error of this package.
func TestNoSecretInTexts(t *testing.T) {
	config := breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}}
	for name, base := range map[string]http.RoundTripper{
		"refused connection": httpwire.NewTransport(defaultConnectTimeout),
		"status":             answer(503, "hunter2"),
	} {
		tr := newTransport(t, Config{Breaker: config, Base: base})
		url := "http://user:hunter2@127.0.0.1:1/hunter2?hunter2"
		_, _, first := get(t, tr, url)
		_, _, second := get(t, tr, url)
		if text := fmt.Sprint(first, second); second == nil || strings.Contains(text, "hunter2") {
			t.Errorf("%s: got %s", name, text)
		}
	}
}

// A host that refuses connections fails, and others go on: one breaker each, also over a redirect.
func TestEachHostHasItsOwnBreaker(t *testing.T) {
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, dead.URL, http.StatusFound)
		}
	})
	tr := newTransport(t, Config{})
	client := &http.Client{Transport: tr}
	var err error
	for range 6 {
		_, err = client.Do(newRequest(t, s.URL+"/away")) //nolint:bodyclose // there is none
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, breaker.ErrOpen) {
			t.Fatal(err)
		}
	}
	if !errors.Is(err, breaker.ErrOpen) {
		t.Errorf("the sixth: got %v, want a refusal", err)
	}
	wantState(t, tr.Breaker(strings.TrimPrefix(dead.URL, "http://")), breaker.Open)
	if status, _, err := get(t, tr, s.URL); err != nil || status != 200 {
		t.Errorf("the other host: got %d, %v", status, err)
	}
}

func TestRefusedConnectionMayBeFatal(t *testing.T) {
	config := breakerConfig()
	config.Classify = func(err error) breaker.Outcome {
		if errors.Is(err, syscall.ECONNREFUSED) {
			return breaker.Fatal
		}
		return breaker.Failure
	}
	tr := newTransport(t, Config{Breaker: config})
	get(t, tr, "http://127.0.0.1:1/")
	wantState(t, tr.Breaker("127.0.0.1:1"), breaker.Open)
}

func TestKeyOfTheCallers(t *testing.T) {
	tr := newTransport(t, Config{Base: answer(503, ""), Key: func(r *http.Request) string { return r.Header.Get("Tenant") }})
	for range 5 {
		req := newRequest(t, anyURL)
		req.Header.Set("Tenant", "a")
		fetch(tr, req)
	}
	wantState(t, tr.Breaker("a"), breaker.Open)
	wantState(t, tr.Breaker("b"), breaker.Closed)
}

// REQ-B18: a Key that panics blocks no request, and is told once a request.
func TestKeyThatPanics(t *testing.T) {
	var faults []breaker.Fault
	config := breakerConfig()
	config.Observer.OnFault = func(f breaker.Fault) {
		faults = append(faults, f)
		panic("an observer's own")
	}
	tr := newTransport(t, Config{Breaker: config, Base: answer(503, ""), Key: func(*http.Request) string { panic("x") }})
	for range 5 {
		if resp, _, err := fetch(tr, newRequest(t, anyURL)); resp != 503 || err != nil {
			t.Fatalf("got %v, %v", resp, err)
		}
	}
	wantState(t, tr.Breaker("api.test:80"), breaker.Open)
	if len(faults) != 5 || faults[0].Part != "Key" || faults[0].Panic != "x" || faults[0].Name != "api.test:80" {
		t.Errorf("faults: got %+v, want five of Key", faults)
	}
}

// REQ-B12: at a refusal and at a failure, never for a caller who has gone; a response stands.
func TestFallback(t *testing.T) {
	own := errors.New("own")
	bare := func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 204}, nil }
	for name, tc := range map[string]struct {
		base   http.RoundTripper
		open   bool
		answer baseFunc
		err    error
		want   string // body or error
	}{
		"at a refusal":          {answer(200, "real"), true, answer(200, "stored"), nil, "200 stored"},
		"at a failure":          {failing(errors.New("reset")), false, answer(200, "stored"), nil, "200 stored"},
		"not for a response":    {answer(503, "real"), false, answer(200, "stored"), nil, "503 real"},
		"with its own error":    {answer(200, "real"), true, nil, own, "own"},
		"that declines":         {failing(errors.New("reset")), false, nil, nil, "reset"},
		"without a body":        {answer(200, "real"), true, bare, nil, "204 "},
		"for a Base that is no": {failing(nil), false, answer(200, "stored"), nil, "200 stored"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, Config{Base: tc.base, Fallback: func(_ *http.Request, err error) (*http.Response, error) {
				if errors.Is(err, breaker.ErrOpen) != tc.open {
					t.Errorf("got %v", err)
				}
				if tc.answer == nil {
					return nil, tc.err
				}
				return tc.answer(nil)
			}})
			if tc.open {
				tr.Breaker("api.test:80").Trip(breaker.Reason{})
			}
			status, body, err := get(t, tr, anyURL)
			got := fmt.Sprint(status, " ", body)
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// REQ-B10: a panic in Base counts and goes on; so does Goexit. Nothing is left of the request.
func TestBaseThatDoesNotReturn(t *testing.T) {
	var seen *http.Request
	tr := newTransport(t, Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		seen = req
		if req.Header.Get("Exit") != "" {
			runtime.Goexit()
		}
		panic("boom")
	})})
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("got %v, want the panic", v)
			}
		}()
		get(t, tr, anyURL)
	}()
	req := newRequest(t, anyURL)
	req.Header.Set("Exit", "1")
	var left sync.WaitGroup
	left.Go(func() { fetch(tr, req) })
	left.Wait()
	if seen.Context().Err() == nil {
		t.Error("the context lives on")
	}
	wantCounts(t, tr.Breaker("api.test:80"), 0, 2, 0)
}

// REQ-B18: the caller keeps its response, the panic is reported.
func TestClassifyThatPanics(t *testing.T) {
	var faults []breaker.Fault
	config := breakerConfig()
	config.Observer.OnFault = func(f breaker.Fault) { faults = append(faults, f) }
	tr := newTransport(t, Config{
		Breaker: config, Base: answer(200, "real"),
		Classify: func(*http.Response) breaker.Outcome { panic("boom") },
	})
	if _, body, err := get(t, tr, anyURL); err != nil || body != "real" {
		t.Errorf("got %q, %v", body, err)
	}
	if len(faults) != 1 || faults[0].Part != "Classify" || faults[0].Panic != "boom" {
		t.Errorf("faults: got %+v", faults)
	}
	wantCounts(t, tr.Breaker("api.test:80"), 0, 1, 0)
}

// When and how a response counts: once, at its end.
func TestWhenAResponseCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		path   string
		use    func(*http.Response) // what the caller does before the counts are looked at
		want   uint64               // successes then
	}{
		"not read":           {"GET", "/", func(*http.Response) {}, 0},
		"read to its end":    {"GET", "/", func(r *http.Response) { io.Copy(io.Discard, r.Body) }, 1},
		"closed early":       {"GET", "/", func(r *http.Response) { r.Body.Close() }, 1},
		"read and closed":    {"GET", "/", func(r *http.Response) { io.Copy(io.Discard, r.Body); r.Body.Close(); r.Body.Close() }, 1},
		"read after closing": {"GET", "/", func(r *http.Response) { r.Body.Close(); io.Copy(io.Discard, r.Body) }, 1},
		"HEAD":               {"HEAD", "/", func(*http.Response) {}, 1},
		"no content":         {"GET", "/204", func(*http.Response) {}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, http2 := range []bool{false, true} {
				s := protoServer(t, http2)
				tr := newTransport(t, Config{Base: s.Client().Transport})
				req := newRequest(t, s.URL+tc.path)
				req.Method = tc.method
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if resp.Request != req || resp.ProtoMajor == 2 != http2 {
					t.Errorf("got a response of %p by %s, want of %p", resp.Request, resp.Proto, req)
				}
				tc.use(resp)
				wantCounts(t, tr.Breaker(s.Listener.Addr().String()), tc.want, 0, 0)
				resp.Body.Close()
				wantCounts(t, tr.Breaker(s.Listener.Addr().String()), 1, 0, 0)
			}
		})
	}
}

// protoServer answers with 1 MB, or nothing at /204.
func protoServer(t *testing.T, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/204" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Trailer", "Checked")
		w.Write(make([]byte, 1<<20))
		w.Header().Set("Checked", "yes")
	}))
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A connection whose response was read to its end carries the next call; trailers come through.
func TestConnectionsAreReused(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := protoServer(t, http2)
		tr := newTransport(t, Config{Base: s.Client().Transport})
		for i := range 20 {
			reused := false
			req := newRequest(t, s.URL)
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
			}))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if i > 0 && !reused || resp.Trailer.Get("Checked") != "yes" {
				t.Fatalf("call %d, HTTP/2 %v: reused: %v, trailer %v", i, http2, reused, resp.Trailer)
			}
		}
	}
}

// After a 101 the body is the connection, in both directions, and its context lives.
func TestUpgrade(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(conn, rw)
	})
	tr := newTransport(t, Config{})
	req := newRequest(t, s.URL)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	wantCounts(t, tr.Breaker(s.Listener.Addr().String()), 1, 0, 0)
	conn, ok := resp.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("%T cannot be written to", resp.Body)
	}
	in := bufio.NewReader(conn)
	for _, line := range []string{"one\n", "two\n"} {
		fmt.Fprint(conn, line)
		if got, err := in.ReadString('\n'); err != nil || got != line {
			t.Errorf("got %q, %v, want %q", got, err, line)
		}
	}
}

// A reader of the caller's that fails is no fault of the host, and its error reaches the caller.
func TestUploadThatBreaks(t *testing.T) {
	own := errors.New("disk gone")
	for _, http2 := range []bool{false, true} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
		s.EnableHTTP2 = http2
		s.StartTLS()
		t.Cleanup(s.Close)
		tr := newTransport(t, Config{Base: s.Client().Transport})
		body := io.MultiReader(strings.NewReader("half"), iotestError{own})
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, body)
		if _, _, err := fetch(tr, req); !errors.Is(err, own) {
			t.Errorf("HTTP/2 %v: got %v, want the reader's own error", http2, err)
		}
		wantCounts(t, tr.Breaker(s.Listener.Addr().String()), 0, 0, 1)
	}
}

type iotestError struct{ err error }

func (r iotestError) Read([]byte) (int, error) { return 0, r.err }

// A host that goes away during an upload is one that fails.
func TestUploadToAHostThatDies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.ReadFull(r.Body, make([]byte, 10))
		conn, _, _ := http.NewResponseController(w).Hijack()
		_ = conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	})
	tr := newTransport(t, Config{})
	in, out := io.Pipe()
	go func() {
		for {
			if _, err := out.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, in)
	if _, _, err := fetch(tr, req); err == nil {
		t.Error("got an answer")
	}
	wantCounts(t, tr.Breaker(s.Listener.Addr().String()), 0, 1, 0)
}

// Close may come while a Read waits, and ends it; the caller's choice is no failure.
func TestCloseDuringARead(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("x"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	tr := newTransport(t, Config{})
	resp, err := tr.RoundTrip(newRequest(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		resp.Body.Read(make([]byte, 1))
		close(first)
		io.Copy(io.Discard, resp.Body)
	})
	<-first
	resp.Body.Close()
	reading.Wait()
	wantCounts(t, tr.Breaker(s.Listener.Addr().String()), 1, 0, 0)
}
