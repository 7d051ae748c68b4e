package httpbreaker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// ErrTimeout is matched by the error of a request that a timeout of this package ended.
var ErrTimeout = errors.New("httpbreaker: timeout")

// A TimeoutError tells which limit ended a request. It matches [ErrTimeout] and
// [context.DeadlineExceeded], and is a net.Error whose Timeout is true.
type TimeoutError struct {
	// Key is that of the request's breaker.
	Key string
	// Body is true for StallTimeout, false for the call timeout.
	Body bool
	// Limit is how long it was.
	Limit time.Duration
}

// Error names the key and the limit.
func (e *TimeoutError) Error() string {
	what := "no response headers within"
	if e.Body {
		what = "nothing of the response body came for"
	}
	return fmt.Sprintf("httpbreaker: %s: %s %v", strconv.Quote(e.Key), what, e.Limit)
}

// Is matches ErrTimeout and context.DeadlineExceeded.
func (*TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Timeout is true: this is how http.Client and net.Error ask.
func (*TimeoutError) Timeout() bool { return true }

// Temporary is true, as for every timeout of package net.
func (*TimeoutError) Temporary() bool { return true }

var (
	errUnwound    = errors.New("panic or runtime.Goexit")
	errNoResponse = errors.New("httpbreaker: Base returned neither a response nor an error")
)

// A statusError is the reason of a response that counts as a failure.
type statusError int

func (e statusError) Error() string {
	return "status " + strconv.Itoa(int(e)) + " " + http.StatusText(int(e))
}
