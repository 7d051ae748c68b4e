package telemetry

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tellEvery is how often a failure is told.
const tellEvery = time.Minute

// An exporter counts what another one does, and tells of its failures. The SDK would tell each of them to a handler of the whole process.
type exporter struct {
	sdktrace.SpanExporter

	over   context.Context // ends all sending, which the SDK gives no context of its caller's; immutable, as what follows
	stop   context.CancelFunc
	ended  chan struct{} // closed once nothing is sent any more
	failed func(error)

	sent atomic.Uint64
	lost atomic.Uint64

	mu struct {
		sync.Mutex
		told   time.Time // the newest failure that was told; zero: none yet
		untold uint64    // spans lost since
	}
}

func newExporter(e sdktrace.SpanExporter, failed func(error)) *exporter {
	over, stop := context.WithCancel(context.Background())
	return &exporter{SpanExporter: e, over: over, stop: stop, ended: make(chan struct{}), failed: failed}
}

// Shutdown is called when the queue's goroutine has ended.
func (e *exporter) Shutdown(ctx context.Context) error {
	defer close(e.ended)
	return e.SpanExporter.Shutdown(ctx)
}

// ExportSpans sends a batch. What fails is told and gone: the SDK does not try again.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	release := context.AfterFunc(e.over, cancel) //nolint:contextcheck // a second one that ends the sending
	defer release()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(uint64(len(spans)))
		return nil
	}
	e.lost.Add(uint64(len(spans)))
	if n := e.due(uint64(len(spans))); n > 0 {
		e.failed(fmt.Errorf("%d spans could not be sent: %w", n, err))
	}
	return nil
}

// due takes the spans that are lost and untold, once a minute; 0: not now.
func (e *exporter) due(lost uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.untold += lost
	if !e.mu.told.IsZero() && time.Since(e.mu.told) < tellEvery {
		return 0
	}
	n := e.mu.untold
	e.mu.told, e.mu.untold = time.Now(), 0
	return n
}
