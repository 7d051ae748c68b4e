package breaker

import (
	"errors"
	"sync/atomic"
	"time"
)

// Ramp says how traffic comes back after a recovery: a share of the calls is admitted
// that grows evenly from From to 1 within For; the rest is refused. Which calls, is
// not by chance: at a share of a fifth every fifth call is admitted. An opening while
// traffic ramps up counts as a failed recovery (REQ-B6). Force(Closed) starts no ramp.
type Ramp struct {
	// For is how long it takes. Default: 0, all traffic comes back at once, and the other
	// fields are of no use.
	For time.Duration
	// From is the share at the beginning, above 0 and below 1. Default: 0.1.
	From float64
	// Rate is the share of failures since the recovery that is still allowed while
	// traffic ramps up, whatever the rules say; above 0 and below 1. Default: 0.5.
	Rate float64
	// MinCalls is how many calls must have ended since the recovery before Rate is
	// judged, at least 1. Default: 10.
	MinCalls int
}

func (r Ramp) withDefaults() Ramp {
	setDefault(&r.From, 0.1)
	setDefault(&r.Rate, 0.5)
	setDefault(&r.MinCalls, 10)
	return r
}

func (r Ramp) check() error {
	errs := []error{checkRate("Ramp", r.Rate), checkMinCalls("Ramp", r.MinCalls, 10)}
	if r.For < 0 {
		errs = append(errs, fault("Ramp.For", r.For, "use 0 to let all traffic come back at once"))
	}
	if !(r.From > 0 && r.From < 1) {
		errs = append(errs, fault("Ramp.From", r.From, "use a share above 0 and below 1, or 0 for 0.1"))
	}
	return errors.Join(append(errs, checkLongest(map[string]time.Duration{"Ramp.For": r.For}))...)
}

// ramp is the state of one.
type ramp struct {
	on    bool         // under Breaker.mu; calls read rampFlag
	base  tally        // at the recovery; under Breaker.mu
	began atomic.Int64 // since the clock's base; written under Breaker.mu, before rampFlag is
	// given adds up the shares of the calls, in units of 2^-32 of a call: one is admitted when
	// the sum passes a whole number.
	given atomic.Uint64
}

const oneCall = 1 << 32

// begin starts with a sum that admits the first call.
func (r *ramp) begin(t tally) {
	r.base = t
	r.began.Store(int64(t.now))
	r.given.Store(oneCall - 1)
}

func (r *ramp) share(now time.Duration, s *Ramp) float64 {
	passed := now - time.Duration(r.began.Load())
	if passed >= s.For {
		return 1
	}
	return s.From + (1-s.From)*max(0, float64(passed)/float64(s.For))
}

func (r *ramp) admits(now time.Duration, s *Ramp) bool {
	part := uint64(r.share(now, s) * oneCall)
	sum := r.given.Add(part)
	return sum/oneCall != (sum-part)/oneCall
}

// failed judges the failures since the recovery.
func (r *ramp) failed(t tally, s *Ramp) (Reason, bool) {
	if !r.on {
		return Reason{}, false
	}
	return rateReason(RuleRampFailures, t.failures-r.base.failures, t.calls()-r.base.calls(), s.Rate, s.MinCalls)
}
