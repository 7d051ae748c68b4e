// Package otelbreaker makes OpenTelemetry spans of guarded calls: what a breaker said to each, and how it counted.
//
//	tracer := otelbreaker.New(otelbreaker.Config{}) // the global provider
//	price, err := otelbreaker.Do(ctx, tracer, "price", b, fetchPrice)
//
// The same for HTTP clients is [NewTransport], for consumers of triggers [Tracer.Consumer] with [Tracer.Emit]. Reads over pgx are in
// the module contrib/otelpgx. [Tracer.OnTransition] makes a span of each change of a breaker's state.
//
// # Attributes
//
// A span has circuit_breaker.name, circuit_breaker.state (in which the call was admitted or refused) and circuit_breaker.outcome: success,
// failure, ignored, or rejected. A call that failed has error.type, a word of few values; a refused one is a short span
// whose error.type is circuit_open. All else has the names of OpenTelemetry's semantic conventions. docs/tracing.md lists them.
//
// A span never holds a payload, a key, a path or query of a URL, a header, or the text of an error, which may quote any of them.
//
// # Changes of state
//
// A span has the event circuit_breaker.transition where the state of its breaker changed in the moment in which the call was reported. Two
// calls reported in the same moment may both have it. The spans of OnTransition are complete, each change once: those of timers,
// samplers and operators too, which no call has made.
//
// # Cost
//
// A nil *Tracer makes no spans and costs no allocation. With a provider that makes none a call costs the allocations of OpenTelemetry's own
// Start: one with that of its package noop, three with the global one while none is set. BenchmarkDo measures it.
//
// # Concurrency
//
// All functions and methods may be called at any time from any goroutine. No goroutine is started.
package otelbreaker
