package otelpgx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// ScopeName is the name of the instrumentation.
const ScopeName = "github.com/breakwater-go/breakwater/contrib/otelpgx"

// The attributes that tell where a statement was sent.
const (
	KeyNode       = attribute.Key("breakwater.node")
	KeyLo         = attribute.Key("breakwater.staleness.lo") // seconds, when the node was picked
	KeyHi         = attribute.Key("breakwater.staleness.hi") // seconds; left out where nothing bounds it
	KeyAttempt    = attribute.Key("breakwater.read.attempt") // 1, or 2 on the second node
	KeyLate       = attribute.Key("breakwater.read.late")    // only where true, as the next
	KeyUnverified = attribute.Key("breakwater.read.unverified")
)

const (
	keySystem     = attribute.Key("db.system.name")
	keySummary    = attribute.Key("db.query.summary")
	keyStatusCode = attribute.Key("db.response.status_code")
	keyBatchSize  = attribute.Key("db.operation.batch.size")

	systemName = "postgresql"
)

// Config says where spans go. The zero value works.
type Config struct {
	// Provider makes the spans. Default: OpenTelemetry's global one, also if it is set later.
	Provider trace.TracerProvider
	// Summary names a statement by its SQL text: one of few names, without values; "": none. The name becomes the span's, and db.query.summary. It is asked for each
	// statement, concurrently. Default: nothing of the text is shown, and spans of statements are named "postgresql".
	Summary func(sql string) string
}

// A Tracer makes spans of the statements of the connections whose configuration has it. It is a pgx.QueryTracer, BatchTracer, CopyFromTracer and
// ConnectTracer. Make it with [New].
type Tracer struct {
	tracer  trace.Tracer // immutable, as the summary
	summary func(string) string
}

var (
	_ pgx.QueryTracer    = (*Tracer)(nil)
	_ pgx.BatchTracer    = (*Tracer)(nil)
	_ pgx.CopyFromTracer = (*Tracer)(nil)
	_ pgx.ConnectTracer  = (*Tracer)(nil)
)

// New makes a Tracer.
func New(c Config) *Tracer {
	if c.Provider == nil {
		c.Provider = otel.GetTracerProvider()
	}
	if c.Summary == nil {
		c.Summary = func(string) string { return "" }
	}
	return &Tracer{tracer: c.Provider.Tracer(ScopeName), summary: c.Summary}
}

// Configure is for pgxread.Config.Configure: it makes the Tracer that of the node's connections, in place of another. Package multitracer of pgx
// joins several.
func (t *Tracer) Configure(_ string, c *pgxpool.Config) { c.ConnConfig.Tracer = t }

var clientKind = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)} //nolint:gochecknoglobals // never written

// spanKey finds the span of a statement: what is in between may have put others into the context.
type spanKey struct{}

// start begins the span of a statement, unless it is one of a sampler.
func (t *Tracer) start(ctx context.Context, name, summary string) context.Context {
	if pgxread.IsCheck(ctx) {
		return ctx
	}
	if summary != "" {
		name = summary
	}
	ctx, span := t.tracer.Start(ctx, name, clientKind...)
	if !span.IsRecording() {
		return ctx
	}
	span.SetAttributes(keySystem.String(systemName))
	if summary != "" {
		span.SetAttributes(keySummary.String(summary))
	}
	return context.WithValue(ctx, spanKey{}, span)
}

// end ends the span of a statement, and tells that of the Read around it the same.
func (t *Tracer) end(ctx context.Context, err error) {
	span, ok := ctx.Value(spanKey{}).(trace.Span)
	if !ok || pgxread.IsCheck(ctx) {
		return
	}
	defer span.End()
	if call, ok := pgxread.CallOf(ctx); ok {
		describe(span, call, err)
		if whole, ok := ctx.Value(readKey{}).(trace.Span); ok {
			describe(whole, call, err)
		}
	}
	if code := postgres.SQLState(err); code != "" {
		span.SetAttributes(keyStatusCode.String(code))
	}
	if err != nil {
		otelbreaker.Failed(span, errorType(err))
	}
}

// describe tells where a call was sent and what it counts as. The primary has no breaker.
func describe(span trace.Span, call pgxread.Call, err error) {
	info := call.Info()
	span.SetAttributes(KeyNode.String(info.Node))
	if info.Attempts > 0 {
		span.SetAttributes(infoAttributes(info)...)
	}
	if !info.Primary {
		otelbreaker.Counted(span, info.Node, call.State(), call.Outcome(err), nil)
	}
}

func infoAttributes(info pgxread.ReadInfo) []attribute.KeyValue {
	attrs := []attribute.KeyValue{KeyAttempt.Int(info.Attempts)}
	if info.Hi != replica.Never {
		attrs = append(attrs, KeyHi.Float64(info.Hi.Seconds()))
	}
	if !info.Primary {
		attrs = append(attrs, KeyLo.Float64(info.Lo.Seconds()))
	}
	if info.Late {
		attrs = append(attrs, KeyLate.Bool(true))
	}
	if info.Unverified {
		attrs = append(attrs, KeyUnverified.Bool(true))
	}
	return attrs
}

// errorType is the SQLSTATE of a server's error.
func errorType(err error) string {
	if code := postgres.SQLState(err); code != "" {
		return code
	}
	return otelbreaker.ErrorType(err)
}

// TraceQueryStart begins the span of a query.
func (t *Tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.start(ctx, systemName, t.summary(data.SQL))
}

// TraceQueryEnd ends it, when its rows are closed.
func (t *Tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	t.end(ctx, data.Err)
}

// TraceBatchStart begins the span of a batch.
func (t *Tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	ctx = t.start(ctx, "BATCH", "")
	if span, ok := ctx.Value(spanKey{}).(trace.Span); ok && data.Batch != nil {
		span.SetAttributes(keyBatchSize.Int(data.Batch.Len()))
	}
	return ctx
}

// TraceBatchQuery does nothing: a batch has one span.
func (*Tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd ends it, when its results are closed.
func (t *Tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	t.end(ctx, data.Err)
}

// TraceCopyFromStart begins the span of a COPY.
func (t *Tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return t.start(ctx, "COPY", "")
}

// TraceCopyFromEnd ends it.
func (t *Tracer) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceCopyFromEndData) {
	t.end(ctx, data.Err)
}

// TraceConnectStart begins the span of a connection that is made for a traced call: those of pools in the background have none.
func (t *Tracer) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return t.start(ctx, "connect", "")
}

// TraceConnectEnd ends it.
func (t *Tracer) TraceConnectEnd(ctx context.Context, data pgx.TraceConnectEndData) {
	t.end(ctx, data.Err)
}
