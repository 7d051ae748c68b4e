package lab

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	minReplicas = 1
	maxReplicas = 8
	maxRate     = 20_000
)

// Options say what a run of the lab does.
type Options struct {
	// Scenario is a name from Scenarios. Default "": traffic until interrupted.
	Scenario string
	// Replicas is how many the fleet has, 1 to 8.
	Replicas int
	// Rate is reads a second, 1 to 20,000; in some scenarios four times as many come during the fault. Default 0: the scenario's own, or 200.
	Rate int
	// Seed decides what scenario random does.
	Seed uint64
	// For is how long the run lasts. Default 0: the scenario's own length.
	For time.Duration
	// Load is the machine's load when the process started, nil where it is not told: ready_ms is
	// judged only where it was below 2.
	Load *float64
	// Others are scenarios that are not played here, for who names one that nobody knows.
	Others []string
	// Started is when the process started: ready_ms and t_ms count from it.
	Started time.Time
}

// Check returns every fault of the options at once, each naming the flag, its
// value and the mend.
func (o Options) Check() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Replicas < minReplicas || o.Replicas > maxReplicas {
		bad("--replicas %d: give %d to %d", o.Replicas, minReplicas, maxReplicas)
	}
	if o.Rate < 0 || o.Rate > maxRate {
		bad("--rate %d: give 1 to %d reads a second, or leave it out", o.Rate, maxRate)
	}
	if o.For < 0 {
		bad("--for %v: give a positive length such as 30s", o.For)
	}
	if o.Scenario == "" {
		return errors.Join(faults...)
	}
	s, ok := find(o.Scenario)
	if !ok {
		bad("--scenario %q: not known; take one of %s", o.Scenario, strings.Join(append(Names(), o.Others...), ", "))
		return errors.Join(faults...)
	}
	if o.For > 0 && o.For < s.shortest {
		bad("--for %v: too short for scenario %s to show anything; give at least %v", o.For, s.Name, s.shortest)
	}
	if o.Rate > 0 && o.Rate < s.least() {
		bad("--rate %d: too few reads for scenario %s to show anything; give at least %d", o.Rate, s.Name, s.least())
	}
	if o.Replicas >= minReplicas && o.Replicas < s.replicas {
		bad("--replicas %d: scenario %s needs another replica to read from; give at least %d", o.Replicas, s.Name, s.replicas)
	}
	return errors.Join(faults...)
}

func (o Options) rate() int {
	if o.Rate > 0 {
		return o.Rate
	}
	if s, ok := find(o.Scenario); ok {
		return s.rate()
	}
	return defaultRate
}

// Names lists the scenarios.
func Names() []string {
	names := make([]string, 0, len(Scenarios()))
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

func find(name string) (Scenario, bool) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
