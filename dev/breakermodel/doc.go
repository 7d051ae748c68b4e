// Package breakermodel checks package breaker against a reference machine: a
// second, slow and obvious implementation that keeps every result in a list,
// has no lock, no packed word and no timer, and must agree after every
// operation of a random sequence.
package breakermodel
