// Package consumer is one consumer of triggers in a process of its own: an HTTP server on loopback that is quick, slow,
// hanging or failing as it is told, and that remembers what it took. A scenario's truth comes from it.
//
// [Run] is the process; it obeys one JSON object a line on standard input, answers each by one on standard output, and ends
// when its input does, so that it never outlives its parent. [Start] is the parent's side.
//
// # Concurrency
//
// All methods of a [Process] may be called from any goroutine; commands are sent one after the other.
package consumer
