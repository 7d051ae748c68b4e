// Package emit tells consumers of triggers with a blast radius of one: each consumer has its own lane (a
// breaker that sees slowness before errors, a bulkhead, a timeout), and what a lane cannot deliver now is kept in
// bounded dead letters, by priority, and replayed.
//
// # Concurrency
//
// Sinks and stores are called concurrently; see [Sink] and [DeadLetters].
package emit
