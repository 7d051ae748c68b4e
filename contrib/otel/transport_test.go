package otelbreaker_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/breaker/httpbreaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

// get sends a request whose URL and headers hold the secret.
func get(t *testing.T, rt http.RoundTripper, url string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/"+secret+"?token="+secret, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", secret)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if req.Header.Get("Traceparent") != "" {
		t.Error("the caller's request was changed")
	}
	return resp.StatusCode, nil
}

// REQ-B14: requests have spans, joined with their server's by its headers.
func TestTransport(t *testing.T) {
	status, sent := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("Traceparent")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, secret)
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	tracer, made := recording(t)
	rt, err := otelbreaker.NewTransport(tracer, httpbreaker.Config{Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.CloseIdleConnections()
	for _, c := range []struct {
		name    string
		status  int
		want    map[string]string
		changes bool
	}{
		{"success", 200, map[string]string{"circuit_breaker.outcome": "success", "http.response.status_code": "200", "error.type": ""}, false},
		{"not found", 404, map[string]string{"circuit_breaker.outcome": "success", "http.response.status_code": "404", "error.type": "404"}, false},
		{"unavailable", 503, map[string]string{"circuit_breaker.outcome": "failure", "http.response.status_code": "503", "error.type": "503"}, true},
		{"refused", 0, map[string]string{"circuit_breaker.outcome": "rejected", "error.type": "circuit_open", "circuit_breaker.state": "open"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			made.Reset()
			status = c.status
			got, err := get(t, rt, server.URL)
			if got != c.status || (err != nil) != errors.Is(err, breaker.ErrOpen) {
				t.Errorf("got %d, %v, want %d", got, err, c.status)
			}
			span := named(t, made, "GET")
			c.want["circuit_breaker.name"], c.want["http.request.method"], c.want["url.full"] = host, "GET", ""
			c.want["server.address"] = "127.0.0.1"
			wants(t, span.Attributes, c.want)
			if c.status != 0 && !strings.Contains(sent, span.SpanContext.SpanID().String()) {
				t.Errorf("the server got %q, want the span %s", sent, span.SpanContext.SpanID())
			}
			if got := event(t, span, "circuit_breaker.transition"); (got != nil) != c.changes {
				t.Errorf("got the event %v", got)
			} else if c.changes {
				wants(t, got, map[string]string{"circuit_breaker.to": "open", "circuit_breaker.reason": "consecutive_failures"})
			}
		})
	}
}

// Without a Tracer it is an httpbreaker.Transport.
func TestTransportWithoutTracer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	rt, err := otelbreaker.NewTransport(nil, httpbreaker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.CloseIdleConnections()
	if got, err := get(t, rt, server.URL); got != http.StatusOK {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := otelbreaker.NewTransport(nil, httpbreaker.Config{MaxKeys: -1}); err == nil {
		t.Error("a wrong Config was taken")
	}
}
