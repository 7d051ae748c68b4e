package faultsink

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Faults say what happens to a call: first it takes its time by Latency, then it meets at most one of the others. The zero
// value is a consumer that is well.
type Faults struct {
	// Latency is how long a call takes. A context that ends first ends the call.
	Latency Latency
	// Panics, Hangs, Rejects and Errors are the shares of calls that panic, that wait until Release or the end of their
	// context, that are rejected (emit.ErrRejected) and that fail, each 0 to 1 and 1 in all. Default: none.
	Panics, Hangs, Rejects, Errors float64
	// RetryAfter makes the errors emit.LaterErrors with this time. Default: plain errors.
	RetryAfter time.Duration
}

// A Latency is a distribution of times. The zero value takes no time.
//
//	Latency{Median: d}                                   constant
//	Latency{Median: d, P99: p}                           lognormal, with this median and 99th percentile
//	Latency{Median: d, SlowShare: 0.02, Slow: s}         d, but s for 2 % of the calls
type Latency struct {
	Median    time.Duration
	P99       time.Duration // at least Median; 0: all take Median
	SlowShare float64       // 0 to 1
	Slow      time.Duration // what calls of SlowShare take
}

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// draw is the latency of a call by two numbers in [0, 1).
func (l Latency) draw(slow, u float64) time.Duration {
	switch {
	case slow < l.SlowShare:
		return l.Slow
	case l.P99 <= l.Median:
		return l.Median
	}
	sigma := math.Log(float64(l.P99)/float64(l.Median)) / z99
	normal := math.Sqrt2 * math.Erfinv(2*u-1)
	d := float64(l.Median) * math.Exp(sigma*normal)
	return time.Duration(min(d, float64(longest)))
}

// longest keeps the tail of a lognormal distribution, and u = 0, within what a timer takes.
const longest = 24 * time.Hour

// check returns every fault of f, joined.
func (f Faults) check() error {
	var errs []error
	sum := 0.0
	for _, share := range []struct {
		name  string
		value float64
		once  bool
	}{
		{"Panics", f.Panics, true},
		{"Hangs", f.Hangs, true},
		{"Rejects", f.Rejects, true},
		{"Errors", f.Errors, true},
		{"Latency.SlowShare", f.Latency.SlowShare, false},
	} {
		if !(share.value >= 0 && share.value <= 1) {
			errs = append(errs, fmt.Errorf("faultsink: %s is %v: use 0 to 1", share.name, share.value))
		} else if share.once {
			sum += share.value
		}
	}
	if sum > 1+1e-9 {
		errs = append(errs, fmt.Errorf("faultsink: Panics, Hangs, Rejects and Errors are %v in all: use at most 1", sum))
	}
	if f.RetryAfter < 0 {
		errs = append(errs, fmt.Errorf("faultsink: RetryAfter is %v: use a positive duration, or 0 for none", f.RetryAfter))
	}
	return errors.Join(append(errs, f.Latency.check())...)
}

func (l Latency) check() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Median", l.Median}, {"P99", l.P99}, {"Slow", l.Slow}} {
		if d.value < 0 || d.value > longest {
			errs = append(errs, fmt.Errorf("faultsink: Latency.%s is %v: use 0 to %v", d.name, d.value, longest))
		}
	}
	if l.P99 != 0 && (l.P99 < l.Median || l.Median == 0) {
		errs = append(errs, fmt.Errorf("faultsink: Latency.P99 is %v with a Median of %v: use at least the Median, which must be above 0", l.P99, l.Median))
	}
	return errors.Join(errs...)
}

// A fate is what meets a call besides its latency.
type fate int

const (
	succeeds fate = iota
	panics
	hangs
	rejects
	fails
)

// fate is that of a call by a number in [0, 1).
func (f Faults) fate(u float64) fate {
	for _, share := range []struct {
		value float64
		fate  fate
	}{{f.Panics, panics}, {f.Hangs, hangs}, {f.Rejects, rejects}, {f.Errors, fails}} {
		if u < share.value {
			return share.fate
		}
		u -= share.value
	}
	return succeeds
}
