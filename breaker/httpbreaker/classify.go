package httpbreaker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/httpwire"
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

// sendable reports whether a request is one that HTTP allows to be sent. Base refuses others
// before it asks the host, which has no part in it.
func sendable(req *http.Request) bool {
	if req.URL == nil || req.Header == nil || req.Method != "" && !httpwire.IsToken(req.Method) {
		return false
	}
	uri := req.URL.RequestURI()
	return httpwire.IsValue(uri) && !strings.Contains(uri, "\t") && areFields(req.Header) && areFields(req.Trailer)
}

// areFields reports whether h can be sent as headers or trailers.
func areFields(h http.Header) bool {
	for name, values := range h {
		if !httpwire.IsToken(name) || slices.ContainsFunc(values, func(v string) bool { return !httpwire.IsValue(v) }) {
			return false
		}
	}
	return true
}
