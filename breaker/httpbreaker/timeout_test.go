package httpbreaker

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// REQ-B11: a host that takes the request and says nothing.
func TestCallTimeout(t *testing.T) {
	for name, tc := range map[string]struct {
		config Config
		under  time.Duration // WithCallTimeout
		want   time.Duration
	}{
		"default":             {want: 2 * time.Second},
		"configured":          {config: Config{CallTimeout: time.Second}, want: time.Second},
		"by context":          {config: Config{CallTimeout: time.Second}, under: time.Minute, want: time.Minute},
		"by context, without": {config: Config{CallTimeout: -1}, under: time.Minute, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.config.Base = servePipes(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				tr := newTransport(t, tc.config)
				begun := time.Now()
				client := &http.Client{Transport: tr}
				_, err := client.Do(newRequest(t, anyURL).WithContext(WithCallTimeout(t.Context(), tc.under))) //nolint:bodyclose // there is none
				if got := time.Since(begun); got != tc.want {
					t.Errorf("ended after %v, want %v", got, tc.want)
				}
				if e, ok := errors.AsType[*TimeoutError](err); !ok || e.Body || e.Limit != tc.want || e.Key != "api.test:80" {
					t.Errorf("got %v, want a TimeoutError", err)
				}
				if !errors.Is(err, ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: is no timeout to its caller", err)
				}
				if e, ok := errors.AsType[*url.Error](err); !ok || !e.Timeout() {
					t.Errorf("%v is no timeout to http.Client", err)
				}
				if _, ok := errors.AsType[net.Error](errors.Unwrap(err)); !ok {
					t.Errorf("%v is no net.Error", err)
				}
				wantCounts(t, tr.Breaker("api.test:80"), 0, 1, 0)
			})
		})
	}
}

func TestNoCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{CallTimeout: -1, Base: baseFunc(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Hour)
			return response(200, "late"), nil
		})})
		if _, body, err := get(t, tr, anyURL); err != nil || body != "late" {
			t.Errorf("got %q, %v", body, err)
		}
	})
}

// A Base that answers just when the time is up must not hand out a body that is dead already.
func TestAnswerAtTheCallTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := 0
		tr := newTransport(t, Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			resp := response(200, "")
			resp.Body = &closeCounter{ReadCloser: resp.Body, n: &closed}
			return resp, nil
		})})
		if _, _, err := get(t, tr, anyURL); !errors.Is(err, ErrTimeout) || closed != 1 {
			t.Errorf("got %v, closed %d times", err, closed)
		}
		wantCounts(t, tr.Breaker("api.test:80"), 0, 1, 0)
	})
}

type closeCounter struct {
	io.ReadCloser
	n *int
}

func (c *closeCounter) Close() error {
	*c.n++
	return c.ReadCloser.Close()
}

// REQ-B11: a body that stops coming.
func TestBodyThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{Base: servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("half"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})})
		begun := time.Now()
		_, body, err := get(t, tr, anyURL)
		if e, ok := errors.AsType[*TimeoutError](err); !ok || !e.Body || body != "half" {
			t.Errorf("got %q, %v, want a TimeoutError of the body", body, err)
		}
		if got := time.Since(begun); got != 10*time.Second {
			t.Errorf("ended after %v, want 10s", got)
		}
		wantCounts(t, tr.Breaker("api.test:80"), 0, 1, 0)
	})
}

// A stream that goes on for ever must not hold up a recovery until the probe's lease is over.
func TestStreamCountsOnceItHasDeliveredForLong(t *testing.T) {
	for name, tc := range map[string]struct {
		stall time.Duration
		after time.Duration // when the breaker closes
	}{
		"while it delivers":            {0, 12 * time.Second},
		"by its headers, if so wished": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, Config{StallTimeout: tc.stall, Base: servePipes(t, func(w http.ResponseWriter, r *http.Request) {
					w.(http.Flusher).Flush()
					for r.Context().Err() == nil {
						time.Sleep(4 * time.Second)
						w.Write([]byte("tick\n"))
						w.(http.Flusher).Flush()
					}
				})})
				b := tr.Breaker("api.test:80")
				b.Trip(breaker.Reason{})
				time.Sleep(time.Second)
				synctest.Wait()
				wantState(t, b, breaker.HalfOpen)
				begun := time.Now()
				resp, err := tr.RoundTrip(newRequest(t, anyURL))
				if err != nil {
					t.Fatal(err)
				}
				for b.State() == breaker.HalfOpen {
					if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
						t.Fatal(err)
					}
				}
				if got := time.Since(begun); got != tc.after {
					t.Errorf("closed after %v, want %v", got, tc.after)
				}
				resp.Body.Close()
				wantCounts(t, b, 1, 0, 0)
			})
		})
	}
}

// The longest that a probe can take to count is within the lease that it has by default.
func TestProbeCountsWithinItsLease(t *testing.T) {
	c := Config{}.withDefaults()
	if longest := c.CallTimeout + 2*c.StallTimeout; longest >= 30*time.Second {
		t.Errorf("a probe may take %v", longest)
	}
}

// A body that is never closed takes no slot for good and counts for nothing.
func TestBodyThatIsNeverClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{Base: answer(200, "x")})
		b := tr.Breaker("api.test:80")
		b.Trip(breaker.Reason{})
		time.Sleep(time.Second)
		synctest.Wait()
		if _, err := tr.RoundTrip(newRequest(t, anyURL)); err != nil { //nolint:bodyclose // that is the case
			t.Fatal(err)
		}
		if _, _, err := get(t, tr, anyURL); !errors.Is(err, breaker.ErrOpen) {
			t.Fatalf("got %v, want a refusal while the probe is out", err)
		}
		time.Sleep(30 * time.Second)
		if _, _, err := get(t, tr, anyURL); err != nil {
			t.Fatal(err)
		}
		wantState(t, b, breaker.Closed)
	})
}

// A caller who uploads slowly, or whose reader hangs, is no fault of the host.
func TestUploadThatStarves(t *testing.T) {
	for name, ctx := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"call timeout": context.WithCancel,
		"caller's deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, Config{Base: servePipes(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })})
				in, out := io.Pipe()
				defer out.Close()
				under, cancel := ctx(t.Context())
				defer cancel()
				req, _ := http.NewRequestWithContext(under, http.MethodPost, anyURL, in)
				if _, _, err := fetch(tr, req); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want a timeout", err)
				}
				wantCounts(t, tr.Breaker("api.test:80"), 0, 0, 1)
			})
		})
	}
}

// The same timeout is the host's if it is the host that does not take the body.
func TestHostThatDoesNotTakeTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(t, Config{Base: servePipes(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
		in, out := io.Pipe()
		go func() {
			for {
				if _, err := out.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, anyURL, in)
		if _, _, err := fetch(tr, req); !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v, want a timeout", err)
		}
		wantCounts(t, tr.Breaker("api.test:80"), 0, 1, 0)
	})
}

// REQ-B9: a Retry-After sets the earliest next attempt, whatever the status counts as.
func TestRetryAfterOpens(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		value  string
		want   time.Duration // 0: stays closed
	}{
		"429":            {429, "7", 7 * time.Second},
		"503":            {503, "7", 7 * time.Second},
		"at most Max":    {503, "86400", 30 * time.Second},
		"a bad value":    {503, "soon", 0},
		"no wait":        {429, "0", 0},
		"another status": {500, "7", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTransport(t, Config{Base: servePipes(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tc.value)
					w.WriteHeader(tc.status)
				})})
				if status, _, err := get(t, tr, anyURL); err != nil || status != tc.status {
					t.Fatalf("got %d, %v, want the response", status, err)
				}
				b := tr.Breaker("api.test:80")
				if tc.want == 0 {
					wantState(t, b, breaker.Closed)
					return
				}
				if got := b.Stats().Reason.Rule; got != breaker.RuleRetryAfter {
					t.Errorf("reason: got %q", got)
				}
				_, _, err := get(t, tr, anyURL)
				e, ok := errors.AsType[*breaker.OpenError](err)
				if !ok || e.RetryAfter() != tc.want {
					t.Fatalf("got %v, want a refusal for %v", err, tc.want)
				}
				time.Sleep(tc.want)
				synctest.Wait()
				wantState(t, b, breaker.HalfOpen)
			})
		})
	}
}

// A probe that is told to come back later closes nothing in between.
func TestRetryAfterOfAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closings int
		config := breakerConfig()
		config.Observer.OnTransition = func(tr breaker.Transition) {
			if tr.To == breaker.Closed {
				closings++
			}
		}
		tr := newTransport(t, Config{Breaker: config, Base: servePipes(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusTooManyRequests)
		})})
		b := tr.Breaker("api.test:80")
		b.Trip(breaker.Reason{})
		time.Sleep(time.Second)
		synctest.Wait()
		get(t, tr, anyURL)
		wantState(t, b, breaker.Open)
		if got := b.Stats().RetryAfter; got != 5*time.Second || closings != 0 {
			t.Errorf("open for %v after %d closings, want 5s after none", got, closings)
		}
	})
}
