// Package playground is the lab for a person: traffic through the library that does not end, faults that one injects and
// mends, the same load without the library beside it, and guided scenarios that ask what will happen before it does. It is the api.Lab of
// the lab's page; the reads and their judgement are those of package lab.
//
// # Concurrency
//
// All methods of a Playground may be called from any goroutine. What breaks and mends is done one thing after the other.
// Run owns every goroutine and every process, and ends them before it returns.
package playground
