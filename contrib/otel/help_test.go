package otelbreaker_test

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/breaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is in whatever a span must not hold.
const secret = "hunter2-4711"

// recording is a Tracer with what it made. No test may leave the secret in it.
func recording(t *testing.T) (*otelbreaker.Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	made := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(made))
	t.Cleanup(func() {
		if text := fmt.Sprintf("%+v", made.GetSpans().Snapshots()); strings.Contains(text, secret) {
			t.Errorf("the spans hold the secret: %s", text)
		}
	})
	return otelbreaker.New(otelbreaker.Config{Provider: provider, Propagator: propagation.TraceContext{}}), made
}

func newBreaker(t *testing.T, c breaker.Config) *breaker.Breaker {
	t.Helper()
	b, err := breaker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// named is the only span of that name.
func named(t *testing.T, made *tracetest.InMemoryExporter, name string) tracetest.SpanStub {
	t.Helper()
	var found tracetest.SpanStubs
	for all, i := made.GetSpans(), 0; i < len(all); i++ {
		if all[i].Name == name {
			found = append(found, all[i])
		}
	}
	if len(found) != 1 {
		t.Fatalf("got %d spans named %q of %v, want one", len(found), name, names(made))
	}
	return found[0]
}

func names(made *tracetest.InMemoryExporter) (all []string) {
	spans := made.GetSpans()
	for i := range spans {
		all = append(all, spans[i].Name)
	}
	return all
}

// value is an attribute as text, "" if there is none.
func value(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// wants compares attributes; "" wants none.
func wants(t *testing.T, attrs []attribute.KeyValue, want map[string]string) {
	t.Helper()
	for key, v := range want {
		if got := value(attrs, key); got != v {
			t.Errorf("%s: got %q, want %q", key, got, v)
		}
	}
}

// event are the attributes of the only event of that name; nil if there is none.
func event(t *testing.T, s tracetest.SpanStub, name string) (attrs []attribute.KeyValue) {
	t.Helper()
	for _, e := range s.Events {
		switch {
		case e.Name != name:
		case attrs != nil:
			t.Errorf("two events %q in the span %q", name, s.Name)
		default:
			attrs = e.Attributes
		}
	}
	return attrs
}
