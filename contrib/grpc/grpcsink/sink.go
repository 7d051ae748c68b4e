package grpcsink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/breakwater-go/breakwater/contrib/grpc/internal/retryinfo"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// MaxRetryAfter bounds what a consumer can ask for by RetryInfo.
const MaxRetryAfter = time.Hour

// Config sets up a Sink. The zero Config works.
type Config struct {
	// IdempotencyKey is the key of the metadata that carries the trigger's ID, percent-encoded where it is not printable ASCII: lower-case
	// letters, digits, and "_", "-" and ".". It must not begin with grpc- nor end in -bin. Default: idempotency-key.
	IdempotencyKey string
	// Options are given to each call. Default: none.
	Options []grpc.CallOption
}

const defaultIdempotencyKey = "idempotency-key"

// A Sink delivers by one method. Make it with [New].
type Sink struct {
	call func(context.Context, emit.Trigger) error // immutable, as all of it
	key  string
}

// New makes a Sink of a method, as generated clients have them, and a function that makes its request of a trigger. The request may share the
// trigger's Data while the method runs; a codec that keeps it for longer needs a copy. The error names every fault.
func New[Request, Response any](
	method func(context.Context, Request, ...grpc.CallOption) (Response, error), request func(emit.Trigger) (Request, error), c Config,
) (*Sink, error) {
	c.IdempotencyKey = cmp.Or(c.IdempotencyKey, defaultIdempotencyKey)
	err := c.check()
	if method == nil || request == nil {
		err = errors.Join(errors.New("grpcsink: New needs a method and a function that makes its request"), err)
	}
	if err != nil {
		return nil, err
	}
	return &Sink{key: c.IdempotencyKey, call: func(ctx context.Context, t emit.Trigger) error {
		req, err := request(t)
		if err != nil {
			return &requestError{err}
		}
		_, err = method(ctx, req, c.Options...)
		return err
	}}, nil
}

func (c Config) check() error {
	bad := strings.ContainsFunc(c.IdempotencyKey, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.", r)
	})
	if bad || strings.HasPrefix(c.IdempotencyKey, "grpc-") || strings.HasSuffix(c.IdempotencyKey, "-bin") {
		return fmt.Errorf("grpcsink: IdempotencyKey is %q: use lower-case letters, digits, _, - and ., no grpc- before and no -bin behind", c.IdempotencyKey)
	}
	return nil
}

// A requestError says that there is no request for a trigger. It matches emit.ErrRejected.
type requestError struct{ cause error }

// Error tells what the function said.
func (e *requestError) Error() string { return "no request for this trigger: " + e.cause.Error() }

// Is matches emit.ErrRejected.
func (*requestError) Is(target error) bool { return target == emit.ErrRejected }

// Unwrap returns what the function said.
func (e *requestError) Unwrap() error { return e.cause }

// Deliver calls the method, and says by its status whether t was taken: see the package's documentation.
func (s *Sink) Deliver(ctx context.Context, t emit.Trigger) error {
	err := s.call(metadata.AppendToOutgoingContext(ctx, s.key, cloudevent.Percent(t.ID)), t)
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case errors.Is(err, emit.ErrRejected), rejects(code):
		return rejected(err)
	case code == codes.Unavailable || code == codes.ResourceExhausted:
		if delay := min(retryinfo.Delay(err), MaxRetryAfter); delay > 0 {
			return &emit.LaterError{After: delay, Err: fmt.Errorf("grpcsink: %w", err)}
		}
	}
	return failed(ctx, err)
}

// rejects knows the codes that judge the trigger and not the consumer's health.
func rejects(c codes.Code) bool {
	switch c {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated,
		codes.FailedPrecondition, codes.OutOfRange:
		return true
	default:
		return false
	}
}

func rejected(err error) error {
	if errors.Is(err, emit.ErrRejected) {
		return fmt.Errorf("grpcsink: %w", err)
	}
	return fmt.Errorf("grpcsink: %w: %w", emit.ErrRejected, err)
}

// failed keeps what ended the context beside the status, which does not wrap it.
func failed(ctx context.Context, err error) error {
	ended := ctx.Err()
	if status.Code(err) == codes.DeadlineExceeded { // the consumer may see the deadline pass a moment before we do
		ended = context.DeadlineExceeded
	}
	if ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("grpcsink: %w: %w", ended, err)
	}
	return fmt.Errorf("grpcsink: %w", err)
}
