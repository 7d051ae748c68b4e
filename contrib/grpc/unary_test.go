package grpcbreaker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/breaker"
)

// Each end of a unary call, how long it took, and what it counted as (REQ-B9, REQ-B11; behaviours-breaker 34).
func TestUnaryEnds(t *testing.T) {
	deadline := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
	}
	late := func(of func(context.Context) (context.Context, context.CancelFunc)) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			defer time.Sleep(10 * time.Millisecond)
			return of(ctx)
		}
	}
	cancelAfter := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(d, cancel)
			return ctx, cancel
		}
	}
	within := func(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
		return func(ctx context.Context) (context.Context, context.CancelFunc) {
			return WithCallTimeout(ctx, d), func() {}
		}
	}
	for name, c := range map[string]struct {
		ctx    func(context.Context) (context.Context, context.CancelFunc)
		script string
		code   codes.Code
		took   time.Duration
		counts [3]uint64 // successes, failures, ignored
	}{
		"answer":                         {nil, "say:x", codes.OK, 0, [3]uint64{1, 0, 0}},
		"no such thing":                  {nil, "fail:NotFound", codes.NotFound, 0, [3]uint64{1, 0, 0}},
		"unavailable":                    {nil, "fail:Unavailable", codes.Unavailable, 0, [3]uint64{0, 1, 0}},
		"fault of a handler":             {nil, "fail:Internal", codes.Internal, 0, [3]uint64{0, 0, 1}},
		"our timeout":                    {nil, "hang", codes.DeadlineExceeded, 2 * time.Second, [3]uint64{0, 1, 0}},
		"the server's own timeout":       {nil, "wait:300ms fail:DeadlineExceeded", codes.DeadlineExceeded, 300 * time.Millisecond, [3]uint64{0, 1, 0}},
		"same, below a caller's":         {deadline(500 * time.Millisecond), "wait:300ms fail:DeadlineExceeded", codes.DeadlineExceeded, 300 * time.Millisecond, [3]uint64{0, 1, 0}},
		"caller's short deadline":        {deadline(499 * time.Millisecond), "hang", codes.DeadlineExceeded, 499 * time.Millisecond, [3]uint64{0, 0, 1}},
		"caller's long deadline":         {deadline(500 * time.Millisecond), "hang", codes.DeadlineExceeded, 500 * time.Millisecond, [3]uint64{0, 1, 0}},
		"caller's second, partly gone":   {late(deadline(time.Second)), "hang", codes.DeadlineExceeded, 990 * time.Millisecond, [3]uint64{0, 1, 0}},
		"caller's deadline after ours":   {deadline(time.Minute), "hang", codes.DeadlineExceeded, 2 * time.Second, [3]uint64{0, 1, 0}},
		"caller cancels":                 {cancelAfter(time.Second), "hang", codes.Canceled, time.Second, [3]uint64{0, 0, 1}},
		"cancelled before":               {cancelAfter(0), "hang", codes.Canceled, 0, [3]uint64{0, 0, 1}},
		"longer by choice":               {within(10 * time.Second), "wait:9s say:x", codes.OK, 9 * time.Second, [3]uint64{1, 0, 0}},
		"shorter by choice":              {within(time.Second), "hang", codes.DeadlineExceeded, time.Second, [3]uint64{0, 1, 0}},
		"without by choice":              {within(-1), "wait:59m say:x", codes.OK, 59 * time.Minute, [3]uint64{1, 0, 0}},
		"the guard's own, by saying so":  {within(0), "hang", codes.DeadlineExceeded, 2 * time.Second, [3]uint64{0, 1, 0}},
		"server says cancelled":          {nil, "fail:Canceled", codes.Canceled, 0, [3]uint64{0, 0, 1}},
		"too much asked, without a time": {nil, "fail:ResourceExhausted", codes.ResourceExhausted, 0, [3]uint64{0, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, never())
				ctx := t.Context()
				if c.ctx != nil {
					var cancel context.CancelFunc
					ctx, cancel = c.ctx(ctx)
					defer cancel()
				}
				begin := time.Now()
				_, err := r.unary(ctx, c.script)
				if took := time.Since(begin); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				wantCode(t, err, c.code)
				r.wantCounts(c.counts[0], c.counts[1], c.counts[2])
			})
		})
	}
}

// REQ-B9: errors of the client do not trip, those that say "not serving" do.
func TestClientErrorsDoNotTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, Config{})
		for range 20 {
			_, err := r.unary(t.Context(), "fail:InvalidArgument")
			wantCode(t, err, codes.InvalidArgument)
		}
		r.wantState(breaker.Closed)
		r.fail(5)
		r.wantState(breaker.Open)
	})
}

// Other codes count by choice.
func TestClassifyOfTheCallers(t *testing.T) {
	c := oneFailure()
	c.Breaker.Classify = func(err error) breaker.Outcome {
		if status.Code(err) == codes.Internal {
			return breaker.Failure
		}
		return Classify(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, c)
		_, _ = r.unary(t.Context(), "fail:Unknown")
		r.wantState(breaker.Closed)
		_, _ = r.unary(t.Context(), "fail:Internal")
		r.wantState(breaker.Open)
	})
}

// REQ-B4: an open breaker refuses at once and sends nothing; its error is one of both worlds.
func TestRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.fail(1)
		begin := time.Now()
		_, err := r.unary(t.Context(), "hang")
		_, streamErr := r.tryOpen(t.Context(), "Both")
		if took := time.Since(begin); took != 0 {
			t.Errorf("took %v", took)
		}
		for _, err := range []error{err, streamErr, fmt.Errorf("wrapped: %w", err)} {
			wantCode(t, err, codes.Unavailable)
			if !errors.Is(err, breaker.ErrOpen) {
				t.Errorf("%v does not match ErrOpen", err)
			}
			refusal, ok := errors.AsType[RefusedError](err)
			if !ok || refusal.RetryAfter() != time.Second || refusal.Name != r.breaker().Name() {
				t.Errorf("got %#v", err)
			}
		}
		if s := status.Convert(err); strings.Contains(s.Message(), service) || len(s.Details()) > 0 {
			t.Errorf("the status tells too much: %v", s)
		}
		r.wantCounts(0, 1, 0)
	})
}

// REQ-B5: a probe that succeeds closes, one that fails opens for twice as long.
func TestUnaryProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, oneFailure())
		r.halfOpen()
		r.fail(1)
		r.wantState(breaker.Open)
		after(2 * time.Second)
		_, err := r.unary(t.Context(), "say:x")
		wantCode(t, err, codes.OK)
		r.wantState(breaker.Closed)
	})
}

// REQ-B9: a RetryInfo sets the earliest next attempt, also where the code itself counts for nothing.
func TestRetryInfoOpens(t *testing.T) {
	for script, want := range map[string]time.Duration{
		"fail:Unavailable:7s":       7 * time.Second,
		"fail:ResourceExhausted:7s": 7 * time.Second,
		"fail:Unavailable:1h":       30 * time.Second, // Open.Max
		"fail:ResourceExhausted:0s": 0,
		"fail:NotFound:7s":          0,
	} {
		t.Run(script, func(t *testing.T) {
			c := never()
			c.Breaker.Open.Jitter = -1
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, c)
				_, _ = r.unary(t.Context(), script)
				if want == 0 {
					r.wantState(breaker.Closed)
					return
				}
				r.wantState(breaker.Open)
				if rule := r.breaker().Stats().Reason.Rule; rule != breaker.RuleRetryAfter {
					t.Errorf("rule: got %q", rule)
				}
				_, err := r.unary(t.Context(), "say:x")
				if open, ok := errors.AsType[RefusedError](err); !ok || open.RetryAfter() != want {
					t.Errorf("got %v, want a refusal for %v", err, want)
				}
			})
		})
	}
}

// REQ-B10: what does not return is a failure, and goes on unchanged.
func TestUnaryUnwinds(t *testing.T) {
	for name, c := range map[string]struct {
		unwind func()
		want   any
	}{
		"panic":  {func() { panic("x") }, "x"},
		"Goexit": {runtime.Goexit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := overLoopback(t, never(), grpc.WithChainUnaryInterceptor(func(
				context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption,
			) error {
				c.unwind()
				return nil
			}))
			done := make(chan any)
			go func() {
				defer func() { done <- recover() }()
				_, _ = r.unary(t.Context(), "say:x")
			}()
			if got := <-done; got != c.want {
				t.Errorf("recovered %v, want %v", got, c.want)
			}
			r.wantCounts(0, 1, 0)
		})
	}
}

// REQ-B15: the usual key is target and service; a caller may say another.
func TestKeys(t *testing.T) {
	type tenant struct{}
	for name, c := range map[string]struct {
		key  func(ctx context.Context, target, method string) string
		want string
	}{
		"usual":    {nil, "passthrough:///memory/" + service},
		"caller's": {func(ctx context.Context, _, _ string) string { return ctx.Value(tenant{}).(string) }, "acme"},
		"method":   {func(_ context.Context, _, method string) string { return method }, "/" + service + "/Unary"},
		"panics":   {func(context.Context, string, string) string { panic("x") }, "passthrough:///memory/" + service},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []breaker.Fault
			config := oneFailure()
			config.Key = c.key
			config.Breaker.Observer.OnFault = func(f breaker.Fault) {
				faults = append(faults, f)
				panic("an observer's own")
			}
			synctest.Test(t, func(t *testing.T) {
				r := inMemory(t, config)
				_, _ = r.unary(context.WithValue(t.Context(), tenant{}, "acme"), "fail:Unavailable")
				if b := r.guard.Breaker(c.want); b.State() != breaker.Open || b.Name() != c.want {
					t.Errorf("breaker %q: %v", b.Name(), b.State())
				}
			})
			if want := name == "panics"; (len(faults) == 1) != want || want && (faults[0].Part != "Key" || faults[0].Panic != "x") {
				t.Errorf("faults: %+v", faults) // REQ-B18
			}
		})
	}
}

func TestServiceOf(t *testing.T) {
	for method, want := range map[string]string{
		"/shop.Orders/Get": "/shop.Orders", "/a/b/c": "/a/b", "/Get": "/Get", "Get": "Get", "": "", "/": "/",
	} {
		if got := serviceOf(method); got != want {
			t.Errorf("%q: got %q, want %q", method, got, want)
		}
	}
}
