package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

// The bounds of the queue.
const (
	queueSize = 4096 // spans, of about 1 KB each
	batchSize = 512
)

// A Telemetry exports spans. Make it with [Start]; a nil one makes none.
type Telemetry struct {
	provider  *sdktrace.TracerProvider
	processor sdktrace.SpanProcessor // of the provider: the queue
	exporter  *exporter
	tracer    *otelbreaker.Tracer
}

// Start begins to export. Nothing is connected before the first span is sent, and a collector that cannot be reached is no error. The error
// names every fault of the Config.
func Start(ctx context.Context, c Config) (*Telemetry, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	client, err := otlptracehttp.New(ctx, c.options()...)
	if err != nil {
		return nil, errors.New("tracing: the exporter cannot be made") // its words may quote a header
	}
	e := newExporter(client, c.Failed)
	queue := sdktrace.NewBatchSpanProcessor(e,
		sdktrace.WithMaxQueueSize(queueSize), sdktrace.WithMaxExportBatchSize(batchSize), sdktrace.WithExportTimeout(c.Timeout))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(queue), sdktrace.WithSampler(newSampler(c.SampleRatio)), sdktrace.WithResource(c.resource()))
	tracer := otelbreaker.New(otelbreaker.Config{Provider: provider, Propagator: propagation.TraceContext{}})
	return &Telemetry{provider: provider, processor: queue, exporter: e, tracer: tracer}, nil
}

func (c Config) options() []otlptracehttp.Option {
	u, _ := c.endpoint()      // it was checked
	headers, _ := c.headers() // as well
	options := []otlptracehttp.Option{
		otlptracehttp.WithEndpoint(u.Host), otlptracehttp.WithURLPath(u.Path), otlptracehttp.WithTimeout(c.Timeout),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: c.Timeout / 10, MaxInterval: c.Timeout / 2, MaxElapsedTime: c.Timeout,
		}),
	}
	if len(headers) > 0 { // else those of OTEL_EXPORTER_OTLP_HEADERS
		options = append(options, otlptracehttp.WithHeaders(headers))
	}
	if u.Scheme == "http" {
		options = append(options, otlptracehttp.WithInsecure())
	}
	return options
}

// resource describes this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES go before it.
func (c Config) resource() *resource.Resource {
	attrs := []attribute.KeyValue{attribute.String("service.name", "breakwater")}
	if c.Version != "" {
		attrs = append(attrs, attribute.String("service.version", c.Version))
	}
	if c.Instance != "" {
		attrs = append(attrs, attribute.String("service.instance.id", c.Instance))
	}
	own := resource.NewSchemaless(attrs...)
	merged, err := resource.Merge(own, resource.Environment())
	if err != nil {
		return own // the variables cannot be read
	}
	return merged
}

// Provider makes spans that are exported; nil for a nil Telemetry.
func (t *Telemetry) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Tracer makes the spans of guarded calls; nil, which makes none, for a nil Telemetry.
func (t *Telemetry) Tracer() *otelbreaker.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Stats is what became of the spans. What the queue had no room for is not counted.
type Stats struct {
	Sent uint64 // taken by the collector
	Lost uint64 // in batches that could not be sent
}

// Stats returns what was counted.
func (t *Telemetry) Stats() Stats {
	if t == nil {
		return Stats{}
	}
	return Stats{Sent: t.exporter.sent.Load(), Lost: t.exporter.lost.Load()}
}

// Close sends what is queued, until ctx ends, and ends the export; what is left then is lost, and the error is ctx's. Nothing of it runs any more when
// it returns. Spans that are made later go nowhere. Call it once.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := t.processor.Shutdown(ctx)
	t.exporter.stop() // the queue's goroutine heeds no deadline
	<-t.exporter.ended
	return errors.Join(err, t.provider.Shutdown(context.WithoutCancel(ctx)))
}
