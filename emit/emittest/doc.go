// Package emittest holds the contracts of package emit as tests: [DeadLetters] for stores and [Sink] for
// sinks. Who writes one calls them from a test of their own.
//
//	func TestContract(t *testing.T) {
//		emittest.DeadLetters(t, emittest.Store{Open: open, Reopen: reopen})
//	}
//
// # Concurrency
//
// Each part of a suite is a subtest with a store or sink of its own; they run one after the other. Some
// call the store or sink from several goroutines, as a Router does.
package emittest
