// Package flight keeps the execution trace of the seconds before a breaker opened: what every goroutine did and waited for, as
// `go tool trace` shows it. The runtime's flight recorder runs all the time, within a bound of memory; an opening has it written down.
//
// # Concurrency
//
// All methods of a Recorder may be called at any time from any goroutine. Run reads the Hub on its caller's goroutine and writes the snapshots there,
// so that no breaker waits for them.
package flight
