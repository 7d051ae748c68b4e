package breaker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Config says how a breaker decides. The zero value works: it opens after five
// consecutive failures for one second.
type Config struct {
	// Name appears in errors, transitions and statistics. Default: empty.
	Name string
	// Rules open the breaker, the first that holds; see Rule for when each is judged. They take
	// the place of the default: with latency rules alone no failure that is fast ever opens it.
	// Default: ConsecutiveFailures{Count: 5}.
	Rules []Rule
	// Histogram has Stats.Latency measured without a latency rule too: calls then read
	// the clock when they begin and end. Default: false.
	Histogram bool
	// Calls says what bounds the guarded calls, where it is known, so that rules that
	// could never decide are refused. It bounds nothing itself. Default: nothing is known.
	Calls Calls
	// Open says how long the breaker stays open. Default: see Backoff.
	Open Backoff
	// Probe says how the breaker recovers. Default: see Probe.
	Probe Probe
	// Ramp says how traffic comes back after a recovery. Default: all at once.
	Ramp Ramp
	// Classify says what an error means. It is asked for errors other than nil
	// (a nil error is a Success) that are not marked by Ignore, concurrently, with
	// no lock held. If it panics or answers with no Outcome, the call counts as a
	// Failure and the fault is reported. Default: an error that wraps context.Canceled is Ignored, any
	// other is a Failure, context.DeadlineExceeded too: Do cannot tell a target that is slow from a caller
	// that gave it no time.
	Classify func(error) Outcome
	// Observer is told what happens. Default: nobody is.
	Observer Observer
}

// Backoff says how long a breaker stays open. The first period is Base; each
// failed recovery doubles it up to Max; a clean close resets it (REQ-B6).
type Backoff struct {
	// Base is the first open period. Default: 1s.
	Base time.Duration
	// Max is the longest open period, before jitter; at least Base. Default: 30s, or Base
	// if that is longer.
	Max time.Duration
	// Jitter is added to each period: a uniform draw from 0 to Jitter, once an
	// opening, so that breakers that open together do not probe together.
	// Negative: none. Default: 500ms.
	Jitter time.Duration
	// Sticky is how long after a close a relapse goes on from the period before
	// (doubling it, as a failed recovery would) instead of from Base.
	// Default: 0, off.
	Sticky time.Duration
}

// Probe says how an open breaker recovers (REQ-B5).
type Probe struct {
	// Concurrent is how many probes may be under way at once, 1 to 1024. Default: 1.
	Concurrent int
	// Successes is how many probes in a row must succeed to close, at least 1. One
	// failure opens again; ignored ones do not count. Default: 1.
	Successes int
	// Of makes the verdict one by rate: of Of probes, a share of Rate must succeed. It
	// is given as soon as it cannot change any more. Up to 1,000,000. Default: 0, the
	// verdict is by Successes.
	Of int
	// Rate is the share of Of that must succeed, above 0 and up to 1; without Of it
	// must be 0. Default: 0.9.
	Rate float64
	// Lease is how long a probe may keep its slot without reporting; after it
	// another caller takes the slot and the late result is dropped. A probe
	// keeps its slot beyond the end of its half-open too. Default: 30s.
	Lease time.Duration
	// Longest is the longest time in half-open, counted from entering it; Expiry
	// says what happens then. With ExpireByEvidence and Signal rules the breaker
	// then closes if at least one probe succeeded and every signal was observed and
	// stayed at or under its Trip threshold; else it opens, as after a failed
	// recovery. Without Signal rules it closes if a probe succeeded and none failed
	// (with Of: a share of Rate of those seen succeeded), and opens if some failed;
	// if nothing was seen it stays half-open, and the first probe that then succeeds
	// closes it. Default: Open.Max.
	Longest time.Duration
	// Expiry is the verdict when Longest has passed. Default: ExpireByEvidence.
	Expiry Expiry
	// Reserved gives half-open probes to AllowProbe only; Allow is refused in
	// half-open. For replicas: the sampler probes, not a user's read. Do, DoOr and the adapters ask
	// Allow: where nobody asks AllowProbe such a breaker never closes again, but by ExpireClosed or
	// Force.
	// Default: false.
	Reserved bool
}

// An Expiry is what becomes of a half-open that has lasted for [Probe.Longest].
type Expiry uint8

const (
	// ExpireByEvidence decides by what was seen; see Probe.Longest.
	ExpireByEvidence Expiry = iota
	// ExpireOpen opens, as after a failed recovery.
	ExpireOpen
	// ExpireClosed closes, with the Ramp.
	ExpireClosed
)

// Calls is what bounds the calls that a breaker guards. With both fields known, a rule
// whose MinCalls are more than the calls of a Span when every call hangs, on average
// MaxInFlight * Span / Timeout, is an error of New; with Timeout, one whose Threshold
// no call can reach.
type Calls struct {
	// MaxInFlight is how many run at once, by a bulkhead or a pool; it is of use beside
	// Timeout only. Default: 0, unknown.
	MaxInFlight int
	// Timeout ends each of them. Default: 0, unknown.
	Timeout time.Duration
}

// The defaults of Config, Backoff and Probe.
const (
	defaultBase   = time.Second
	defaultMax    = 30 * time.Second
	defaultJitter = 500 * time.Millisecond
	defaultLease  = 30 * time.Second
	maxConcurrent = 1024
)

// withDefaults is c with every field that is zero set to its default.
func (c Config) withDefaults() Config {
	if len(c.Rules) == 0 {
		c.Rules = []Rule{ConsecutiveFailures{}}
	}
	c.Rules = slices.Clone(c.Rules)
	for i, r := range c.Rules {
		if isValue(r) {
			c.Rules[i] = r.withDefaults()
		}
	}
	c.Open = c.Open.withDefaults()
	c.Probe = c.Probe.withDefaults(c.Open.Max)
	c.Ramp = c.Ramp.withDefaults()
	return c
}

// isValue tells a rule from nil and from a pointer to a rule, which may be nil too.
func isValue(r Rule) bool { return r != nil && reflect.TypeOf(r).Kind() != reflect.Pointer }

func kindOf(r Rule) string {
	if r == nil {
		return "nil"
	}
	return "a pointer, " + reflect.TypeOf(r).String()
}

func (o Backoff) withDefaults() Backoff {
	setDefault(&o.Base, defaultBase)
	setDefault(&o.Max, max(defaultMax, o.Base))
	setDefault(&o.Jitter, defaultJitter)
	o.Jitter = max(o.Jitter, 0)
	return o
}

func (p Probe) withDefaults(longest time.Duration) Probe {
	setDefault(&p.Concurrent, 1)
	setDefault(&p.Successes, 1)
	if p.Of != 0 {
		setDefault(&p.Rate, 0.9)
	}
	setDefault(&p.Lease, defaultLease)
	setDefault(&p.Longest, longest)
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check returns every fault of a Config with its defaults, joined.
func (c Config) check() error {
	errs := []error{c.Open.check(), c.Probe.check(), c.Ramp.check(), c.Calls.check()}
	names := map[string]string{} // of a Signal to its rule
	for i, r := range c.Rules {
		field := fmt.Sprintf("Rules[%d]", i)
		if !isValue(r) {
			errs = append(errs, fault(field, kindOf(r), "put the rule itself there"))
			continue
		}
		errs = append(errs, r.check(field))
		r, field = plain(r, field)
		errs = append(errs, c.Calls.checkRule(field, r))
		if s, ok := r.(Signal); ok {
			if first, dup := names[s.Name]; dup {
				errs = append(errs, fault(field+".Name", strconv.Quote(s.Name), first+" has it already; give each Signal its own name"))
			}
			names[s.Name] = fmt.Sprintf("Rules[%d]", i)
		}
	}
	return errors.Join(errs...)
}

func (o Backoff) check() error {
	var errs []error
	if o.Base < 0 {
		errs = append(errs, fault("Open.Base", o.Base, "use a positive duration, or 0 for 1s"))
	}
	if o.Max < o.Base {
		errs = append(errs, fault("Open.Max", o.Max, fmt.Sprintf("set it to at least Open.Base, %v", o.Base)))
	}
	if o.Sticky < 0 {
		errs = append(errs, fault("Open.Sticky", o.Sticky, "use 0 to switch it off"))
	}
	return errors.Join(append(errs, checkLongest(map[string]time.Duration{
		"Open.Base": o.Base, "Open.Max": o.Max, "Open.Jitter": o.Jitter, "Open.Sticky": o.Sticky,
	}))...)
}

func (p Probe) check() error {
	var errs []error
	if p.Concurrent < 0 || p.Concurrent > maxConcurrent {
		errs = append(errs, fault("Probe.Concurrent", p.Concurrent, "use 1 to 1024, or 0 for 1"))
	}
	if p.Of < 0 || p.Of > 1_000_000 {
		errs = append(errs, fault("Probe.Of", p.Of, "use 1 to 1000000, or 0 for a verdict by Successes"))
	}
	if p.Of == 0 && p.Rate != 0 { // NaN too
		errs = append(errs, fault("Probe.Rate", p.Rate, "say of how many probes, by Probe.Of; or use 0 for a verdict by Successes"))
	}
	if p.Of != 0 && !(p.Rate > 0 && p.Rate <= 1) {
		errs = append(errs, fault("Probe.Rate", p.Rate, "use a share above 0 and up to 1, or 0 for 0.9"))
	}
	if p.Successes < 0 {
		errs = append(errs, fault("Probe.Successes", p.Successes, "use at least 1, or 0 for 1"))
	}
	if p.Of > 0 && p.Successes > 1 {
		errs = append(errs, fault("Probe.Successes", p.Successes, "Probe.Of asks for a verdict by rate; set one of the two"))
	}
	if p.Expiry > ExpireClosed {
		errs = append(errs, fault("Probe.Expiry", p.Expiry, "use ExpireByEvidence, ExpireOpen or ExpireClosed"))
	}
	if p.Lease < 0 {
		errs = append(errs, fault("Probe.Lease", p.Lease, "use a positive duration, or 0 for 30s"))
	}
	if p.Longest < 0 {
		errs = append(errs, fault("Probe.Longest", p.Longest, "use a positive duration, or 0 for Open.Max"))
	}
	return errors.Join(append(errs, checkLongest(map[string]time.Duration{
		"Probe.Lease": p.Lease, "Probe.Longest": p.Longest,
	}))...)
}

func (k Calls) check() error {
	var errs []error
	if k.MaxInFlight < 0 {
		errs = append(errs, fault("Calls.MaxInFlight", k.MaxInFlight, "use 0 where it is not known"))
	}
	if k.Timeout < 0 {
		errs = append(errs, fault("Calls.Timeout", k.Timeout, "use 0 where it is not known"))
	}
	return errors.Join(append(errs, checkLongest(map[string]time.Duration{"Calls.Timeout": k.Timeout}))...)
}

// checkRule refuses a rule that could never decide.
func (k Calls) checkRule(field string, r Rule) error {
	f, ok := r.(interface{ fills() fills })
	if !ok || !isValue(r) || k.Timeout <= 0 {
		return nil
	}
	need := f.fills()
	if need.threshold >= k.Timeout {
		return fault(field+".Threshold", need.threshold,
			fmt.Sprintf("Calls.Timeout ends every call after %v, before it is slow; use less", k.Timeout))
	}
	most := float64(k.MaxInFlight) * float64(need.span) / float64(k.Timeout)
	if k.MaxInFlight > 0 && need.span > 0 && float64(need.minCalls) > most {
		return fault(field+".MinCalls", need.minCalls, fmt.Sprintf(
			"%d in flight that each end by a timeout of %v are %d calls in a Span of %v; use at most that, or a longer Span",
			k.MaxInFlight, k.Timeout, int(most), need.span))
	}
	return nil
}

// longestDuration keeps sums of durations from overflowing. To stay open for good,
// Force.
const longestDuration = 365 * 24 * time.Hour

func checkLongest(fields map[string]time.Duration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if d := fields[name]; d > longestDuration {
			errs = append(errs, fault(name, d, fmt.Sprintf("use at most %v", longestDuration)))
		}
	}
	return errors.Join(errs...)
}

// fault names a field, its value and the mend.
func fault(field string, value any, mend string) error {
	return fmt.Errorf("breaker: %s is %v: %s", field, value, mend)
}

// defaultClassify ignores the caller's own cancellation (REQ-B9).
func defaultClassify(err error) Outcome {
	if errors.Is(err, context.Canceled) {
		return Ignored
	}
	return Failure
}
