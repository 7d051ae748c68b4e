// Package otelpgx makes OpenTelemetry spans of statements over pgx, which tell of reads through pgxread where they were sent: the node, the bounds of
// its staleness, which attempt it was, and what its breaker made of it.
//
//	tracer := otelpgx.New(otelpgx.Config{}) // the global provider
//	db, err := pgxread.Open(ctx, pgxread.Config{…, Configure: tracer.Configure})
//	note, err := otelpgx.Read(ctx, tracer, "get note", func(ctx context.Context) (Note, error) { return queries.GetNote(ctx, id) })
//
// Each statement has a span on each node that it is tried on, a child of the span in its context. A read that no replica may take reaches none of
// them: [Read] has a span for that too, and tells of the newest statement in it. The samplers' statements have no spans.
//
// Spans hold no SQL text, no arguments, no DSN, no address and no text of an error. [Config.Summary] may name statements.
//
// # Concurrency
//
// All functions and methods may be called at any time from any goroutine. No goroutine is started.
package otelpgx
