package otelpgx

import (
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/trace"

	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

type readKey struct{}

// Read runs fn, which makes one read of its caller's, in a span of that name: one of few, "get note" and not "get note 4711". The span tells where the newest statement in
// it was sent, for connections that have the Tracer. A read that was refused, since no replica may take it or its class is withheld, is
// a short span with the outcome rejected. A nil Tracer makes none.
//
// The error.type of a refusal is circuit_open where a breaker is all that keeps it out, no_replica, behind, degraded or shed where more is in its way.
func Read[T any](ctx context.Context, t *Tracer, name string, fn func(context.Context) (T, error)) (T, error) {
	if t == nil {
		return fn(ctx)
	}
	ctx, span := t.tracer.Start(ctx, name)
	defer func() { span.End() }() // deferred itself, an SDK's End would note the value of a panic
	if !span.IsRecording() {
		return fn(ctx)
	}
	span.SetAttributes(keySystem.String(systemName))
	v, err := fn(context.WithValue(ctx, readKey{}, span))
	if err != nil {
		refusedOrFailed(span, err)
	}
	return v, err
}

func refusedOrFailed(span trace.Span, err error) {
	reason := refusal(err)
	if reason == "" {
		otelbreaker.Failed(span, errorType(err))
		return
	}
	span.SetAttributes(otelbreaker.KeyOutcome.String(otelbreaker.OutcomeRejected))
	otelbreaker.Failed(span, reason)
}

// refusal is why a read was not sent; "" if it was.
func refusal(err error) string {
	switch {
	case errors.Is(err, readpath.ErrShed):
		return "shed"
	case errors.Is(err, readpath.ErrDegraded):
		return "degraded"
	case errors.Is(err, replica.ErrBehind):
		return "behind"
	case !errors.Is(err, replica.ErrNoReplica):
		return ""
	case allOpen(err):
		return otelbreaker.ErrorTypeCircuitOpen
	}
	return "no_replica"
}

// allOpen reports whether breakers are all that keeps the read out.
func allOpen(err error) bool {
	e, ok := errors.AsType[*replica.NoReplicaError](err)
	return ok && len(e.Reasons) > 0 && !slices.ContainsFunc(e.Reasons, func(r replica.NodeReason) bool { return r.Condition != replica.Open })
}
