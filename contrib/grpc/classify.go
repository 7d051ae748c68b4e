package grpcbreaker

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/contrib/grpc/internal/retryinfo"
)

// Classify tells what an error says about the target, by its status code (REQ-B9):
//
//   - Unavailable and DeadlineExceeded are failures, as is an error that wraps context.DeadlineExceeded.
//   - InvalidArgument, NotFound, AlreadyExists, FailedPrecondition, Aborted and OutOfRange are successes: gRPC
//     itself never makes them, so the server's own code ran and answered.
//   - Internal, Unknown and DataLoss are ignored. They are what a fault in one method, or a plain error that a handler
//     returned, looks like: one bad request that is sent often must not take the service from everybody.
//   - ResourceExhausted is ignored: a client makes it too, of a message that is too large. With a
//     RetryInfo it opens the breaker all the same.
//   - Canceled, Unauthenticated, PermissionDenied, Unimplemented and unknown codes are ignored: the client or a proxy may
//     have made them, so they do not show that the target is well either.
//   - The refusal of another breaker, further down the chain, is ignored.
//
// To count more, set Config.Breaker.Classify to a function that knows the codes in question and leaves
// the others to this one.
func Classify(err error) breaker.Outcome {
	if errors.Is(err, breaker.ErrOpen) {
		return breaker.Ignored
	}
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return breaker.Failure
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists,
		codes.FailedPrecondition, codes.Aborted, codes.OutOfRange:
		return breaker.Success
	default:
		return breaker.Ignored
	}
}

// codeOf is the status code of err. An interceptor in between may hand on a bare context error.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return status.Code(err)
	}
}

// retryAfter is how long the server wants no call, 0 if it does not say.
func retryAfter(err error) time.Duration {
	if c := codeOf(err); c != codes.Unavailable && c != codes.ResourceExhausted {
		return 0
	}
	return retryinfo.Delay(err)
}

// callersEnd is the outcome of a call that ended because its caller cancelled it or its caller's deadline passed, after
// lasting for d.
func callersEnd(ctx context.Context, err error, d, slow time.Duration) (o breaker.Outcome, ok bool) {
	switch {
	case err == nil:
		return breaker.Success, false
	case errors.Is(ctx.Err(), context.Canceled):
		return breaker.Ignored, true
	case codeOf(err) != codes.DeadlineExceeded || !deadlinePassed(ctx):
		return breaker.Success, false
	case d >= slow:
		return breaker.Failure, true
	default:
		return breaker.Ignored, true
	}
}

// deadlinePassed asks the clock, not ctx.Err: the server runs into the same deadline, and its answer may come before
// ctx's own timer has run.
func deadlinePassed(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}
