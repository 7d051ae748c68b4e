package otelbreaker

import (
	"context"
	"errors"
	"fmt"
	"net"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-go/breakwater/breaker"
)

// ScopeName is the name of the instrumentation.
const ScopeName = "github.com/breakwater-go/breakwater/contrib/otel"

// The attributes of a guarded call (REQ-B14).
const (
	KeyName    = attribute.Key("circuit_breaker.name")
	KeyState   = attribute.Key("circuit_breaker.state")   // a breaker.State in words
	KeyOutcome = attribute.Key("circuit_breaker.outcome") // OutcomeRejected, or a breaker.Outcome in words; fatal is failure
)

// Values of attributes.
const (
	OutcomeRejected      = "rejected"     // of KeyOutcome
	ErrorTypeCircuitOpen = "circuit_open" // of error.type
)

const (
	keyErrorType = attribute.Key("error.type")
	keyGenerated = attribute.Key("circuit_breaker.generation")
	keyScope     = attribute.Key("circuit_breaker.scope")
	keyFrom      = attribute.Key("circuit_breaker.from")
	keyTo        = attribute.Key("circuit_breaker.to")
	keyRule      = attribute.Key("circuit_breaker.reason")
	keyValue     = attribute.Key("circuit_breaker.value")
	keyThreshold = attribute.Key("circuit_breaker.threshold")
	keyUnit      = attribute.Key("circuit_breaker.unit")

	transitionEvent = "circuit_breaker.transition"
)

// Config says where spans go. The zero value works.
type Config struct {
	// Provider makes the spans. Default: OpenTelemetry's global one, also if it is set later.
	Provider trace.TracerProvider
	// Propagator puts the span into the headers of requests (NewTransport). Default: OpenTelemetry's global one at the time of the request,
	// which propagates nothing until it is set.
	Propagator propagation.TextMapPropagator
}

// A Tracer makes spans. Make it with [New]. A nil *Tracer makes none: what it wraps works as without it.
type Tracer struct {
	tracer     trace.Tracer                  // immutable
	propagator propagation.TextMapPropagator // nil: the global one; immutable
}

// New makes a Tracer.
func New(c Config) *Tracer {
	provider := c.Provider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return &Tracer{tracer: provider.Tracer(ScopeName), propagator: c.Propagator}
}

// Starting options, shared by all spans of a kind: a slice for each call would be an allocation.
var (
	clientKind   = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}   //nolint:gochecknoglobals // never written
	producerKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer)} //nolint:gochecknoglobals // never written
)

// Refused marks the span of a call that a breaker refused: refusal is an error that matches breaker.ErrOpen.
func Refused(s trace.Span, name string, refusal error) {
	state := breaker.Open
	if e, ok := errors.AsType[*breaker.OpenError](refusal); ok {
		state = e.State
	}
	s.SetAttributes(KeyName.String(name), KeyState.String(state.String()), KeyOutcome.String(OutcomeRejected))
	Failed(s, ErrorTypeCircuitOpen)
}

// Counted marks the span of a call that ended: in which state its breaker admitted it, what it counted as, and err, of which only
// the type is shown.
func Counted(s trace.Span, name string, admitted breaker.State, o breaker.Outcome, err error) {
	if o == breaker.Fatal {
		o = breaker.Failure
	}
	s.SetAttributes(KeyName.String(name), KeyState.String(admitted.String()), KeyOutcome.String(o.String()))
	if err != nil {
		Failed(s, ErrorType(err))
	}
}

// finish ends a span. Deferred itself, an SDK's End would note the value of a panic in the span.
func finish(s trace.Span) { s.End() }

// Failed sets error.type and the status.
func Failed(s trace.Span, errorType string) {
	s.SetAttributes(keyErrorType.String(errorType))
	s.SetStatus(codes.Error, "")
}

// ErrorType is the error.type of an error: circuit_open, timeout, canceled, panic, or the Go type of the first error within it that has one
// of its own; _OTHER where there is none. Its text is not in it.
func ErrorType(err error) string {
	switch {
	case err == errUnwound: //nolint:errorlint // our own, never wrapped
		return "panic"
	case errors.Is(err, breaker.ErrOpen):
		return ErrorTypeCircuitOpen
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return "timeout"
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if t := fmt.Sprintf("%T", e); !isAnonymous[t] {
			return t
		}
	}
	return "_OTHER"
}

// isAnonymous are the types that say nothing of an error.
var isAnonymous = map[string]bool{ //nolint:gochecknoglobals // never written
	"*errors.errorString": true, "*errors.joinError": true, "*fmt.wrapError": true, "*fmt.wrapErrors": true,
	"*breaker.ignoredError": true, "*fmt.fmtError": true,
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
