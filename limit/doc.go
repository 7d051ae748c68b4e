// Package limit bounds traffic: a [Bucket] bounds how many calls begin in a time,
// a [Bulkhead] how many run at once. Neither knows what a call does, nor the
// circuit breaker that it may stand beside.
//
// A refusal is an answer and not an error: [Bucket.Allow] and [Bulkhead.Acquire]
// return a bool. [Bucket.RetryAfter] says how long a refused caller should stay
// away. Only [Bulkhead.AcquireWithin], which waits, returns an error: [ErrFull],
// or that of its context.
//
//	permit, ok := bulkhead.Acquire()
//	if !ok {
//		return errBusy
//	}
//	defer permit.Release()
//	if !bucket.AllowKeeping(1, reserve) { // leave reserve tokens to critical calls
//		return retryIn(bucket.RetryAfter(1, reserve))
//	}
//
// The slot comes first since it is given back: a token that was taken for a call which then finds no slot is
// gone. A circuit breaker is asked before both; where one of them then refuses, the breaker's own
// permit ends with DoneAs(breaker.Ignored, nil).
//
// # Concurrency
//
// All methods of a [Bucket] and a [Bulkhead] may be called at any time from any
// goroutine. A [Permit] belongs to one goroutine at a time. There are no
// callbacks, no goroutines and no Close.
//
// [Bucket.Allow] and its kin are one look at the clock, two loads and one
// compare-and-swap; a refusal writes nothing. [Bulkhead.Acquire] and
// [Permit.Release] are one load and one compare-and-swap each, while nobody waits.
// None of them allocates. A compare-and-swap is tried again only where another
// call succeeded meanwhile. Two things take a lock: a caller that waits for a
// slot, with the Release that hands it over; and Reconfigure, for whose few
// instructions a call of the same Bucket at the same instant may wait. A Bucket
// locks and allocates once more each 208 days, to count from a nearer instant.
//
// Slots go to waiters in the order in which they came. While anybody waits nobody
// overtakes: Acquire is refused even in the instant in which a slot is free.
//
// # Memory
//
// A Bucket takes 112 bytes and a Bulkhead 96. Each caller that waits adds some 400
// while it waits. Nothing grows with traffic or time.
package limit
