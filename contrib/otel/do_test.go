package otelbreaker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/breakwater-go/breakwater/breaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

type codedError struct{}

func (codedError) Error() string { return secret }

// REQ-B14: a span says what the breaker did with the call, and how it counted.
func TestDo(t *testing.T) {
	for _, c := range []struct {
		name      string
		err       error
		outcome   string
		errorType string
	}{
		{"success", nil, "success", ""},
		{"failure", errors.New(secret), "failure", "_OTHER"},
		{"typed", fmt.Errorf("price: %w", codedError{}), "failure", "otelbreaker_test.codedError"},
		{"timeout", context.DeadlineExceeded, "failure", "timeout"},
		{"marked", breaker.Ignore(errors.New(secret)), "ignored", "_OTHER"},
		{"cancelled", context.Canceled, "ignored", "canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracer, made := recording(t)
			b := newBreaker(t, breaker.Config{Name: "prices"})
			_, err := otelbreaker.Do(t.Context(), tracer, "price", b, func(context.Context) (int, error) { return 7, c.err })
			if !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			span := named(t, made, "price")
			wants(t, span.Attributes, map[string]string{
				"circuit_breaker.name": "prices", "circuit_breaker.state": "closed", "circuit_breaker.outcome": c.outcome, "error.type": c.errorType,
			})
			if failed := span.Status.Code == codes.Error; failed != (c.err != nil) {
				t.Errorf("got the status %v", span.Status)
			}
			if s := b.Stats(); (s.Failures == 1) != (c.outcome == "failure") || (s.Ignored == 1) != (c.outcome == "ignored") {
				t.Errorf("the breaker counted %+v, the span says %s", s, c.outcome)
			}
		})
	}
}

// REQ-B14: a refused call is a short span, and its caller's error is that of breaker.Do.
func TestDoRejected(t *testing.T) {
	tracer, made := recording(t)
	b := newBreaker(t, breaker.Config{Name: "prices"})
	_ = b.Force(breaker.ForcedOpen, secret)
	_, err := otelbreaker.Do(t.Context(), tracer, "price", b, func(context.Context) (int, error) {
		t.Error("the call ran")
		return 0, nil
	})
	if !errors.Is(err, breaker.ErrOpen) {
		t.Errorf("got %v, want a refusal", err)
	}
	wants(t, named(t, made, "price").Attributes, map[string]string{
		"circuit_breaker.name": "prices", "circuit_breaker.state": "forced_open", "circuit_breaker.outcome": "rejected", "error.type": "circuit_open",
	})
}

// REQ-B14: the call that opens the breaker has the change as an event, with value and threshold; so has the probe that closes it.
func TestDoTellsTheChange(t *testing.T) {
	tracer, made := recording(t)
	b := newBreaker(t, breaker.Config{
		Name: "prices", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 2}},
		Observer: breaker.Observer{OnTransition: tracer.OnTransition("api")},
	})
	fail := func(context.Context) (int, error) { return 0, errors.New(secret) }
	for i := range 2 {
		_, _ = otelbreaker.Do(t.Context(), tracer, fmt.Sprint("price", i), b, fail)
	}
	if got := event(t, named(t, made, "price0"), "circuit_breaker.transition"); got != nil {
		t.Errorf("the first failure has the event %v", got)
	}
	want := map[string]string{
		"circuit_breaker.name": "prices", "circuit_breaker.from": "closed", "circuit_breaker.to": "open", "circuit_breaker.generation": "1",
		"circuit_breaker.reason": "consecutive_failures", "circuit_breaker.value": "2", "circuit_breaker.threshold": "2",
	}
	wants(t, event(t, named(t, made, "price1"), "circuit_breaker.transition"), want)
	own := named(t, made, "circuit_breaker open")
	want["circuit_breaker.scope"] = "api"
	wants(t, own.Attributes, want)
	if own.Parent.IsValid() || !own.StartTime.Equal(own.EndTime) {
		t.Errorf("the span of the change has a parent or a duration: %+v", own)
	}
}

// REQ-B10: a panic goes on, counts, and ends the span.
func TestDoPanics(t *testing.T) {
	tracer, made := recording(t)
	b := newBreaker(t, breaker.Config{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = otelbreaker.Do(t.Context(), tracer, "price", b, func(context.Context) (int, error) { panic(secret) })
	}()
	wants(t, named(t, made, "price").Attributes, map[string]string{"circuit_breaker.outcome": "failure", "error.type": "panic"})
	if got := b.Stats().Failures; got != 1 {
		t.Errorf("got %d failures, want 1", got)
	}
}

// A Tracer that makes no spans leaves the call as it is, and costs what its documentation says.
func TestDoWithoutSpans(t *testing.T) {
	b := newBreaker(t, breaker.Config{})
	call := func(context.Context) (int, error) { return 7, nil }
	for _, c := range []struct {
		name   string
		tracer *otelbreaker.Tracer
		allocs float64
	}{
		{"nil", nil, 0},
		{"noop", otelbreaker.New(otelbreaker.Config{Provider: noop.NewTracerProvider()}), 1},
		{"no global", otelbreaker.New(otelbreaker.Config{}), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := testing.AllocsPerRun(100, func() {
				if v, err := otelbreaker.Do(t.Context(), c.tracer, "price", b, call); v != 7 || err != nil {
					t.Errorf("got %v, %v", v, err)
				}
			})
			if got > c.allocs {
				t.Errorf("got %v allocations, want %v", got, c.allocs)
			}
		})
	}
}
