package grpcbreaker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/breakwater-go/breakwater/breaker"
)

// REQ-B9: what each code says, and that nothing hides it.
func TestClassify(t *testing.T) {
	want := map[breaker.Outcome][]codes.Code{
		breaker.Failure: {codes.Unavailable, codes.DeadlineExceeded},
		breaker.Success: {
			codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists,
			codes.FailedPrecondition, codes.Aborted, codes.OutOfRange,
		},
		breaker.Ignored: {
			codes.Canceled, codes.Unknown, codes.Internal, codes.DataLoss, codes.ResourceExhausted,
			codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.Code(99),
		},
	}
	seen := 0
	for outcome, of := range want {
		for _, code := range of {
			seen++
			err := status.Error(code, "x")
			if got := Classify(err); got != outcome {
				t.Errorf("%v: got %v, want %v", code, got, outcome)
			}
			if err == nil {
				continue
			}
			if got := Classify(fmt.Errorf("wrapped: %w", err)); got != outcome {
				t.Errorf("%v, wrapped: got %v, want %v", code, got, outcome)
			}
		}
	}
	if seen != int(codes.Unauthenticated)+2 {
		t.Errorf("%d codes in the table, of %d and an unknown one", seen, codes.Unauthenticated+1)
	}
}

// Interceptors in between do not always keep to statuses.
func TestClassifyOtherErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want breaker.Outcome
	}{
		"deadline":         {context.DeadlineExceeded, breaker.Failure},
		"wrapped deadline": {fmt.Errorf("x: %w", context.DeadlineExceeded), breaker.Failure},
		"cancelled":        {fmt.Errorf("x: %w", context.Canceled), breaker.Ignored},
		"no status":        {errors.New("x"), breaker.Ignored},
		"inner breaker":    {fmt.Errorf("x: %w", RefusedError{&breaker.OpenError{}}), breaker.Ignored},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// What ended a call goes before what its error says (REQ-B9, behaviours-breaker 33).
func TestCallersEnd(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	past, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	future, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		err   error
		took  time.Duration
		want  breaker.Outcome
		known bool
	}{
		"answered, then cancelled":      {cancelled, nil, 0, breaker.Success, false},
		"cancelled, and not told so":    {cancelled, failure("Unavailable"), 0, breaker.Ignored, true},
		"failed in time":                {future, failure("Unavailable"), 0, breaker.Success, false},
		"out of time, not the caller's": {future, failure("DeadlineExceeded"), time.Minute, breaker.Success, false},
		"out of time, no deadline":      {t.Context(), failure("DeadlineExceeded"), time.Minute, breaker.Success, false},
		"the caller's, at once":         {past, failure("DeadlineExceeded"), 9, breaker.Ignored, true},
		"the caller's, slow":            {past, failure("DeadlineExceeded"), 10, breaker.Failure, true},
		"its timer is late":             {lateTimer{past}, failure("DeadlineExceeded"), 9, breaker.Ignored, true},
		"failed and out of time":        {past, failure("Unavailable"), 10, breaker.Success, false},
	} {
		if got, known := callersEnd(c.ctx, c.err, c.took, 10); got != c.want || known != c.known {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, known, c.want, c.known)
		}
	}
}

// lateTimer is a context whose deadline has passed while its timer has not run yet.
type lateTimer struct{ context.Context }

func (lateTimer) Err() error { return nil }

func TestRetryAfter(t *testing.T) {
	for script, want := range map[string]time.Duration{
		"Unavailable:5s":        5 * time.Second,
		"ResourceExhausted:5s":  5 * time.Second,
		"Unavailable:-5s":       0,
		"Unavailable":           0,
		"Internal:5s":           0,
		"FailedPrecondition:5s": 0,
	} {
		if got := retryAfter(failure(script)); got != want {
			t.Errorf("%s: got %v, want %v", script, got, want)
		}
	}
	if got := retryAfter(nil); got != 0 {
		t.Errorf("nil: got %v, want 0", got)
	}
}

// The details of a status are the server's bytes: whatever they are, the answer is a time that a breaker takes.
func FuzzRetryAfter(f *testing.F) {
	st := status.Convert(failure("Unavailable:5s")).Proto()
	f.Add(uint32(codes.Unavailable), st.Details[0].TypeUrl, st.Details[0].Value)
	f.Add(uint32(codes.ResourceExhausted), st.Details[0].TypeUrl, []byte{0x0a, 0x05, 0x08, 0xff, 0xff, 0xff, 0x7f})
	f.Add(uint32(codes.Unavailable), "type.googleapis.com/none", []byte{1})
	f.Add(uint32(codes.OK), "", []byte(nil))
	f.Fuzz(func(t *testing.T, code uint32, url string, value []byte) {
		err := status.ErrorProto(&spb.Status{Code: int32(code), Details: []*anypb.Any{{TypeUrl: url, Value: value}}})
		d := retryAfter(err)
		if d < 0 {
			t.Errorf("got %v", d)
		}
		if c := codes.Code(code); d > 0 && c != codes.Unavailable && c != codes.ResourceExhausted {
			t.Errorf("%v: got %v, want 0", c, d)
		}
	})
}
