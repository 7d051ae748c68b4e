// Package daemon is `breakwater serve`: an existing fleet that is sampled, consumers that are told of triggers, and the interface over HTTP to both (docs/serve.md).
//
// It puts parts together and has none of their rules: pgxread samples the nodes, readpath watches the mode, emit has the lanes, api shows and
// changes them. What is its own is their life: the start in order, the reload of the configuration as one change or none, the end in order.
//
// # Concurrency
//
// One goroutine, that of Run, starts, reloads and stops. What it puts in place the others read through an atomic pointer. Run owns the goroutines of its
// parts and waits for all of them.
package daemon
