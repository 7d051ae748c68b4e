package api

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/replica"
)

// Force forces a breaker, of a replica or a consumer, or gives it back to its rules (breaker.Closed). The error is an *UnknownError where there is none of that name.
func (s *Standard) Force(name string, to breaker.State, reason string) error {
	p := s.Parts()
	if p.Set != nil {
		if b := p.Set.Breaker(name); b != nil {
			return b.Force(to, reason)
		}
	}
	if p.Router != nil {
		if b := p.Router.Breaker(name); b != nil {
			return b.Force(to, reason)
		}
	}
	return unknownBreaker(p, name)
}

func unknownBreaker(p Parts, name string) error {
	return &UnknownError{What: "breaker", Name: name, Known: append(replicaNames(p), consumerNames(p)...)}
}

func replicaNames(p Parts) (names []string) {
	if p.Set != nil {
		nodes := p.Set.Stats().Replicas
		for i := range nodes {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}

func consumerNames(p Parts) (names []string) {
	if p.Router != nil {
		consumers := p.Router.Config().Consumers
		for i := range consumers {
			names = append(names, consumers[i].Name)
		}
	}
	return names
}

// Tune changes thresholds while running (REQ-B16): of a replica those of the set, which all replicas share. The error is an *InvalidError with every fault, and nothing has changed then;
// an *UnknownError where there is no breaker of that name.
func (s *Standard) Tune(name string, t Tuning) error {
	return s.Exclusively(func() error {
		p := s.Parts()
		switch {
		case slices.Contains(replicaNames(p), name):
			return tuneReplicas(p.Set, t)
		case slices.Contains(consumerNames(p), name):
			return tuneConsumer(p.Router, name, t)
		}
		return unknownBreaker(p, name)
	})
}

func tuneReplicas(set *replica.Set, t Tuning) error {
	st := set.Settings()
	var c change
	c.duration("trip_ms", t.TripMS, &st.Trip)
	c.duration("reenter_ms", t.ReenterMS, &st.Reenter)
	c.count("breaches", t.Breaches, &st.Breaches)
	c.duration("max_staleness_ms", t.MaxStalenessMS, &st.MaxStaleness)
	c.count("failures", t.Failures, &st.Failures)
	c.duration("open_base_ms", t.OpenBaseMS, &st.Open.Base)
	c.duration("open_max_ms", t.OpenMaxMS, &st.Open.Max)
	c.foreign(ofConsumers, "timeout_ms", t.TimeoutMS != nil)
	c.foreign(ofConsumers, "slow_ms", t.SlowMS != nil)
	c.foreign(ofConsumers, "bulkhead", t.Bulkhead != nil)
	if err := c.fault(); err != nil {
		return err
	}
	return fromLibrary(set.Reconfigure(st), map[string]string{
		"Trip": "trip_ms", "Reenter": "reenter_ms", "Breaches": "breaches", "MaxStaleness": "max_staleness_ms", "Failures": "failures",
		"Open.Base": "open_base_ms", "Open.Max": "open_max_ms",
	})
}

func tuneConsumer(r *emit.Router, name string, t Tuning) error {
	settings := r.Config()
	i := slices.IndexFunc(settings.Consumers, func(k emit.Consumer) bool { return k.Name == name })
	if i < 0 { // it has just gone
		return &UnknownError{What: "consumer", Name: name}
	}
	k := &settings.Consumers[i]
	if open := &k.Breaker.Open; *open == (breaker.Backoff{}) && (t.OpenBaseMS != nil || t.OpenMaxMS != nil) {
		*open = emit.DefaultOpen() // what is not changed stays
	}
	var c change
	c.duration("timeout_ms", t.TimeoutMS, &k.Timeout)
	c.duration("slow_ms", t.SlowMS, &k.Slow)
	c.count("bulkhead", t.Bulkhead, &k.Bulkhead)
	c.duration("open_base_ms", t.OpenBaseMS, &k.Breaker.Open.Base)
	c.duration("open_max_ms", t.OpenMaxMS, &k.Breaker.Open.Max)
	c.foreign(ofReplicas, "trip_ms", t.TripMS != nil)
	c.foreign(ofReplicas, "reenter_ms", t.ReenterMS != nil)
	c.foreign(ofReplicas, "breaches", t.Breaches != nil)
	c.foreign(ofReplicas, "max_staleness_ms", t.MaxStalenessMS != nil)
	c.foreign(ofReplicas, "failures", t.Failures != nil)
	if err := c.fault(); err != nil {
		return err
	}
	return fromLibrary(r.Reconfigure(settings), map[string]string{
		"Timeout": "timeout_ms", "Slow": "slow_ms", "Limit": "bulkhead", "Open.Base": "open_base_ms", "Open.Max": "open_max_ms",
	})
}

// Budget changes that of the read path (REQ-D9); nil stays. The error is an *InvalidError with every fault, and nothing has changed then; an *UnknownError where there is no degraded mode.
func (s *Standard) Budget(ratePerSec *float64, burst *int) error {
	return s.Exclusively(func() error {
		path := s.Parts().Path
		if path == nil {
			return &UnknownError{What: "degraded mode of a", Name: "read path"}
		}
		cfg := path.Config()
		var c change
		c.rate("rate_per_sec", ratePerSec, &cfg.Budget.Rate)
		c.count("burst", burst, &cfg.Budget.Burst)
		if err := c.fault(); err != nil {
			return err
		}
		return fromLibrary(path.Reconfigure(cfg), map[string]string{"Budget.Rate": "rate_per_sec", "Budget.Burst": "burst"})
	})
}

// The thresholds of each kind.
const (
	replicaKeys  = "breaches, failures, max_staleness_ms, open_base_ms, open_max_ms, reenter_ms, trip_ms"
	consumerKeys = "bulkhead, open_base_ms, open_max_ms, slow_ms, timeout_ms"
)

const (
	ofConsumers = "leave it out: it is a threshold of consumers; of a replica use " + replicaKeys
	ofReplicas  = "leave it out: it is a threshold of replicas; of a consumer use " + consumerKeys
)

// suggestOnly has the faults of unknown fields suggest the thresholds of a breaker's own kind.
func suggestOnly(p Parts, name string, err error) error {
	bad, ok := errors.AsType[*InvalidError](err)
	keys := replicaKeys
	if slices.Contains(consumerNames(p), name) {
		keys = consumerKeys
	}
	if !ok || keys == replicaKeys && !slices.Contains(replicaNames(p), name) {
		return err
	}
	for i := range bad.Fields {
		if f := &bad.Fields[i]; strings.HasPrefix(f.Mend, unknownField) {
			f.Mend = unknownField + keys
		}
	}
	return bad
}

// longest is the longest duration that can be set, as in the configuration file.
const longest = 8760 * time.Hour

// leastMS is the shortest: of less than a nanosecond nothing would be left, which means the default.
const leastMS = 0.001

// A change takes values over into settings, and notes what is wrong with them. Where nothing was given nothing changes, which is a fault of its own.
type change struct {
	faults []FieldFault
	given  bool
}

func (c *change) note(field, value, mend string) {
	c.faults = append(c.faults, FieldFault{field, value, mend})
}

func (c *change) duration(field string, v *float64, to *time.Duration) {
	switch {
	case v == nil:
		return
	case math.IsInf(*v, 1):
		*to = replica.Never // the library says where that cannot be
	case !(*v >= leastMS && *v <= ms(longest)):
		c.note(field, number(*v), "use milliseconds from "+number(leastMS)+" to "+number(ms(longest)))
	default:
		*to = time.Duration(*v * float64(time.Millisecond))
	}
	c.given = true
}

func (c *change) rate(field string, v, to *float64) {
	switch {
	case v == nil:
		return
	case !(*v > 0 && *v <= 1e6):
		c.note(field, number(*v), "use a number above 0, at most 1000000")
	default:
		*to = *v
	}
	c.given = true
}

func (c *change) count(field string, v, to *int) {
	switch {
	case v == nil:
		return
	case *v < 1 || *v > 1e6:
		c.note(field, strconv.Itoa(*v), "use a whole number from 1 to 1000000")
	default:
		*to = *v
	}
	c.given = true
}

func (c *change) foreign(mend, field string, given bool) {
	if given {
		c.note(field, "given", mend)
		c.given = true
	}
}

func (c *change) fault() error {
	if !c.given {
		c.note("body", "{}", "give at least one field to change")
	}
	return invalid(c.faults)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
