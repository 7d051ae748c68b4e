package httpsink

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

const limit = 200 * time.Millisecond

// inMemory is a sink, for a bubble, whose consumer is f on a connection in memory.
func inMemory(t *testing.T, f func(c net.Conn, in *bufio.Reader)) *Sink {
	t.Helper()
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	s := newSink(t, Config{URL: "http://consumer.test/"})
	s.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		serving.Go(func() {
			defer theirs.Close()
			f(theirs, bufio.NewReader(theirs))
		})
		return ours, nil
	}
	return s
}

// However a consumer holds a delivery up, its end is that of the context, and a failure; but once it said 2xx the trigger is delivered.
func TestTheContextEndsIt(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    string // what it says at once
		more      string // and every 10 ms after that
		delivered bool
	}{
		"never answers":      {"", "", false},
		"trickles a status":  {"HTTP/1.1 2", "0", false},
		"trickles a header":  {"HTTP/1.1 200 OK\r\n", "X: y\r\n", false},
		"trickles a body":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", true},
		"stalls in a body":   {"HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\nx", "", true},
		"fails and stalls":   {"HTTP/1.1 503 Unwell\r\nContent-Length: 10\r\n\r\nx", "", false},
		"fails and trickles": {"HTTP/1.1 500 Unwell\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			sink := inMemory(t, func(c net.Conn, in *bufio.Reader) {
				req, _ := http.ReadRequest(in)
				_, _ = io.Copy(io.Discard, req.Body)
				_, err := fmt.Fprint(c, tc.answer)
				for err == nil && tc.more != "" {
					time.Sleep(10 * time.Millisecond)
					_, err = fmt.Fprint(c, tc.more)
				}
				_, _ = io.Copy(io.Discard, c) // until the other side closes
			})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			begin := time.Now()
			err := sink.Deliver(ctx, trigger())
			if (err == nil) != tc.delivered || errors.Is(err, emit.ErrRejected) {
				t.Errorf("%s: got %v", name, err)
			}
			if got := time.Since(begin); got != limit {
				t.Errorf("%s: took %v, want %v", name, got, limit)
			}
		})
	}
}

// A consumer that does not even read is left too; its answer never came, and the error says why.
func TestConsumerThatReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		sink := inMemory(t, func(net.Conn, *bufio.Reader) { <-end })
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		if err := sink.Deliver(ctx, trigger()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// A consumer that cannot be connected to holds nobody up for longer than the context either.
func TestConnectHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := newSink(t, Config{URL: "http://consumer.test/"})
		sink.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			time.Sleep(connectTimeout) // as a net.Dialer does
			return nil, context.DeadlineExceeded
		}
		defer func() {
			time.Sleep(connectTimeout)
			synctest.Wait() // the dial is over too
		}()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		begin := time.Now()
		if err := sink.Deliver(ctx, trigger()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != limit {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

// A delivery that waits for one of the connections waits no longer than its context.
func TestWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		sink := inMemory(t, func(_ net.Conn, in *bufio.Reader) {
			_, _ = http.ReadRequest(in)
			<-end
		})
		ctx, cancel := context.WithCancel(t.Context())
		for range defaultMaxConns {
			go func() { _ = sink.Deliver(ctx, trigger()) }()
		}
		synctest.Wait()
		late, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		begin := time.Now()
		if err := sink.Deliver(late, trigger()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != limit {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		cancel()
		close(end)
	})
}

// Headers without end are a failure once they are over the bound.
func TestEndlessHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := 0
		ended := make(chan struct{})
		sink := inMemory(t, func(c net.Conn, in *bufio.Reader) {
			defer close(ended)
			_, _ = http.ReadRequest(in)
			n, err := fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for ; err == nil; n, err = fmt.Fprintf(c, "X: %01000d\r\n", 1) {
				sent += n
			}
		})
		err := sink.Deliver(t.Context(), trigger())
		<-ended
		if err == nil || errors.Is(err, emit.ErrRejected) || sent > 2*maxHeader {
			t.Errorf("got %v after %d bytes", err, sent)
		}
	})
}

// A roundTripper stands for net/http.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// net/http may read a body after RoundTrip has returned. Once Deliver has returned it gets nothing of the caller's data any more,
// which may change then (the race detector looks).
func TestDataIsTheCallersAgain(t *testing.T) {
	var late sync.WaitGroup
	begun := make(chan struct{})
	sink := newSink(t, Config{URL: "http://consumer.test"})
	sink.url.Scheme = "memory"
	sink.transport.RegisterProtocol("memory", roundTripper(func(req *http.Request) (*http.Response, error) {
		late.Go(func() {
			for p := make([]byte, 1); ; {
				n, err := req.Body.Read(p)
				if n == 0 {
					if !errors.Is(err, io.ErrClosedPipe) {
						t.Errorf("late read: got %v", err)
					}
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		})
		<-begun
		return nil, io.ErrUnexpectedEOF
	}))
	big := trigger()
	big.Data = bytes.Repeat([]byte("1"), 16<<20)
	if err := sink.Deliver(t.Context(), big); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
	clear(big.Data)
	late.Wait()
}

func TestContextThatHasEnded(t *testing.T) {
	s := serve(t, status(200, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newSink(t, Config{URL: s.URL}).Deliver(ctx, trigger()); !errors.Is(err, context.Canceled) || s.conns.Load() != 0 {
		t.Errorf("got %v", err)
	}
}
