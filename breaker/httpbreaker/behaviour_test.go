package httpbreaker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/breakwater-go/breakwater/breaker"
)

// behaviours-breaker 33: also where Base's error does not say that the call was cancelled.
func TestCallersThatWalkAwayCountForNothing(t *testing.T) {
	for name, base := range map[string]baseFunc{
		"context error": silent,
		"text only": func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, errors.New("operation was aborted")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, Config{Base: base})
				for range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Second, cancel)
					if _, _, err := fetch(tr, newRequest(t, anyURL).WithContext(ctx)); err == nil {
						t.Fatal("got an answer")
					}
				}
				wantState(t, tr.Breaker("api.test:80"), breaker.Closed)
				wantCounts(t, tr.Breaker("api.test:80"), 0, 0, 100)
			})
		})
	}
}

// The same while the body is read: 33 holds to the end of the call.
func TestCallersThatWalkAwayFromABodyCountForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{Base: servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})})
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, _, err := fetch(tr, newRequest(t, anyURL).WithContext(ctx)); !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v, want that it was cancelled", err)
			}
		}
		wantCounts(t, tr.Breaker("api.test:80"), 0, 0, 20)
	})
}

// behaviours-breaker 34: a caller's deadline is a failure once the call has lasted SlowCall.
func TestCallersDeadline(t *testing.T) {
	for name, tc := range map[string]struct {
		slowCall, deadline time.Duration
		want               breaker.State
	}{
		"default":               {0, time.Second, breaker.Open},
		"just as long":          {time.Second, time.Second, breaker.Open},
		"shorter than SlowCall": {2 * time.Second, time.Second, breaker.Closed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, Config{Base: baseFunc(silent), SlowCall: tc.slowCall})
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), tc.deadline)
					_, _, err := fetch(tr, newRequest(t, anyURL).WithContext(ctx))
					cancel()
					if errors.Is(err, breaker.ErrOpen) {
						break
					}
					if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTimeout) {
						t.Fatalf("got %v, want the caller's deadline", err)
					}
				}
				wantState(t, tr.Breaker("api.test:80"), tc.want)
			})
		})
	}
}

// http.Client.Timeout is a caller's deadline too, of which the client tells by the channel Cancel as well.
func TestClientTimeoutIsTheCallersDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{100 * time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			tr := newTransport(t, Config{Base: servePipes(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
			client := &http.Client{Transport: tr, Timeout: timeout}
			for range 4 {
				if _, err := client.Do(newRequest(t, anyURL)); err == nil { //nolint:bodyclose // there is none
					t.Fatal("got an answer")
				}
			}
			if timeout < tr.config.SlowCall {
				wantCounts(t, tr.Breaker("api.test:80"), 0, 0, 4)
			} else {
				wantCounts(t, tr.Breaker("api.test:80"), 0, 4, 0)
			}
		})
	}
}

// behaviours-breaker 37, from a real server.
func TestWhatAStatusMeans(t *testing.T) {
	strict := func(resp *http.Response) breaker.Outcome {
		switch resp.StatusCode {
		case 500, 429:
			return breaker.Failure
		case 404:
			return breaker.Ignored
		default:
			return Outcome(resp.StatusCode)
		}
	}
	for _, tc := range []struct {
		status   int
		classify func(*http.Response) breaker.Outcome
		want     breaker.State
	}{
		{200, nil, breaker.Closed},
		{301, nil, breaker.Closed},
		{404, nil, breaker.Closed},
		{429, nil, breaker.Closed},
		{500, nil, breaker.Closed},
		{502, nil, breaker.Open},
		{503, nil, breaker.Open},
		{504, nil, breaker.Open},
		{500, strict, breaker.Open},
		{429, strict, breaker.Open},
		{404, strict, breaker.Closed},
		{503, strict, breaker.Open},
	} {
		t.Run(fmt.Sprintf("%d, chosen: %v", tc.status, tc.classify != nil), func(t *testing.T) {
			reached := 0
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				reached++
				w.WriteHeader(tc.status)
				fmt.Fprint(w, "what happened")
			})
			tr := newTransport(t, Config{Classify: tc.classify})
			want := 20
			if tc.want == breaker.Open {
				want = 5
			}
			for range 20 {
				status, body, err := get(t, tr, s.URL)
				if err == nil && (status != tc.status || body != "what happened") {
					t.Errorf("got %d %q", status, body)
				}
			}
			b := tr.Breaker(s.Listener.Addr().String())
			wantState(t, b, tc.want)
			if reached != want {
				t.Errorf("the server got %d calls, want %d", reached, want)
			}
		})
	}
}

// behaviours-breaker 38: the real connection is cut in the middle of the body.
func TestBodyThatBreaksOffIsAFailure(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.(*net.TCPConn).SetLinger(0) // a reset, as of a killed process
		conn.Close()
	})
	tr := newTransport(t, Config{})
	var broken int
	for range 20 {
		status, _, err := get(t, tr, s.URL)
		switch {
		case errors.Is(err, breaker.ErrOpen):
		case status != 200 || err == nil:
			t.Fatalf("got %d, %v, want a 200 that breaks off", status, err)
		default:
			broken++
			if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("got %v, want what the connection said", err)
			}
		}
	}
	b := tr.Breaker(s.Listener.Addr().String())
	wantState(t, b, breaker.Open)
	if broken != 5 {
		t.Errorf("%d bodies broke off before it opened, want 5", broken)
	}
	wantCounts(t, b, 0, 5, 0)
}

// behaviours-breaker 38, the other half: a body may take longer than the call timeout, and is read to
// its end in a context that lives.
func TestContextLivesAsLongAsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{Base: servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				fmt.Fprint(w, "x")
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Second)
			}
			if r.Context().Err() != nil {
				t.Error("the server saw the request end before its body")
			}
		})})
		resp, err := tr.RoundTrip(newRequest(t, anyURL))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the reader takes its time too: that is no stall
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "xxxx" {
			t.Errorf("got %q, %v", body, err)
		}
		wantCounts(t, tr.Breaker("api.test:80"), 1, 0, 0)
	})
}

// behaviours-breaker 44, second half: calls under the context of an application leave nothing.
func TestCallsLeaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		base := servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/short":
				fmt.Fprint(w, "x")
			case "/long":
				_, _ = w.Write(make([]byte, 1<<20))
			case "/hangs":
				<-r.Context().Done()
			}
		})
		tr := newTransport(t, Config{
			Base: baseFunc(func(req *http.Request) (*http.Response, error) {
				if req.URL.Path == "/dead" {
					return nil, syscall.ECONNREFUSED
				}
				return base.RoundTrip(req)
			}),
			Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1000}}},
		})
		app, cancel := context.WithCancel(t.Context())
		defer cancel()
		app = foreign{app} // for a context of a type that it does not know, package context starts a goroutine
		before := runtime.NumGoroutine()
		for i := range 200 {
			req, _ := http.NewRequestWithContext(app, http.MethodGet, anyURL+[]string{"short", "long", "hangs", "dead"}[i%4], http.NoBody)
			switch resp, err := tr.RoundTrip(req); {
			case err != nil:
			case i%4 == 0:
				io.Copy(io.Discard, resp.Body) // to its end, and not closed
			default:
				resp.Body.Close() // early
			}
		}
		base.CloseIdleConnections()
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			stacks := make([]byte, 1<<20)
			t.Errorf("goroutines: %d before, %d after\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
		}
		wantCounts(t, tr.Breaker("api.test:80"), 100, 100, 0)
	})
}

// A foreign context is no type of package context.
type foreign struct{ context.Context }

func (f foreign) Value(any) any { return nil }

// The same for memory: requests that are over are held by no timer, though their limits are long. (The
// runtime itself forgets stopped timers only by and by.)
func TestCallsAreCollected(t *testing.T) {
	for name, base := range map[string]baseFunc{
		"without an answer": failing(syscall.ECONNREFUSED),
		"with an answer":    answer(200, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, Config{Base: base, CallTimeout: time.Hour, StallTimeout: time.Hour})
			tr.Breaker("api.test:80").Force(breaker.ForcedClosed, "test")
			var refs []weak.Pointer[http.Request]
			for range 200 {
				req := newRequest(t, anyURL)
				refs = append(refs, weak.Make(req))
				fetch(tr, req)
			}
			runtime.GC()
			held := 0
			for _, ref := range refs {
				if ref.Value() != nil {
					held++
				}
			}
			if held > len(refs)/2 {
				t.Errorf("%d of %d requests are still held", held, len(refs))
			}
		})
	}
}

// The deprecated channel of a request is its caller's cancellation too.
func TestCancelChannel(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	tr := newTransport(t, Config{Base: failing(errors.New("aborted"))})
	req := newRequest(t, anyURL)
	req.Cancel = gone //nolint:staticcheck // http.Client still sets it
	fetch(tr, req)
	wantCounts(t, tr.Breaker("api.test:80"), 0, 0, 1)
}
