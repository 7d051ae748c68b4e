// Package breaker is a circuit breaker: a state machine that is told how calls
// end and answers whether the next one may run. It knows nothing of SQL, HTTP or
// lag: it is fed outcomes, durations and signals.
//
// A breaker is closed while the guarded thing is well. The first [Rule] that
// holds opens it: calls are refused at once with [ErrOpen]. After the open
// period it is half-open: a bounded number of probes runs, and their results
// close it or open it again, for twice as long. An operator can force it open,
// closed or out of the way. docs/states.md in the repository holds the diagram
// and the table of transitions.
//
// [Do] guards a function. [Breaker.Allow] and [Permit.Done] are what it is made
// of, for calls that are not a function:
//
//	permit, err := b.Allow()
//	if err != nil {
//		return err // matches breaker.ErrOpen, says why and when to retry
//	}
//	err = call()
//	permit.Done(err)
//
// A permit that never reports is harmless to a closed breaker, but for a latency
// rule, to which it is a call that hangs ([Permit.Answered] ends its duration); it
// holds a probe's slot no longer than [Probe.Lease]. A breaker cannot repair a
// missing timeout: give every guarded call one.
//
// A [Set] holds one breaker for each key, such as a host or a tenant.
//
// # Latency
//
// The latency rules [SlowCallRate], [Percentile] and [CUSUM] count a call as slow as
// soon as it has lasted for their Threshold, whether it has returned or not, and once.
// They are judged when a call begins and when a slow one ends. A call that is ignored,
// or fails, before it was slow is no evidence either way and is left out; one that
// times out after the Threshold is slow, and a failure for the other rules.
//
// In half-open a probe that succeeds but is slow, by the lowest Threshold of the latency
// rules, counts as a failed one.
//
// Set the Threshold to three times the healthy P99 or more: every detector flaps where
// the two are close. The default of 50 ms is for a database in the same place; with it a
// consumer that takes 60 ms when it is well opens the breaker at once. Config.Histogram and
// Stats.Latency measure the P99. docs/latency.md in the repository has the figures.
//
// # Concurrency
//
// All methods of a [Breaker] and of a [Set] may be called at any time from any goroutine. A
// [Permit] belongs to one goroutine at a time.
//
// A call of a closed breaker takes no lock and allocates nothing: Allow is one
// atomic load, and the Done of a success is one atomic add, but for
// the one allocation described under Memory. With a
// FailureRateByTime rule some successes look at the clock, and one of them, ten
// times a span, tries the lock without waiting for it. With a latency rule, and with
// Config.Histogram, a call looks at the clock twice and makes two atomic adds (at high
// rates in one of eight calls a third, else in each) and a few loads; with a latency
// rule one call in each tick (an eighth of the threshold or less) tries the lock. A
// failure takes a mutex and judges the rules, which is constant work. A refusal takes
// no lock either; in Open it does not look at the clock. A breaker has no goroutine
// and no Close: one that is dropped is collected, open or not.
//
// A Get of a key that its Set keeps takes no lock and allocates nothing; one of
// another key takes the set's lock, twice if it makes a breaker.
//
// A result counts only in the generation in which its call was admitted, that
// is, if the state has not changed since: a success that arrives later is taken
// back at once. In the nanoseconds between, a failure of the new generation may
// take it for a success in its row of failures, and that row then begins anew.
//
// Config.Classify runs concurrently, with no lock held. The functions of
// [Observer] run one at a time, in the order of the events, with no lock held,
// on the goroutine of a caller whose call made an event, or of a timer; they may call the
// breaker, and a panic in one is caught and reported. Transitions are seen in
// the state before they are told.
//
// # Memory
//
// A breaker with the default Config takes about 0.9 KB, measured after its first
// failure: 600 bytes for itself, the rest for its settings, probe slots and rules. One
// that has counted 65,536 successes takes 2 KB more, so that processors which call at once
// do not wait for each other.
// With latency rules of one threshold it takes 4.5 KB, of which 2.7 KB are the
// histogram; each further threshold adds 0.6 KB, and Stats 5.4 KB where it is asked.
// FailureRateByTime adds about 240 bytes, and FailureRateByCount about 120 bytes
// and 8 for each of Calls * Rate, 0.5 KB by default. With the three rules of
// failures and a Signal it takes 1.8 KB. A breaker that opened keeps one error and
// one timer more. Nothing else grows with traffic or time, but for events that
// wait for a slow Observer.
package breaker
