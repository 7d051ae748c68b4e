// Package breaker is a circuit breaker: a state machine that is told how calls
// end and answers whether the next one may run.
package breaker
