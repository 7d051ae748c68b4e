package grpcbreaker

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/breakwater-go/breakwater/breaker"
)

// finish ends what the client of the rig's streams sends, and receives to the end.
func finish(s grpc.ClientStream) error {
	_ = s.CloseSend()
	return drain(s)
}

// upload does what generated code does in CloseAndRecv.
func upload(s grpc.ClientStream) error {
	_ = s.CloseSend()
	var m message
	return s.RecvMsg(&m)
}

// The outcome of a stream is that of its end.
func TestStreamEnds(t *testing.T) {
	for name, c := range map[string]struct {
		method, script string
		end            func(grpc.ClientStream) error
		code           codes.Code
		counts         [3]uint64 // successes, failures, ignored
	}{
		"server, to its end":          {"Server", "say:a say:b", finish, codes.OK, [3]uint64{1, 0, 0}},
		"server, empty":               {"Server", "", finish, codes.OK, [3]uint64{1, 0, 0}},
		"server, breaks half way":     {"Server", "say:a say:b fail:Unavailable", finish, codes.Unavailable, [3]uint64{0, 1, 0}},
		"server, breaks at once":      {"Server", "fail:Unavailable", finish, codes.Unavailable, [3]uint64{0, 1, 0}},
		"server, an answer of a kind": {"Server", "fail:NotFound", finish, codes.NotFound, [3]uint64{1, 0, 0}},
		"upload":                      {"Client", "say:a", upload, codes.OK, [3]uint64{1, 0, 0}},
		"upload refused":              {"Client", "fail:Unavailable", upload, codes.Unavailable, [3]uint64{0, 1, 0}},
		"upload, answer then error":   {"Client", "say:a fail:Unavailable", upload, codes.Unavailable, [3]uint64{0, 1, 0}},
		"both":                        {"Both", "say:a", finish, codes.OK, [3]uint64{1, 0, 0}},
		"both, ended by the server":   {"Both", "end", drain, codes.OK, [3]uint64{1, 0, 0}},
		"both, breaks":                {"Both", "say:a fail:Unavailable", drain, codes.Unavailable, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, never())
				s := r.open(t.Context(), c.method, "")
				if err := s.SendMsg(wrapperspb.String(c.script)); err != nil {
					t.Fatal(err)
				}
				r.wantCounts(0, 0, 0)
				wantCode(t, c.end(s), c.code)
				_ = s.RecvMsg(new(message)) // once more: counts nothing
				r.wantCounts(c.counts[0], c.counts[1], c.counts[2])
			})
		})
	}
}

// REQ-B9: answers that break off half way are no successes.
func TestStreamsThatBreakOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, Config{})
		for range 5 {
			r.wantState(breaker.Closed)
			wantCode(t, finish(r.open(t.Context(), "Server", "say:a fail:Unavailable")), codes.Unavailable)
		}
		r.wantState(breaker.Open)
	})
}

// How a stream ends that runs out of time or is left, and when.
func TestStreamEndsByTime(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		script           string
		deadline, cancel time.Duration // the caller's; 0: none
		timeout          time.Duration // WithCallTimeout
		end              func(grpc.ClientStream) error
		code             codes.Code
		took             time.Duration
		counts           [3]uint64 // successes, failures, ignored
	}{
		"silent":                         {"hang", 0, 0, 0, drain, codes.DeadlineExceeded, 2 * s, [3]uint64{0, 1, 0}},
		"silent, in Header":              {"hang", 0, 0, 0, headerThenDrain, codes.DeadlineExceeded, 2 * s, [3]uint64{0, 1, 0}},
		"silent for long, by choice":     {"wait:50m say:a fail:NotFound", 0, 0, -1, drain, codes.NotFound, 50 * time.Minute, [3]uint64{2, 0, 0}},
		"silent, shorter by choice":      {"hang", 0, 0, s, drain, codes.DeadlineExceeded, s, [3]uint64{0, 1, 0}},
		"silent after a message":         {"say:a wait:9s fail:NotFound", 0, 0, 0, drain, codes.NotFound, 9 * s, [3]uint64{1, 0, 0}},
		"silent after the header":        {"header wait:9s fail:NotFound", 0, 0, 0, headerThenDrain, codes.NotFound, 9 * s, [3]uint64{1, 0, 0}},
		"caller's short deadline":        {"hang", s/2 - 1, 0, 0, drain, codes.DeadlineExceeded, s/2 - 1, [3]uint64{0, 0, 1}},
		"caller's long deadline":         {"hang", s / 2, 0, 0, drain, codes.DeadlineExceeded, s / 2, [3]uint64{0, 1, 0}},
		"caller's deadline, heard":       {"say:a hang", 9 * s, 0, 0, drain, codes.DeadlineExceeded, 9 * s, [3]uint64{0, 0, 1}},
		"caller cancels":                 {"hang", 0, s, 0, drain, codes.Canceled, s, [3]uint64{0, 0, 1}},
		"caller cancels, heard":          {"say:a hang", 0, s, 0, drain, codes.Canceled, s, [3]uint64{0, 0, 1}},
		"caller cancels and reads not":   {"say:a hang", 0, s, 0, leave(2 * s), codes.OK, 2 * s, [3]uint64{0, 0, 1}},
		"deadline and reads not, heard":  {"say:a hang", 3 * s, 0, 0, readThenLeave(4 * s), codes.OK, 4 * s, [3]uint64{0, 0, 1}},
		"deadline and reads not, silent": {"hang", 3 * s, 0, 0, leave(4 * s), codes.OK, 4 * s, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, never())
				ctx, cancel := context.WithCancel(WithCallTimeout(t.Context(), c.timeout))
				defer cancel()
				if c.deadline > 0 {
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				begin := time.Now()
				wantCode(t, c.end(r.open(ctx, "Both", c.script)), c.code)
				if took := time.Since(begin); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				synctest.Wait()
				r.wantCounts(c.counts[0], c.counts[1], c.counts[2])
			})
		})
	}
}

func headerThenDrain(s grpc.ClientStream) error {
	if _, err := s.Header(); err != nil {
		return err
	}
	return drain(s)
}

func leave(d time.Duration) func(grpc.ClientStream) error {
	return func(grpc.ClientStream) error { after(d); return nil }
}

func readThenLeave(d time.Duration) func(grpc.ClientStream) error {
	return func(s grpc.ClientStream) error {
		if err := s.RecvMsg(new(message)); err != nil {
			return err
		}
		after(d)
		return nil
	}
}

// REQ-B11: before the server is heard, waiting for a connection and for room to send are bounded too.
func TestStreamWaitsAreBounded(t *testing.T) {
	silent := func(t *testing.T, r *rig, err error) {
		t.Helper()
		wantCode(t, err, codes.DeadlineExceeded)
		if !strings.Contains(err.Error(), "no answer within 2s") {
			t.Errorf("got %v", err)
		}
		r.wantCounts(0, 1, 0)
	}
	t.Run("connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, never(), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
			r.lost()
			_, err := r.tryOpen(t.Context(), "Both")
			silent(t, r, err)
		})
	})
	t.Run("send", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, never())
			s := r.open(t.Context(), "Both", "hang")
			big := wrapperspb.String(strings.Repeat("x", 50_000))
			var err error
			for err == nil {
				err = s.SendMsg(big)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("SendMsg: got %v, want EOF", err)
			}
			silent(t, r, drain(s))
		})
	})
}

// An upload may last: the server is rightly silent until the client has sent all, and then has its time.
func TestUploadMayLast(t *testing.T) {
	for name, c := range map[string]struct {
		script   string
		deadline time.Duration
		code     codes.Code
		counts   [3]uint64
	}{
		"answered":                  {"say:a", time.Hour, codes.OK, [3]uint64{1, 0, 0}},
		"silent after it":           {"hang", time.Hour, codes.DeadlineExceeded, [3]uint64{0, 1, 0}},
		"deadline soon after it":    {"hang", 10*time.Second + 499*time.Millisecond, codes.DeadlineExceeded, [3]uint64{0, 0, 1}},
		"deadline a while after it": {"hang", 10*time.Second + 500*time.Millisecond, codes.DeadlineExceeded, [3]uint64{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, never())
				ctx, cancel := context.WithTimeout(t.Context(), c.deadline)
				defer cancel()
				s := r.open(ctx, "Client", c.script)
				for range 10 {
					time.Sleep(time.Second)
					if err := s.SendMsg(wrapperspb.String(c.script)); err != nil {
						t.Fatal(err)
					}
				}
				wantCode(t, upload(s), c.code)
				synctest.Wait()
				r.wantCounts(c.counts[0], c.counts[1], c.counts[2])
			})
		})
	}
}

// behaviours-breaker 7: a probe that its caller leaves gives its slot back at once, and decides nothing.
func TestStreamProbeThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.halfOpen()
		ctx, cancel := context.WithCancel(t.Context())
		s := r.open(ctx, "Server", "say:a hang")
		if err := s.RecvMsg(new(message)); err != nil {
			t.Fatal(err)
		}
		_, err := r.unary(t.Context(), "say:x")
		wantCode(t, err, codes.Unavailable) // the stream holds the only slot
		cancel()
		synctest.Wait()
		r.wantState(breaker.HalfOpen)
		wantCode(t, finish(r.open(t.Context(), "Server", "say:a")), codes.OK)
		r.wantState(breaker.Closed)
	})
}

// A stream that lives for hours closes a half-open breaker after half a lease, and its end is no second success.
func TestLongStreamProbeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.halfOpen()
		s := r.open(t.Context(), "Both", "say:a wait:3h")
		if err := s.RecvMsg(new(message)); err != nil {
			t.Fatal(err)
		}
		after(15*time.Second - 1)
		r.wantState(breaker.HalfOpen)
		after(1)
		r.wantState(breaker.Closed)
		r.wantCounts(1, 1, 0)
		wantCode(t, finish(s), codes.OK)
		r.wantCounts(1, 1, 0)
	})
}

// It settles also if it is heard only after half a lease.
func TestLongStreamHeardLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.halfOpen()
		s := r.open(WithCallTimeout(t.Context(), -1), "Both", "wait:20s say:a hang")
		if err := s.RecvMsg(new(message)); err != nil {
			t.Fatal(err)
		}
		r.wantState(breaker.Closed)
	})
}

// One that is never heard loses its slot with its lease, as any probe (behaviours-breaker 1).
func TestSilentStreamProbeLosesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.halfOpen()
		r.open(WithCallTimeout(t.Context(), -1), "Both", "hang")
		after(30*time.Second - 1)
		_, err := r.unary(t.Context(), "say:x")
		wantCode(t, err, codes.Unavailable)
		after(1)
		_, err = r.unary(t.Context(), "say:x")
		wantCode(t, err, codes.OK)
		r.wantState(breaker.Closed)
	})
}

// A stream that settled and breaks later is a failure of then, but never the verdict of a probe (REQ-B8).
func TestSettledStreamThatBreaks(t *testing.T) {
	settled := func(t *testing.T, r *rig) grpc.ClientStream {
		t.Helper()
		s := r.open(t.Context(), "Both", "say:a wait:1m fail:Unavailable")
		if err := s.RecvMsg(new(message)); err != nil {
			t.Fatal(err)
		}
		after(15 * time.Second)
		r.wantCounts(1, 0, 0)
		return s
	}
	t.Run("closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, oneFailure())
			wantCode(t, drain(settled(t, r)), codes.Unavailable)
			r.wantState(breaker.Open)
		})
	})
	t.Run("half-open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, oneFailure())
			s := settled(t, r)
			r.halfOpen()
			wantCode(t, drain(s), codes.Unavailable)
			r.wantState(breaker.HalfOpen)
			r.wantCounts(1, 1, 0)
		})
	})
	t.Run("caller cancels", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := inMemory(t, oneFailure())
			ctx, cancel := context.WithCancel(t.Context())
			s := r.open(ctx, "Both", "say:a hang")
			if err := s.RecvMsg(new(message)); err != nil {
				t.Fatal(err)
			}
			after(15 * time.Second)
			cancel()
			wantCode(t, drain(s), codes.Canceled)
			r.wantState(breaker.Closed)
		})
	})
}

// A RetryInfo at the end of a stream counts as one of a unary call.
func TestStreamRetryInfo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, never())
		wantCode(t, finish(r.open(t.Context(), "Server", "say:a fail:ResourceExhausted:7s")), codes.ResourceExhausted)
		r.wantState(breaker.Open)
	})
}

// behaviours-breaker 44: calls and streams that ended leave nothing at a context that lives on.
func TestNothingIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, never())
		ctx := &watched{Context: t.Context(), done: make(chan struct{})}
		_, _ = r.unary(ctx, "say:x") // makes the connection
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 200 {
			_, _ = r.unary(ctx, "say:x")
			_ = finish(r.open(ctx, "Server", "say:a"))
			_ = upload(r.open(ctx, "Client", "fail:Unavailable"))
			_ = drain(r.open(ctx, "Both", "say:a fail:Internal"))
		}
		synctest.Wait()
		if now := runtime.NumGoroutine(); now > before+20 { // the runtime's own come and go
			t.Errorf("goroutines: %d before, %d after", before, now)
		}
		if n := ctx.waiting.Load(); n != 0 {
			t.Errorf("%d still wait for the context's end", n)
		}
	})
}

// watched is a context that counts who waits for its end, which does not come.
type watched struct {
	context.Context
	done    chan struct{} // its own, so that package context asks AfterFunc
	waiting atomic.Int64
}

func (w *watched) Done() <-chan struct{} { return w.done }

func (w *watched) AfterFunc(func()) func() bool {
	w.waiting.Add(1)
	return sync.OnceValue(func() bool { w.waiting.Add(-1); return true })
}

// REQ-B10, for a call of the stream that does not return.
func TestStreamUnwinds(t *testing.T) {
	r := overLoopback(t, never(), grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		return panics{s}, err
	}))
	s := r.open(t.Context(), "Both", "say:a")
	func() {
		defer func() {
			if got := recover(); got != "x" {
				t.Errorf("recovered %v", got)
			}
		}()
		_ = s.RecvMsg(new(message))
	}()
	r.wantCounts(0, 1, 0)
}

type panics struct{ grpc.ClientStream }

func (panics) RecvMsg(any) error { panic("x") }
