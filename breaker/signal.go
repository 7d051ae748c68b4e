package breaker

import (
	"errors"
	"fmt"
	"math"
)

// Signal opens by a value that somebody outside measures, a replica's lag for
// one, and hands to [Breaker.Observe]. It has two thresholds (REQ-B7): above
// Trip it opens; at or under Reenter it lets a half-open breaker close; between
// them a half-open breaker does neither and goes on probing.
//
// In half-open one observation above Trip opens again, whatever Breaches says.
// A Trip of +Inf makes the rule inert: it opens nothing and keeps nothing from
// closing.
type Signal struct {
	// Name is what Observe calls it, and the rule's name in a Reason. Required.
	Name string
	// Trip is the highest value that is still allowed, above 0. Required.
	Trip float64
	// Reenter is the highest value with which the breaker may close again,
	// above 0 and at most Trip. Required, unless the rule is inert.
	Reenter float64
	// Breaches is how many observations in a row above Trip open a closed
	// breaker, at least 1. Default: 1.
	Breaches int
	// Unit of the values, for people. Default: none.
	Unit string
}

func (r Signal) withDefaults() Rule {
	setDefault(&r.Breaches, 1)
	return r
}

func (r Signal) check(field string) error {
	var errs []error
	if r.Name == "" {
		errs = append(errs, fault(field+".Name", `""`, "name the signal as Observe will"))
	}
	if !(r.Trip > 0) { // also NaN
		errs = append(errs, fault(field+".Trip", r.Trip, "use a value above 0, or +Inf for an inert rule"))
	} else if !r.inert() && !(r.Reenter > 0 && r.Reenter <= r.Trip) {
		errs = append(errs, fault(field+".Reenter", r.Reenter,
			fmt.Sprintf("use a value above 0 and at most Trip, %v", r.Trip)))
	}
	if r.Breaches < 1 {
		errs = append(errs, fault(field+".Breaches", r.Breaches, "use at least 1, or 0 for 1"))
	}
	return errors.Join(errs...)
}

func (r Signal) inert() bool { return math.IsInf(r.Trip, 1) }

func (r Signal) detector() detector { return &signalDetector{rule: r} }

type signalDetector struct {
	rule     Signal
	breaches int     // in a row
	newest   float64 // meaningful if seen
	seen     bool    // observed since the last reset
}

// reset is called at each change of state: an observation from before a
// half-open says nothing about the recovery.
func (d *signalDetector) reset(tally) { *d = signalDetector{rule: d.rule} }

func (d *signalDetector) inherit(from detector, _ tally) bool {
	old, ok := from.(*signalDetector)
	if !ok || old.rule.Name != d.rule.Name {
		return false
	}
	d.breaches, d.newest, d.seen = old.breaches, old.newest, old.seen
	return true
}

// observe takes a value in and reports how many breaches in a row it makes.
func (d *signalDetector) observe(v float64) int {
	d.newest, d.seen = v, true
	if v > d.rule.Trip {
		d.breaches++
	} else {
		d.breaches = 0
	}
	return d.breaches
}

// settled reports whether the signal lets a half-open breaker close.
func (d *signalDetector) settled() bool {
	return d.rule.inert() || d.seen && d.newest <= d.rule.Reenter
}

// tolerable reports whether it does so once Probe.Longest has passed.
func (d *signalDetector) tolerable() bool {
	return d.rule.inert() || d.seen && d.newest <= d.rule.Trip
}

func (d *signalDetector) reason() Reason {
	r := Reason{Rule: d.rule.Name, Value: d.newest, Threshold: d.rule.Trip, Unit: d.rule.Unit}
	if d.breaches > 1 {
		r.Detail = fmt.Sprintf("%d in a row", d.breaches)
	}
	return r
}
