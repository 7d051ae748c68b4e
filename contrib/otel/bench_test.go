package otelbreaker_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/breakwater-go/breakwater/breaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

// What a span costs a call. "never" is a provider whose sampler keeps nothing, "always" one that keeps all and exports nothing.
func BenchmarkDo(b *testing.B) {
	for _, c := range []struct {
		name   string
		tracer *otelbreaker.Tracer
	}{
		{"none", nil},
		{"noop", otelbreaker.New(otelbreaker.Config{Provider: noop.NewTracerProvider()})},
		{"unset", otelbreaker.New(otelbreaker.Config{})},
		{"never", otelbreaker.New(otelbreaker.Config{Provider: sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))})},
		{"always", otelbreaker.New(otelbreaker.Config{Provider: sdktrace.NewTracerProvider()})},
	} {
		b.Run("provider="+c.name, func(b *testing.B) {
			guarded, err := breaker.New(breaker.Config{Name: "prices"})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = otelbreaker.Do(b.Context(), c.tracer, "price", guarded, func(context.Context) (int, error) { return 7, nil })
			}
		})
	}
}
