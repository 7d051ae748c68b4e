package telemetry

import (
	"slices"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A sampler keeps every change of state, and of the rest what another one does.
type sampler struct{ sdktrace.Sampler }

func newSampler(ratio float64) sdktrace.Sampler {
	return sampler{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))}
}

// ShouldSample knows a change of state by its attribute.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if !slices.ContainsFunc(p.Attributes, func(a attribute.KeyValue) bool { return a.Key == "circuit_breaker.to" }) {
		return s.Sampler.ShouldSample(p)
	}
	return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description names it.
func (s sampler) Description() string { return "BreakerTransitions+" + s.Sampler.Description() }
