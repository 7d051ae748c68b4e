// Command peers measures Breakwater beside the libraries that people use for the
// same work, and beside the floors that nothing can go below, all in one run.
//
// A [contest] is one piece of work, a [contender] one way to do it. In each round
// every contender runs one batch of about 200 µs, in an order drawn anew,
// so that whatever else runs on the machine hits all alike; the figure is the median of
// the rounds. Ratios are of medians of one run: see docs/adr/0012 for
// how each peer is configured and what cannot be compared.
//
//	go run ./dev/peers -write docs/benchmarks.md
//
// prints a table with the aims, writes it between the two marks of that page, and ends
// with one line of JSON. A missed aim is said and is no failure; a contender that
// does not do the work of its contest is one.
package main
