package breaker

import "strconv"

// A State is what a breaker does with calls. The zero value is Closed.
type State uint8

const (
	// Closed passes every call and measures it.
	Closed State = iota
	// Open refuses every call until the open period is over.
	Open
	// HalfOpen admits a bounded number of probes and refuses all other calls.
	HalfOpen
	// ForcedOpen refuses every call until an operator says otherwise.
	ForcedOpen
	// ForcedClosed passes every call and measures it, but no rule opens it.
	ForcedClosed
	// Disabled passes every call and measures nothing.
	Disabled
)

// String returns the state as one lower-case word: closed, open, half_open,
// forced_open, forced_closed or disabled.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	case ForcedOpen:
		return "forced_open"
	case ForcedClosed:
		return "forced_closed"
	case Disabled:
		return "disabled"
	default:
		return "state(" + strconv.Itoa(int(s)) + ")"
	}
}

// MarshalText returns the word of [State.String]. It never fails.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// An Outcome is what one finished call says about the guarded thing. The zero
// value is Success.
type Outcome uint8

const (
	// Success says that the guarded thing answered.
	Success Outcome = iota
	// Failure says that it did not answer as it should.
	Failure
	// Ignored says nothing about it: the caller's own cancellation, a query's
	// own fault. An ignored probe gives its slot back and decides nothing.
	Ignored
	// Fatal is a failure that proves by itself that the target is down, a
	// refused connection for one: it opens a closed breaker at once, whatever
	// the rules count (REQ-B2).
	Fatal
)

// String returns the outcome as one lower-case word.
func (o Outcome) String() string {
	switch o {
	case Success:
		return "success"
	case Failure:
		return "failure"
	case Ignored:
		return "ignored"
	case Fatal:
		return "fatal"
	default:
		return "outcome(" + strconv.Itoa(int(o)) + ")"
	}
}

// The state word, read by every call, written only under Breaker.mu:
//
//	bits 0..56   generation, one more with each change of state
//	bit  57      set, so that no word is 0: a permit that was used, and the zero one, have 0
//	bit  58      a rule needs the clock of successes (a time window)
//	bit  59      the duration of calls is measured (a latency rule, or Config.Histogram)
//	bit  60      traffic ramps up after a recovery
//	bits 61..63  State
//
// So a word below measuredFlag is Closed and admits every call without a look at the
// clock, and one below timedFlag that is not 0 is Closed with successes that need none either: one
// comparison each (isPlain).
//
// Legal changes: (Closed, g) to (Open, g+1); (Open, g) to (HalfOpen, g+1);
// (HalfOpen, g) to (Open, g+1) or (Closed, g+1); by Force any state to
// ForcedOpen, ForcedClosed, Disabled or Closed with g+1. Reconfigure may flip
// bits 58 and 59 within one generation, and the end of the ramp clears bit 60.
const (
	stateShift     = 61
	wordFlag       = 1 << 57
	timedFlag      = 1 << 58
	measuredFlag   = 1 << 59
	rampFlag       = 1 << 60
	generationMask = wordFlag - 1
)

func pack(generation uint64, s State, flags uint64) uint64 {
	return uint64(s)<<stateShift | flags | wordFlag | generation&generationMask
}

func stateOf(word uint64) State       { return State(word >> stateShift) }
func generationOf(word uint64) uint64 { return word & generationMask }

// isPlain reports whether a call under the word is counted by one add: closed, not timed, no time window, and no
// permit that was used.
func isPlain(word uint64) bool { return word>>57 == 1 }

// isTimed reports whether a call under the word is admitted and timed: closed, and no traffic ramps up.
func isTimed(word uint64) bool { return word>>59 == 1 }
