package breaker

import (
	"errors"
	"slices"
)

// Reconfigure changes the settings of a running breaker (REQ-B16). c is all of them:
// a field that is left zero gets its default, not what it was before. The state,
// the counters and what the rules measured stay; the new rules judge from the
// next result on, and the new Open from the next opening on. A rule takes over
// the window of the rule of its type before it, in order, a Signal that of the
// Signal of its name; but a latency rule whose Threshold changes begins anew, and so
// do the window of a SlowCallRate and the open one of a Percentile whose Span does.
// Only a Classify or a function of Observer that is nil keeps
// the one before; the name stays and must be empty or the same. Probes under
// way finish, also if Concurrent is lowered.
//
// The error names every fault; nothing has changed then.
func (b *Breaker) Reconfigure(c Config) error {
	c = c.withDefaults()
	errs := []error{c.check()}
	if c.Name != "" && c.Name != b.name {
		errs = append(errs, fault("Name", c.Name, "a breaker keeps its name; leave it empty"))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.unlockAndDeliver()
	old := b.settings.Load()
	keepFunctions(&c, old)
	before := b.mu.detectors
	b.installLocked(c.Rules)
	b.measureLocked(c.Histogram)
	b.inheritLocked(before)
	b.settings.Store(c.settings(old.slots))
	b.retimeLocked()
	word := b.loadWord()
	b.storeWord(pack(generationOf(word), stateOf(word), b.flagsLocked()))
	return nil
}

func keepFunctions(c *Config, old *settings) {
	if c.Classify == nil {
		c.Classify = old.Classify
	}
	if c.Observer.OnTransition == nil {
		c.Observer.OnTransition = old.Observer.OnTransition
	}
	if c.Observer.OnWouldOpen == nil {
		c.Observer.OnWouldOpen = old.Observer.OnWouldOpen
	}
	if c.Observer.OnFault == nil {
		c.Observer.OnFault = old.Observer.OnFault
	}
}

// inheritLocked lets each detector take over from the first of before that
// fits; one that finds none starts clean.
func (b *Breaker) inheritLocked(before []*installed) {
	before = slices.Clone(before)
	t := b.tallyLocked()
	for _, d := range b.mu.detectors {
		d.reset(t)
		i := slices.IndexFunc(before, func(from *installed) bool { return d.inherit(from.detector, t) })
		if i >= 0 {
			d.firing = d.dry && before[i].firing
			before = slices.Delete(before, i, i+1)
		}
	}
}
