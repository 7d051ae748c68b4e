package otelbreaker

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

const (
	keyDestination = attribute.Key("messaging.destination.name")
	keyOutcome     = attribute.Key("breakwater.emit.outcome") // delivered, stored, shed or refused
	keyReason      = attribute.Key("breakwater.emit.reason")  // an emit.Reason

	divertedEvent = "breakwater.emit.diverted"
)

// Emit is r.Emit in a span, which also tells of each consumer that was not delivered to, with the reason; where the consumer's breaker refused, a short
// span of the consumer's says so. The trigger carries the span in its CloudEvents attributes traceparent and tracestate, with which it is stored and
// sent: the delivery of a letter, by whatever process, links to the emit that stored it. A trigger that comes with a traceparent keeps that, and
// the span joins its trace.
func (t *Tracer) Emit(ctx context.Context, r *emit.Router, trigger emit.Trigger) (emit.Receipt, error) {
	return t.emit(ctx, r, trigger, "emit", r.Emit)
}

// HandOver is r.HandOver in a span, as Emit is.
func (t *Tracer) HandOver(ctx context.Context, r *emit.Router, trigger emit.Trigger) (emit.Receipt, error) {
	return t.emit(ctx, r, trigger, "hand over", r.HandOver)
}

type emitFunc func(context.Context, emit.Trigger) (emit.Receipt, error)

func (t *Tracer) emit(ctx context.Context, r *emit.Router, trigger emit.Trigger, name string, do emitFunc) (emit.Receipt, error) {
	if t == nil {
		return do(ctx, trigger)
	}
	ctx, span := t.begin(ctx, trigger, name)
	defer finish(span)
	if !span.IsRecording() {
		return do(ctx, carry(ctx, trigger))
	}
	e := &emitting{span: span, router: r}
	receipt, err := do(context.WithValue(ctx, emittingKey{}, e), carry(ctx, trigger))
	span.SetAttributes(triggerAttributes(trigger, "create", name)...)
	span.SetAttributes(attribute.String("messaging.message.id", receipt.ID))
	for result := range receipt.Results() {
		t.tell(ctx, span, result)
	}
	if err != nil {
		Failed(span, emitError(err))
	}
	e.finish()
	return receipt, err
}

// begin starts the span of an emit: below that of ctx, or else in the trace that the trigger carries. Where there are both, a link joins them.
func (t *Tracer) begin(ctx context.Context, trigger emit.Trigger, name string) (context.Context, trace.Span) {
	origin, here := origin(trigger), trace.SpanContextFromContext(ctx)
	switch {
	case !origin.IsValid():
		return t.tracer.Start(ctx, name, producerKind...)
	case !here.IsValid():
		return t.tracer.Start(trace.ContextWithRemoteSpanContext(ctx, origin), name, producerKind...)
	default:
		return t.tracer.Start(ctx, name, append(producerKind[:1:1], trace.WithLinks(trace.Link{SpanContext: origin}))...)
	}
}

// carry is the trigger with the span of ctx in its attributes, unless it has one already.
func carry(ctx context.Context, trigger emit.Trigger) emit.Trigger {
	if _, has := trigger.Attributes["traceparent"]; has || !trace.SpanContextFromContext(ctx).IsValid() {
		return trigger
	}
	attrs := make(map[string]string, len(trigger.Attributes)+2) // the caller's stays as it is
	maps.Copy(attrs, trigger.Attributes)
	propagation.TraceContext{}.Inject(ctx, propagation.MapCarrier(attrs))
	trigger.Attributes = attrs
	return trigger
}

// origin is the span that a trigger carries; invalid if it carries none.
func origin(trigger emit.Trigger) trace.SpanContext {
	if trigger.Attributes["traceparent"] == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(trigger.Attributes))
	return trace.SpanContextFromContext(ctx)
}

// tell has the emit's span tell of a consumer that was not delivered to.
func (t *Tracer) tell(ctx context.Context, span trace.Span, result emit.Result) {
	if result.Outcome == emit.Delivered && result.Reason == "" {
		return
	}
	if result.Reason == emit.ReasonOpen || result.Reason == emit.ReasonForcedOpen {
		_, refused := t.tracer.Start(ctx, "send "+result.Consumer, clientKind...)
		refused.SetAttributes(keyDestination.String(result.Consumer))
		Refused(refused, result.Consumer, result.Err)
		refused.End()
	}
	span.AddEvent(divertedEvent, trace.WithAttributes(
		keyDestination.String(result.Consumer), keyOutcome.String(result.Outcome.String()), keyReason.String(string(result.Reason))))
}

func emitError(err error) string {
	switch {
	case errors.Is(err, emit.ErrShed):
		return "shed"
	case errors.Is(err, emit.ErrBackPressure):
		return "back_pressure"
	}
	return ErrorType(err)
}

// triggerAttributes describe a trigger. Its Key, Subject, Data and attributes are not shown.
func triggerAttributes(trigger emit.Trigger, operation, name string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("messaging.system", "breakwater"),
		attribute.String("messaging.operation.type", operation),
		attribute.String("messaging.operation.name", name),
		attribute.String("cloudevents.event_type", trigger.Type),
	}
}

// An emitting is an emit under way. Its consumers are told at the same time.
type emitting struct {
	span   trace.Span // immutable, as the router
	router *emit.Router

	mu struct {
		sync.Mutex
		reported []reported
	}
}

// reported is the state of a consumer's breaker just before the lane reports a delivery to it.
type reported struct {
	consumer string
	state    breaker.State
}

type emittingKey struct{}

func (e *emitting) deliveredTo(consumer string, state breaker.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.reported = append(e.mu.reported, reported{consumer, state})
}

// finish tells which deliveries changed the state of their breakers.
func (e *emitting) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range e.mu.reported {
		if b := e.router.Breaker(r.consumer); b != nil {
			changed(e.span, r.state, b)
		}
	}
}

// Consumer returns c with a Sink whose deliveries have spans, and with an Observer of its breaker that makes spans of its changes of state, as
// [Tracer.OnTransition] does. Call it once for a consumer of a new Router; where the Router is given other settings later, change what it returned.
//
// A span's outcome is what the answer of the Sink says of the consumer: a trigger that it rejects is a success of its health. Where the deadline of the emit's
// caller ends a delivery the span says failure, and the breaker ignores the call: a Sink cannot tell that deadline from its Timeout.
func (t *Tracer) Consumer(c emit.Consumer) emit.Consumer {
	if t == nil || c.Sink == nil {
		return c
	}
	s := &sink{tracer: t, consumer: c.Name, name: "send " + c.Name, sink: c.Sink}
	c.Sink = s
	also, own := c.Breaker.Observer.OnTransition, t.OnTransition("consumer")
	c.Breaker.Observer.OnTransition = func(tr breaker.Transition) {
		s.state.Store(uint32(tr.To))
		own(tr)
		if also != nil {
			also(tr)
		}
	}
	return c
}

// A sink is a Sink whose deliveries have spans.
type sink struct {
	tracer   *Tracer // immutable, as what follows
	consumer string
	name     string
	sink     emit.Sink

	state atomic.Uint32 // a breaker.State, of the newest change; written by the breaker's observer
}

// Deliver is that of the sink within.
func (s *sink) Deliver(ctx context.Context, trigger emit.Trigger) error {
	ctx, span := s.tracer.tracer.Start(ctx, s.name, s.options(ctx, trigger)...)
	defer finish(span)
	if !span.IsRecording() {
		return s.sink.Deliver(ctx, trigger)
	}
	d := &delivery{sink: s, span: span, admitted: breaker.State(s.state.Load())}
	span.SetAttributes(triggerAttributes(trigger, "send", "send")...)
	span.SetAttributes(attribute.String("messaging.message.id", trigger.ID), keyDestination.String(s.consumer))
	defer d.end(ctx, errUnwound) // does nothing once it has ended below
	err := s.sink.Deliver(ctx, trigger)
	d.end(ctx, err)
	return err
}

// options link a delivery to the emit that the trigger carries, unless it is part of that trace.
func (s *sink) options(ctx context.Context, trigger emit.Trigger) []trace.SpanStartOption {
	from := origin(trigger) //nolint:contextcheck // what the trigger carries, not the caller
	if !from.IsValid() || from.TraceID() == trace.SpanContextFromContext(ctx).TraceID() {
		return clientKind
	}
	return append(clientKind[:1:1], trace.WithLinks(trace.Link{SpanContext: from}))
}

// A delivery is one that is recorded.
type delivery struct {
	sink     *sink
	span     trace.Span
	admitted breaker.State
	ended    bool
}

// end tells how it ended, the first time that it is called.
func (d *delivery) end(ctx context.Context, err error) {
	if d.ended {
		return
	}
	d.ended = true
	Counted(d.span, d.sink.consumer, d.admitted, answered(ctx, err), err)
	if errors.Is(err, emit.ErrRejected) {
		Failed(d.span, "rejected")
	}
	if e, ok := ctx.Value(emittingKey{}).(*emitting); ok {
		e.deliveredTo(d.sink.consumer, breaker.State(d.sink.state.Load()))
	}
}

// answered is what the end of a delivery says of its consumer (REQ-E15).
func answered(ctx context.Context, err error) breaker.Outcome {
	switch {
	case err == nil, errors.Is(err, emit.ErrRejected):
		return breaker.Success
	case errors.Is(ctx.Err(), context.Canceled):
		return breaker.Ignored
	}
	return breaker.Failure
}
