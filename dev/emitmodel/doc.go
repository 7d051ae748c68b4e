// Package emitmodel runs package emit through random sequences of emits, hand-overs, failures of the consumer, crashes of the
// process with the store opened again, and replays, and holds it to what must be true of each: nothing is lost, the order
// of a key is kept, bounds are kept, and the counts balance (REQ-E4, REQ-E6, REQ-E7, REQ-E8, REQ-E14).
package emitmodel
