package breaker

import (
	"errors"
	"fmt"
)

// FailureRateByCount opens when more than Rate of the last Calls calls failed.
type FailureRateByCount struct {
	// Calls is the length of the window, 1 to 100,000. It costs 8 bytes for
	// each of Calls * Rate. Default: 100.
	Calls int
	// Rate is the share of failures that is still allowed, above 0 and below 1.
	// Default: 0.5.
	Rate float64
	// MinCalls is how many calls must have ended since the breaker closed
	// before it is judged, 1 to Calls. Default: 20, or Calls if that is less.
	MinCalls int
}

const maxCalls = 100_000

func (r FailureRateByCount) withDefaults() Rule {
	setDefault(&r.Calls, 100)
	setDefault(&r.Rate, 0.5)
	setDefault(&r.MinCalls, min(20, r.Calls))
	return r
}

func (r FailureRateByCount) check(field string) error {
	errs := []error{checkRate(field, r.Rate)}
	if r.Calls < 1 || r.Calls > maxCalls {
		errs = append(errs, fault(field+".Calls", r.Calls, "use 1 to 100000, or 0 for 100"))
		return errors.Join(errs...)
	}
	errs = append(errs, checkMinCalls(field, r.MinCalls, 20))
	if r.MinCalls > r.Calls {
		errs = append(errs, fault(field+".MinCalls", r.MinCalls,
			fmt.Sprintf("a window of %d calls never holds so many; use at most Calls", r.Calls)))
	}
	return errors.Join(errs...)
}

func (r FailureRateByCount) detector() detector {
	return &countWindow{rule: r, size: r.needed()}
}

// needed is how many failures decide: the fewest that are more than Rate of a
// full window.
func (r FailureRateByCount) needed() int {
	n := int(float64(r.Calls)*r.Rate) + 1
	for n < r.Calls && float64(n)/float64(r.Calls) <= r.Rate {
		n++
	}
	return min(n, r.Calls)
}

// countWindow keeps the positions of the last failures in the sequence of
// calls: successes cost nothing. It need not know more failures than decide,
// since that many are over the rate in any window up to the full one.
type countWindow struct {
	rule  FailureRateByCount
	size  int
	since uint64   // position of the last call before the window's knowledge
	bad   uint64   // failures after since
	ring  []uint64 // made at the first failure; positions, oldest at head
	head  int
	n     int
}

func (w *countWindow) reset(t tally) {
	w.since, w.bad, w.head, w.n = t.calls(), 0, 0, 0
}

func (w *countWindow) failed(t tally) (Reason, bool) {
	pos := t.calls()
	w.push(pos)
	calls := min(pos-w.since, uint64(w.rule.Calls))
	for w.n > 0 && w.ring[w.head]+calls <= pos {
		w.pop()
	}
	bad := uint64(w.n)
	if pos-w.since == calls { // nothing has left the window: this is exact, the ring may be short
		bad = w.bad
	}
	return rateReason(RuleFailureRateByCount, bad, calls, w.rule.Rate, w.rule.MinCalls)
}

func (w *countWindow) push(pos uint64) {
	if w.ring == nil {
		w.ring = make([]uint64, w.size)
	}
	if w.n == w.size {
		w.pop()
	}
	w.ring[(w.head+w.n)%w.size] = pos
	w.n++
	w.bad++
}

func (w *countWindow) pop() {
	w.head = (w.head + 1) % w.size
	w.n--
}

// inherit keeps the newest failures that fit. What the old window had already
// forgotten is unknown to the new one, also where it is longer.
func (w *countWindow) inherit(from detector, t tally) bool {
	old, ok := from.(*countWindow)
	if !ok {
		return false
	}
	pos := t.calls()
	w.since = max(old.since, pos-min(pos, uint64(old.rule.Calls)))
	if old.n == old.size {
		w.since = max(w.since, old.ring[old.head]-1)
	}
	for i := max(0, old.n-w.size); i < old.n; i++ {
		if at := old.ring[(old.head+i)%old.size]; at > w.since {
			w.push(at)
		}
	}
	return true
}
