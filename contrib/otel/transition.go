package otelbreaker

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-go/breakwater/breaker"
)

// OnTransition returns a function for the Observer of a breaker, a set, a replica.Set or an emit.Router. It makes a span of each change of
// state: a root of its own, without duration, named "circuit_breaker " and the new state. The scope says what is guarded, "replica" for one.
// It tells the rule, the measured value and the threshold, not the text of an error. A nil Tracer returns nil.
//
// A sampler that keeps few traces drops most of these too. It knows them by the attribute circuit_breaker.to.
func (t *Tracer) OnTransition(scope string) func(breaker.Transition) {
	if t == nil {
		return nil
	}
	return func(tr breaker.Transition) {
		attrs := append(transition(tr.From, tr.To, tr.Generation, tr.Reason), KeyName.String(tr.Name), keyScope.String(scope))
		_, span := t.tracer.Start(context.Background(), "circuit_breaker "+tr.To.String(),
			trace.WithNewRoot(), trace.WithTimestamp(tr.At), trace.WithAttributes(attrs...))
		span.End(trace.WithTimestamp(tr.At))
	}
}

// transition are the attributes of a change of state. Reason.Detail is left out: it quotes errors.
func transition(from, to breaker.State, generation uint64, r breaker.Reason) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		keyFrom.String(from.String()), keyTo.String(to.String()), keyGenerated.Int64(int64(generation)), //nolint:gosec // below 2^58
		keyRule.String(r.Rule),
	}
	if r.Value != 0 || r.Threshold != 0 {
		attrs = append(attrs, keyValue.Float64(r.Value), keyThreshold.Float64(r.Threshold), keyUnit.String(r.Unit))
	}
	return attrs
}

// changed adds an event if the state of b is not what it was before.
func changed(span trace.Span, before breaker.State, b *breaker.Breaker) {
	if b.State() == before || !span.IsRecording() {
		return
	}
	now := b.Stats()
	span.AddEvent(transitionEvent, trace.WithAttributes(append(transition(before, now.State, now.Generation, now.Reason), KeyName.String(b.Name()))...))
}
