package breaker

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// SetConfig says what breakers a [Set] makes and how many it keeps. The zero
// value works: every key gets the default Config.
type SetConfig[K comparable] struct {
	// Config is that of every key. The breaker's Name is the key, as fmt.Sprint
	// writes it, after Config.Name and a slash if there is one. Its Observer is
	// told of all keys, of several at a time. Default: see Config.
	Config Config
	// For gives a key a Config of its own: it gets Config with the Name for that
	// key, and returns what to use. It is called whenever a breaker is made, for a
	// key that comes back too (what Reconfigure changed was of the breaker before),
	// concurrently, with no lock held, and perhaps more than once for one breaker; it must
	// not ask the set for that key. If it panics, or New would refuse what it
	// returns, the key gets Config, and the Fault, whose Part is "For", goes to
	// Config.Observer. Default: Config for every key.
	For func(key K, c Config) Config
	// Max is how many breakers the set keeps, 1 to 1,000,000; more than are in use
	// at a time, since a Get of an evicted one takes a lock and evicts another.
	// Default: 10,000.
	Max int
	// Idle evicts a breaker that was not used for that long, though the set has room. It
	// is looked at, two breakers at a time, when a key comes that the set does not keep: never
	// too early, and in a set to which no new key comes not at all. What the rules
	// of a closed breaker counted goes with it, failures in a row too: it should be longer than
	// a key in use is ever silent. At most 365 days. Default: 0, off.
	Idle time.Duration
}

const (
	defaultSetMax = 10_000
	largestSetMax = 1_000_000
)

func (c SetConfig[K]) withDefaults() SetConfig[K] {
	setDefault(&c.Max, defaultSetMax)
	c.Config.Rules = slices.Clone(c.Config.Rules)
	return c
}

// check returns every fault, joined.
func (c SetConfig[K]) check() error {
	errs := []error{c.Config.withDefaults().check()}
	if c.Max < 1 || c.Max > largestSetMax {
		errs = append(errs, fault("Max", c.Max, fmt.Sprintf("use 1 to %d, or 0 for %d", largestSetMax, defaultSetMax)))
	}
	if c.Idle < 0 {
		errs = append(errs, fault("Idle", c.Idle, "use 0 to switch it off"))
	}
	return errors.Join(append(errs, checkLongest(map[string]time.Duration{"Idle": c.Idle}))...)
}
