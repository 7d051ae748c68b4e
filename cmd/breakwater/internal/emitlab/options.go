package emitlab

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	defaultRate = 500
	maxRate     = 5000
)

// Options say what a run does.
type Options struct {
	// Scenario is a name from Scenarios.
	Scenario string
	// Policies are run one after the other, each a name from Policies. Default: latency alone.
	Policies []string
	// Rate is triggers a second for each consumer, 1 to 5,000. Default: 500.
	Rate int
	// Seed decides when triggers come, and when a process is killed.
	Seed uint64
	// For is how long the outage lasts; in scenario crash all rounds together. Default: the scenario's own length.
	For time.Duration
	// Dir is where the dead letters of scenario crash get a directory of their own. Default: the system's for temporary files.
	Dir string
	// Load is the machine's load when the process started, nil where it is not told.
	Load *float64
	// Started is when the process started: ready_ms and t_ms count from it.
	Started time.Time
	// Child makes the command that runs a role of this program, RoleConsumer or RoleEmitter.
	Child func(role string, args ...string) *exec.Cmd

	// For tests: other lengths and bounds than those of the scenarios.
	calm, settle time.Duration
	storeBound   int
}

// What this program is run as by itself.
const (
	RoleConsumer = "consumer"
	RoleEmitter  = "emitter"
)

// Check returns every fault of the options at once, each naming the flag, its value and the mend.
func (o Options) Check() error {
	var faults []error
	bad := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Rate < 0 || o.Rate > maxRate {
		bad("--rate %d: give 1 to %d triggers a second for each consumer, or leave it out for %d", o.Rate, maxRate, defaultRate)
	}
	for i, p := range o.Policies {
		switch {
		case !slices.Contains(Policies(), p):
			bad("--policies %q: not known; take some of %s", p, strings.Join(Policies(), ","))
		case slices.Contains(o.Policies[:i], p):
			bad("--policies %q: named twice; name it once", p)
		}
	}
	s, ok := find(o.Scenario)
	if !ok {
		bad("--scenario %q: not known; take one of %s", o.Scenario, strings.Join(Names(), ", "))
		return errors.Join(faults...)
	}
	if o.For < 0 || o.For > 0 && o.For < s.shortest && o.calm == 0 {
		bad("--for %v: too short for scenario %s to show anything; give at least %v", o.For, s.Name, s.shortest)
	}
	if o.Dir != "" && !s.dir {
		bad("--dir %q: scenario %s has no files; leave it out", o.Dir, s.Name)
	}
	if s.letters && !slices.Equal(o.policies(), []string{PolicyLatency}) {
		bad("--policies %s: scenario %s is about dead letters, which %s alone has; leave it out", strings.Join(o.Policies, ","), s.Name, PolicyLatency)
	}
	return errors.Join(faults...)
}

func (o Options) policies() []string {
	if len(o.Policies) == 0 {
		return []string{PolicyLatency}
	}
	return o.Policies
}

func (o Options) rate() int {
	if o.Rate > 0 {
		return o.Rate
	}
	return defaultRate
}

// Names lists the scenarios.
func Names() []string {
	var names []string
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// Has tells whether a scenario is one of these.
func Has(name string) bool {
	_, ok := find(name)
	return ok
}

func find(name string) (Scenario, bool) {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, true
		}
	}
	return Scenario{}, false
}
