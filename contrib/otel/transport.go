package otelbreaker

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-go/breakwater/breaker/httpbreaker"
)

// A Transport is an [httpbreaker.Transport] whose requests have spans. Make it with [NewTransport].
type Transport struct {
	*httpbreaker.Transport

	tracer *Tracer
}

// NewTransport makes a guarded transport whose requests have spans, named by their method. A span ends when the request counts, which for a good response is
// the end of its body: a body that is never closed leaves its span open. The span is put into the request's headers by the Propagator. Its
// attributes are those of HTTP client spans but for url.full, whose path and query may hold what no trace should. c.OnEnd is told besides. The error
// names every fault of c.
func NewTransport(t *Tracer, c httpbreaker.Config) (*Transport, error) {
	if t != nil {
		c.OnEnd = endSpan(c.OnEnd)
	}
	base, err := httpbreaker.New(c)
	if err != nil {
		return nil, err
	}
	return &Transport{Transport: base, tracer: t}, nil
}

// RoundTrip is that of httpbreaker, in a span.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.tracer == nil {
		return t.Transport.RoundTrip(req) //nolint:contextcheck // it has the request's
	}
	ctx, span := t.tracer.tracer.Start(req.Context(), method(req), clientKind...)
	if span.IsRecording() {
		span.SetAttributes(requestAttributes(req)...)
	}
	traced := req.WithContext(context.WithValue(ctx, requestKey{}, span))
	traced.Header = t.tracer.inject(ctx, req.Header)
	return t.Transport.RoundTrip(traced) //nolint:contextcheck // it has the request's
}

// inject is h with the headers of the propagator: a RoundTripper must not change the caller's.
func (t *Tracer) inject(ctx context.Context, h http.Header) http.Header {
	p := t.propagator
	if p == nil {
		p = otel.GetTextMapPropagator()
	}
	if len(p.Fields()) == 0 {
		return h
	}
	h = h.Clone()
	if h == nil {
		h = http.Header{}
	}
	p.Inject(ctx, propagation.HeaderCarrier(h))
	return h
}

// requestKey finds the span of a request, whatever else was put into its context since.
type requestKey struct{}

// endSpan is an OnEnd that ends the request's span.
func endSpan(also func(*http.Request, httpbreaker.End)) func(*http.Request, httpbreaker.End) {
	return func(req *http.Request, e httpbreaker.End) {
		if also != nil {
			defer also(req, e)
		}
		span, ok := req.Context().Value(requestKey{}).(trace.Span)
		if !ok {
			return
		}
		defer finish(span)
		if span.IsRecording() {
			describe(span, e)
		}
	}
}

func describe(span trace.Span, e httpbreaker.End) {
	if !e.Admitted {
		Refused(span, e.Breaker.Name(), e.Err)
		return
	}
	Counted(span, e.Breaker.Name(), e.State, e.Outcome, e.Err)
	if e.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", e.Status))
	}
	if e.Status >= http.StatusBadRequest {
		Failed(span, strconv.Itoa(e.Status))
	}
	if e.From != e.To {
		changed(span, e.From, e.Breaker)
	}
}

// method is that of req if it is one of those that are known: the others are of any number.
func method(req *http.Request) string {
	switch req.Method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return req.Method
	}
	return "HTTP"
}

func requestAttributes(req *http.Request) []attribute.KeyValue {
	name := method(req)
	if name == "HTTP" {
		name = "_OTHER"
	}
	attrs := []attribute.KeyValue{
		attribute.String("http.request.method", name),
		attribute.String("server.address", req.URL.Hostname()),
		attribute.String("url.scheme", req.URL.Scheme),
	}
	if port, err := strconv.Atoi(portOf(req)); err == nil {
		attrs = append(attrs, attribute.Int("server.port", port))
	}
	return attrs
}

// portOf is the port that a request goes to.
func portOf(req *http.Request) string {
	switch port := req.URL.Port(); {
	case port != "":
		return port
	case req.URL.Scheme == "https":
		return "443"
	default:
		return "80"
	}
}
