package replica

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Limits of the settings.
const (
	// MinReenter is the least re-entry threshold: the catch-up probe that is compared
	// with it takes a look at the primary, one at the replica and a pause between.
	MinReenter = 10 * time.Millisecond
	// longestSetting keeps sums of settings from overflowing.
	longestSetting = 365 * 24 * time.Hour
	// shortestInterval keeps a slip of units from hammering a server.
	shortestInterval = time.Millisecond
	// maxReplicas is how many replicas a Set may have: a pick keeps its candidates as
	// the bits of one word.
	maxReplicas = 64
	// jitter is the share by which a sampling interval varies to either side.
	jitter = 0.1
	// lostLooks is how many primary intervals may pass without a good look before
	// the primary is unknown.
	lostLooks = 3
)

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults fills the fields that are zero.
func withDefaults(s Settings) Settings {
	orDefault(&s.Trip, 500*time.Millisecond)
	orDefault(&s.Reenter, defaultReenter(s.Trip))
	orDefault(&s.Breaches, 3)
	orDefault(&s.Calm, 1500*time.Millisecond)
	orDefault(&s.Fast, min(100*time.Millisecond, s.Calm))
	orDefault(&s.PrimaryInterval, min(250*time.Millisecond, s.Calm))
	orDefault(&s.SampleTimeout, min(time.Second, s.Calm*2/3))
	orDefault(&s.MaxStaleness, defaultLimit(&s))
	orDefault(&s.Grace, 10*time.Second)
	orDefault(&s.Ramp, 10*time.Second)
	orDefault(&s.RampFrom, 0.1)
	orDefault(&s.Failures, 3)
	orDefault(&s.Open.Base, 2*time.Second)
	orDefault(&s.Open.Max, max(time.Minute, s.Open.Base))
	orDefault(&s.Open.Jitter, 500*time.Millisecond)
	orDefault(&s.Open.Sticky, 10*time.Second)
	return s
}

// open is the open period as a breaker takes it, where no Sticky is 0.
func (s *Settings) open() breaker.Backoff {
	o := s.Open
	o.Sticky = max(o.Sticky, 0)
	return o
}

func defaultReenter(trip time.Duration) time.Duration {
	return max(min(200*time.Millisecond, trip/2), min(trip, MinReenter))
}

// defaultLimit is the staleness that a healthy replica under load never reaches: it may lag
// by just under Trip when sampled, waits a calm interval with its jitter, and one fast sample more.
func defaultLimit(s *Settings) time.Duration {
	if s.Trip == Never {
		return Never
	}
	return max(s.Trip+longest(s.Calm)+s.Fast, s.floor())
}

// longest returns an interval with all of its jitter.
func longest(d time.Duration) time.Duration { return d + time.Duration(float64(d)*jitter) }

// validate returns every fault of settings whose defaults are filled in.
func (s *Settings) validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("replica: "+format, args...))
		}
	}
	for _, f := range s.durations() {
		fault(f.value < 0, "%s is %v: it must not be negative; 0 is the default", f.name, f.value)
		fault(f.value > longestSetting && f.value != Never, "%s is %v: give at most %v", f.name, f.value, longestSetting)
	}
	for _, f := range []namedDuration{{"Calm", s.Calm}, {"Fast", s.Fast}, {"PrimaryInterval", s.PrimaryInterval}} {
		fault(f.value >= 0 && f.value < shortestInterval, "%s is %v: give at least %v, or 0 for the default", f.name, f.value, shortestInterval)
		fault(f.value == Never, "%s is Never: only Trip and MaxStaleness can be", f.name)
	}
	fault(s.Breaches < 0, "Breaches is %d: give at least 1", s.Breaches)
	fault(s.Failures < 0, "Failures is %d: give at least 1", s.Failures)
	fault(!(s.RampFrom > 0 && s.RampFrom <= 1), "RampFrom is %v: give a share over 0, at most 1", s.RampFrom)
	fault(s.Reenter > s.Trip, "Reenter is %v, above Trip (%v): a replica would be re-admitted only to trip again; lower Reenter or raise Trip", s.Reenter, s.Trip)
	fault(s.Reenter >= 0 && s.Reenter < MinReenter, "Reenter is %v: below the round trips of the catch-up probe it can never be met; give at least %v", s.Reenter, MinReenter)
	fault(s.SampleTimeout >= s.Calm, "SampleTimeout is %v: it must be shorter than Calm (%v), so that a node that hangs is known within one interval", s.SampleTimeout, s.Calm)
	fault(s.Fast > s.Calm, "Fast is %v: it must not be longer than Calm (%v)", s.Fast, s.Calm)
	fault(s.PrimaryInterval > s.Calm, "PrimaryInterval is %v: it must not be longer than Calm (%v)", s.PrimaryInterval, s.Calm)
	fault(s.MaxStaleness < s.floor(), "MaxStaleness is %v: with Calm %v and PrimaryInterval %v a healthy replica's bound reaches %v between samples; raise MaxStaleness or shorten the intervals",
		s.MaxStaleness, s.Calm, s.PrimaryInterval, s.floor())
	_, err := breaker.New(breaker.Config{Open: s.open()})
	return errors.Join(append(faults, err)...)
}

// floor is the bound that a healthy replica reaches just before its next sample.
func (s *Settings) floor() time.Duration { return longest(s.Calm) + longest(s.PrimaryInterval) }

type namedDuration struct {
	name  string
	value time.Duration
}

func (s *Settings) durations() []namedDuration {
	return []namedDuration{
		{"Trip", s.Trip},
		{"Reenter", s.Reenter},
		{"MaxStaleness", s.MaxStaleness},
		{"Calm", s.Calm},
		{"Fast", s.Fast},
		{"PrimaryInterval", s.PrimaryInterval},
		{"SampleTimeout", s.SampleTimeout},
	}
}

// lagSignal names the breaker's signal rule.
const lagSignal = "lag"

// breakerConfig is the breaker of one replica under these settings.
func (s *Settings) breakerConfig(n *node, classify func(error) breaker.Outcome) breaker.Config {
	rules := []breaker.Rule{breaker.ConsecutiveFailures{Count: s.Failures}}
	if s.Trip != Never {
		rules = append(rules, breaker.Signal{
			Name: lagSignal, Trip: s.Trip.Seconds(), Reenter: s.Reenter.Seconds(), Breaches: s.Breaches, Unit: "s",
		})
	}
	return breaker.Config{
		Name:     n.Name,
		Rules:    rules,
		Open:     s.open(),
		Probe:    breaker.Probe{Concurrent: 1, Successes: 1, Reserved: true},
		Classify: classify,
		Observer: breaker.Observer{OnTransition: n.onTransition, OnFault: n.set.observer.OnFault},
	}
}

// lost is the age of the last good look at which the primary is unknown.
func (s *Settings) lost() int64 { return int64(lostLooks * s.PrimaryInterval) }

// limit is the bound of a read, in nanoseconds.
func (s *Settings) limit(r *Requirement) int64 {
	if r.MaxStaleness != 0 {
		return int64(r.MaxStaleness)
	}
	return int64(s.MaxStaleness)
}

// weight is the share of traffic of a node that was re-admitted at since.
func (s *Settings) weight(since, now int64) float64 {
	if s.Ramp <= 0 || now-since >= int64(s.Ramp) {
		return 1
	}
	return s.RampFrom + (1-s.RampFrom)*float64(max(now-since, 0))/float64(s.Ramp)
}

// sub subtracts instants; the difference to never is Never.
func sub(now, then int64) int64 {
	if then == never {
		return math.MaxInt64
	}
	return now - then
}
