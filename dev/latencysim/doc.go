// Command latencysim prints how often the latency rules of package breaker open
// falsely, and how soon they open when calls are slow. docs/latency.md shows its tables.
//
// It calls no breaker: at 5,000 calls/s 200 days are 86 billion calls. It repeats what
// package breaker does instead, in two ways: [model] call by call, and [stream] and
// [windows] in bulk, where only the ticks that hold a slow call are looked at. Its tests run the
// real breaker in a bubble of testing/synctest on the same calls, and compare.
//
// Calls come at random instants (a Poisson process); each is slow or not by itself.
package main
