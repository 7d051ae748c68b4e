package otelbreaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/breakwater-go/breakwater/breaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/emit"
)

// consumer is a Sink that fails while it is told to, and keeps what it got.
type consumer struct {
	mu  sync.Mutex
	err error
	got []emit.Trigger
}

func (c *consumer) Deliver(_ context.Context, t emit.Trigger) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.got = append(c.got, t)
	}
	return c.err
}

func (c *consumer) answer(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *consumer) only(t *testing.T) emit.Trigger {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) != 1 {
		t.Fatalf("the consumer got %d triggers, want one", len(c.got))
	}
	return c.got[0]
}

func newRouter(t *testing.T, consumers ...emit.Consumer) *emit.Router {
	t.Helper()
	r, err := emit.New(emit.Config{Consumers: consumers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func trigger() emit.Trigger {
	return emit.Trigger{Type: "order.paid", Key: secret, Subject: secret, Data: []byte(`"` + secret + `"`), Attributes: map[string]string{"extra": secret}}
}

// REQ-B14: a delivery is a part of its emit.
func TestEmitLive(t *testing.T) {
	tracer, made := recording(t)
	ledger := &consumer{}
	r := newRouter(t, tracer.Consumer(emit.Consumer{Name: "ledger", Sink: ledger}))
	own := trigger()
	receipt, err := tracer.Emit(t.Context(), r, own)
	if err != nil {
		t.Fatal(err)
	}
	whole, part := named(t, made, "emit"), named(t, made, "send ledger")
	if part.Parent.SpanID() != whole.SpanContext.SpanID() {
		t.Errorf("the delivery is in %v, want in the emit", part.Parent)
	}
	wants(t, whole.Attributes, map[string]string{"messaging.message.id": receipt.ID, "cloudevents.event_type": "order.paid", "messaging.operation.type": "create"})
	wants(t, part.Attributes, map[string]string{
		"messaging.destination.name": "ledger", "messaging.message.id": receipt.ID, "messaging.operation.type": "send",
		"circuit_breaker.name": "ledger", "circuit_breaker.state": "closed", "circuit_breaker.outcome": "success",
	})
	got := ledger.only(t)
	if want := "00-" + whole.SpanContext.TraceID().String() + "-" + whole.SpanContext.SpanID().String() + "-01"; got.Attributes["traceparent"] != want {
		t.Errorf("the trigger carries %q, want %q", got.Attributes["traceparent"], want)
	}
	if len(own.Attributes) != 1 || got.Attributes["extra"] != secret {
		t.Errorf("attributes: the caller's %v, the consumer's %v", own.Attributes, got.Attributes)
	}
}

// The delivery of a letter links to the emit that stored it, also in another process: the link is made of what the trigger carries.
func TestReplayLinksToItsEmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, made := recording(t)
		ledger := &consumer{err: errors.New(secret)}
		r := newRouter(t, tracer.Consumer(emit.Consumer{Name: "ledger", Sink: ledger}))
		if _, err := tracer.Emit(t.Context(), r, trigger()); err != nil {
			t.Fatal(err)
		}
		whole, first := named(t, made, "emit"), named(t, made, "send ledger")
		wants(t, first.Attributes, map[string]string{"circuit_breaker.outcome": "failure", "error.type": "_OTHER"})
		wants(t, event(t, whole, "breakwater.emit.diverted"), map[string]string{
			"messaging.destination.name": "ledger", "breakwater.emit.outcome": "stored", "breakwater.emit.reason": "failed",
		})
		made.Reset()
		ledger.answer(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		replay := named(t, made, "send ledger")
		if replay.Parent.IsValid() || len(replay.Links) != 1 || !sameSpan(replay, whole) {
			t.Errorf("the replay has the parent %v and the links %+v, want none and the emit", replay.Parent, replay.Links)
		}
		ledger.only(t)
	})
}

func sameSpan(linking, linked tracetest.SpanStub) bool {
	return linking.Links[0].SpanContext.SpanID() == linked.SpanContext.SpanID() && linking.Links[0].SpanContext.TraceID() == linked.SpanContext.TraceID()
}

// REQ-B14: a consumer whose breaker is open has a short span that says so; what opened it is an event of the emit.
func TestEmitRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, made := recording(t)
		ledger := &consumer{err: errors.New(secret)}
		r := newRouter(t, tracer.Consumer(emit.Consumer{
			Name: "ledger", Sink: ledger, Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}},
		}))
		_, _ = tracer.Emit(t.Context(), r, trigger())
		wants(t, event(t, named(t, made, "emit"), "circuit_breaker.transition"), map[string]string{
			"circuit_breaker.name": "ledger", "circuit_breaker.from": "closed", "circuit_breaker.to": "open", "circuit_breaker.reason": "consecutive_failures",
		})
		wants(t, named(t, made, "circuit_breaker open").Attributes, map[string]string{"circuit_breaker.scope": "consumer", "circuit_breaker.name": "ledger"})
		made.Reset()
		_, _ = tracer.Emit(t.Context(), r, trigger())
		whole, refused := named(t, made, "emit"), named(t, made, "send ledger")
		wants(t, refused.Attributes, map[string]string{
			"circuit_breaker.name": "ledger", "circuit_breaker.state": "open", "circuit_breaker.outcome": "rejected", "error.type": "circuit_open",
		})
		if refused.Parent.SpanID() != whole.SpanContext.SpanID() {
			t.Error("the refusal is not in its emit")
		}
	})
}

// A probe says that its breaker is half-open.
func TestDeliveryOfAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tracer, made := recording(t)
		ledger := &consumer{err: errors.New(secret)}
		r := newRouter(t, tracer.Consumer(emit.Consumer{
			Name: "ledger", Sink: ledger, Breaker: breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}},
		}))
		_, _ = tracer.Emit(t.Context(), r, trigger())
		made.Reset()
		ledger.answer(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		wants(t, named(t, made, "send ledger").Attributes, map[string]string{"circuit_breaker.state": "half_open", "circuit_breaker.outcome": "success"})
	})
}

// A trigger that comes with a traceparent keeps it, and its emit joins that trace; within another span a link does.
func TestEmitJoinsTheTriggersTrace(t *testing.T) {
	const from = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	tracer, made := recording(t)
	ledger := &consumer{}
	r := newRouter(t, tracer.Consumer(emit.Consumer{Name: "ledger", Sink: ledger}))
	came := emit.Trigger{Type: "order.paid", Attributes: map[string]string{"traceparent": from}}
	_, _ = tracer.Emit(t.Context(), r, came)
	if got := named(t, made, "emit"); got.Parent.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("got the parent %v, want the trigger's", got.Parent)
	}
	if got := ledger.only(t).Attributes["traceparent"]; got != from {
		t.Errorf("the consumer got %q, want what came", got)
	}
	made.Reset()
	b := newBreaker(t, breaker.Config{})
	_, _ = otelbreaker.Do(t.Context(), tracer, "request", b, func(ctx context.Context) (emit.Receipt, error) { return tracer.Emit(ctx, r, came) })
	whole, outer := named(t, made, "emit"), named(t, made, "request")
	if whole.Parent.SpanID() != outer.SpanContext.SpanID() || len(whole.Links) != 1 || whole.Links[0].SpanContext.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("got the parent %v and the links %v", whole.Parent, whole.Links)
	}
}

// What the consumer rejects is a success of its health; what its caller leaves is ignored.
func TestDeliveryOutcomes(t *testing.T) {
	tracer, made := recording(t)
	ledger := &consumer{err: emit.ErrRejected}
	c := tracer.Consumer(emit.Consumer{Name: "ledger", Sink: ledger})
	_ = c.Sink.Deliver(t.Context(), trigger())
	wants(t, named(t, made, "send ledger").Attributes, map[string]string{"circuit_breaker.outcome": "success", "error.type": "rejected"})
	made.Reset()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ledger.answer(ctx.Err())
	_ = c.Sink.Deliver(ctx, trigger())
	wants(t, named(t, made, "send ledger").Attributes, map[string]string{"circuit_breaker.outcome": "ignored", "error.type": "canceled"})
}

// An emit that fails has the kind of its error.
func TestEmitFails(t *testing.T) {
	tracer, made := recording(t)
	r := newRouter(t, tracer.Consumer(emit.Consumer{Name: "ledger", Sink: &consumer{}}))
	if _, err := tracer.HandOver(t.Context(), r, emit.Trigger{}); err == nil {
		t.Error("a trigger without a type was taken")
	}
	if got := value(named(t, made, "hand over").Attributes, "error.type"); got == "" {
		t.Error("the span has no error.type")
	}
}

// A nil Tracer leaves consumers and triggers as they are.
func TestEmitWithoutTracer(t *testing.T) {
	var none *otelbreaker.Tracer
	ledger := &consumer{}
	r := newRouter(t, none.Consumer(emit.Consumer{Name: "ledger", Sink: ledger}))
	if _, err := none.Emit(t.Context(), r, trigger()); err != nil {
		t.Fatal(err)
	}
	if got := ledger.only(t).Attributes; len(got) != 1 {
		t.Errorf("the consumer got the attributes %v", got)
	}
	if none.OnTransition("x") != nil {
		t.Error("a nil Tracer has a function for transitions")
	}
}
