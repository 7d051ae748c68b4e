package readpath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

var (
	// ErrDegraded matches the refusal of a read that could not be answered within the
	// primary's budget.
	ErrDegraded = errors.New("readpath: degraded")
	// ErrShed matches the refusal of a sheddable read.
	ErrShed = errors.New("readpath: shed")
	// ErrUnknownEndpoint matches the error for a name that is not registered, where
	// Config.DefaultClass is none.
	ErrUnknownEndpoint = errors.New("readpath: unknown endpoint")
)

// A RefusedError is the refusal of a read. Most are made once an endpoint and class, and shared: do
// not change it. Read it with errors.AsType[*readpath.RefusedError].
type RefusedError struct {
	Endpoint string
	Class    Class

	after time.Duration
	shed  bool
	cause error // what the primary failed with, if it was asked
}

// Error names the endpoint and its class.
func (e *RefusedError) Error() string {
	why := "degraded: no replica may take it, and the primary has no room, or does not answer"
	switch {
	case e.shed:
		why = "shed: no replica may take it"
	case e.cause != nil:
		why = fmt.Sprintf("degraded: no replica may take it, and the primary did not answer: %v", e.cause)
	}
	return fmt.Sprintf("readpath: %s read of %q refused, %s", e.Class, e.Endpoint, why)
}

// Is reports whether target is [ErrShed] or [ErrDegraded], as it is.
func (e *RefusedError) Is(target error) bool {
	return target == ErrShed && e.shed || target == ErrDegraded && !e.shed
}

// Unwrap returns what the primary failed with; nil if it was not asked.
func (e *RefusedError) Unwrap() error { return e.cause }

// because is a refusal with its cause.
func because(e *RefusedError, cause error) error {
	return &RefusedError{Endpoint: e.Endpoint, Class: e.Class, after: e.after, shed: e.shed, cause: cause}
}

// RetryAfter is how long to stay away: the class's time and up to half of it more, drawn each
// time it is asked, so that clients do not come back together (REQ-D10).
func (e *RefusedError) RetryAfter() time.Duration {
	return e.after + rand.N(e.after/2+1) //nolint:gosec // spreads clients, guards nothing
}

func unknownError(endpoint string) error {
	return fmt.Errorf("%w %q: register it in Config.Endpoints, or set Config.DefaultClass", ErrUnknownEndpoint, endpoint)
}

func defaultTypeError(ep *endpoint, want any) error {
	return fmt.Errorf("readpath: Endpoints[%q].Default is a %T: the read returns a %T; give it that type", ep.name, ep.Default, want)
}

// fault names a field, its value and the mend.
func fault(field string, value any, mend string) error {
	return fmt.Errorf("readpath: %s is %v: %s", field, value, mend)
}
