// Package eventlog writes the events of a Hub as log lines: one line an event, with what was measured and the threshold of each change of state.
//
// # Concurrency
//
// A logger of New may be used at any time from any goroutine. Run reads the Hub on its caller's goroutine and holds nobody up: where the
// output is slower than the events, it falls behind, and says how many it has missed.
package eventlog
