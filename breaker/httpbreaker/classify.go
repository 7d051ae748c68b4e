package httpbreaker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Outcome is what an HTTP status says about its host by default: 502, 503 and 504 are failures;
// every other one is a success, 500 and 429 too, since the host answered (REQ-B9).
func Outcome(status int) breaker.Outcome {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return breaker.Failure
	default:
		return breaker.Success
	}
}

// A panicError carries a panic of Config.Classify into the breaker, which reports it.
type panicError struct{ value any }

func (*panicError) Error() string { return "httpbreaker: Classify panicked" }

// reportPanics is the breaker's Classify for transport errors and for panics of ours.
func reportPanics(classify func(error) breaker.Outcome) func(error) breaker.Outcome {
	if classify == nil {
		classify = classifyError
	}
	return func(err error) breaker.Outcome {
		if p, ok := errors.AsType[*panicError](err); ok {
			panic(p.value)
		}
		return classify(err)
	}
}

func classifyError(err error) breaker.Outcome {
	if errors.Is(err, context.Canceled) {
		return breaker.Ignored
	}
	return breaker.Failure
}

// longestRetryAfter keeps a number of seconds from overflowing; Open.Max is below it.
const longestRetryAfter = 365 * 24 * time.Hour

// retryAfter is how long a response asks to be left alone, 0 if it does not. A date is
// compared with the response's own, so that the hosts' clocks need not agree.
func retryAfter(resp *http.Response) time.Duration {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	now, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return parseRetryAfter(resp.Header.Get("Retry-After"), now)
}

// parseRetryAfter reads a number of seconds or a date; anything else, and what is
// over already, is 0.
func parseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), longestRetryAfter)
}

// sendable reports whether a request is one that HTTP allows to be sent. Base refuses others
// before it asks the host, which has no part in it.
func sendable(req *http.Request) bool {
	if req.URL == nil || req.Header == nil || req.Method != "" && !isToken(req.Method) {
		return false
	}
	uri := req.URL.RequestURI()
	return !strings.ContainsFunc(uri, isControl) && !strings.Contains(uri, "\t") && areFields(req.Header) && areFields(req.Trailer)
}

// areFields reports whether h can be sent as headers or trailers.
func areFields(h http.Header) bool {
	for name, values := range h {
		if !isToken(name) || slices.ContainsFunc(values, func(v string) bool { return strings.ContainsFunc(v, isControl) }) {
			return false
		}
	}
	return true
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
