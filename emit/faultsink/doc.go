// Package faultsink is for chaos tests of what emits triggers (REQ-E13): a [Sink] that is slow, fails, rejects, hangs and panics as
// it is told, and counts what it got; [Handler], the same as a consumer's HTTP server; and [Isolation], which
// asserts that a fault of one consumer did not reach the others.
//
//	sink, err := faultsink.New(faultsink.Config{Seed: 1})
//	// … as the Sink of a consumer
//	err = sink.Set(faultsink.Faults{Latency: faultsink.Latency{Median: 5 * time.Millisecond, SlowShare: 0.02, Slow: 300 * time.Millisecond}})
//
// The n-th call meets the same fault whenever Seed and Faults are the same; which trigger is the n-th is, where several are
// delivered at a time, not for the seed to say.
//
// # Concurrency
//
// All methods of [Sink], [Handler] and [Run] may be called at any time from any goroutine. No goroutine is started.
package faultsink
