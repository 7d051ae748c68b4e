package emit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/limit"
)

// Config says who is told of what. Consumers is required.
type Config struct {
	// Consumers are who is told. Their names must differ.
	Consumers []Consumer
	// Priorities are the names of the priorities, the most important first; the first one is never
	// shed (REQ-E4). At most MaxPriorities. Default: compliance, normal, idle-ping.
	Priorities []string
	// DefaultPriority is that of triggers without one. Default: the second of Priorities, or the only one.
	DefaultPriority string
	// Source is that of triggers without one. Default: "breakwater".
	Source string
	// MaxBytes is the largest Data that is taken. Default: 1 MiB.
	MaxBytes int
	// DeadLetters keeps what cannot be delivered; it stays the caller's, who closes it after the Router. Consumers that share a store
	// share its bound: what one of them cannot take may push out less important letters of the others. Default: a Ring for each consumer.
	DeadLetters DeadLetters
	// NoLabels leaves out the profile labels, by which a goroutine profile tells what a call waits for
	// (REQ-E10): the label "consumer" is set while a Sink runs, in place of its caller's, which are those of its ctx
	// afterwards. Default: false.
	NoLabels bool
	// Observer is told what happens. Default: nobody is.
	Observer Observer
}

// A Consumer is who is told. Name and Sink are required.
type Consumer struct {
	// Name is the lane's, and the owner of its dead letters: with a durable store it must stay the same, or what is stored is never delivered.
	Name string
	// Types are the triggers that it gets, by Type. Default: all.
	Types []string
	// Sink delivers to it.
	Sink Sink
	// Timeout bounds one delivery: 1 ms or more. Default: 200 ms (REQ-E1).
	Timeout time.Duration
	// Bulkhead is how many deliveries may be under way at once; limit.MinBulkhead says what healthy traffic needs.
	// Default: 16.
	Bulkhead int
	// Slow is how long a delivery lasts that is slow: three times the P99 of a healthy consumer, or more; 100 µs or more, and below
	// Timeout. A probe has no longer. Default: 50 ms (REQ-E2), or half of Timeout if that is less.
	Slow time.Duration
	// Breaker replaces parts of the lane's breaker: Rules, Open, Probe and Ramp, each as a whole where it is not zero. Its
	// Observer is told besides Config.Observer. Probe.Reserved is always set; Name, Calls and Classify are the lane's.
	// Default: see docs/emit.md.
	Breaker breaker.Config
	// Degrade is asked before the dead letters (REQ-E11), by an Emit that did not deliver, for whatever Reason: nil says that it has
	// done something that will do, and the trigger counts as delivered; after an error it is stored. It has Timeout and must be quick; its
	// panic is an error. Letters and hand-overs are not asked about. Default: none.
	Degrade func(ctx context.Context, t Trigger, why Reason) error
	// Ordered keeps the order of triggers of one Key (REQ-E6): a trigger waits for the call of its key that is under way, and is
	// stored while an earlier one is. The dead letters are then replayed oldest first, whatever their priority. Default: false.
	Ordered bool
	// Replay says how dead letters come back.
	Replay Replay
	// DeadLetters are those of this consumer alone. Default: those of the Config.
	DeadLetters DeadLetters
}

// Replay says how the dead letters of a consumer come back. The zero value replays them once it is well.
type Replay struct {
	// Manual replays only by [Router.Replay]. Probes take letters all the same, and what was handed over is delivered. An Ordered lane
	// stores what comes of a key with a letter until then. Default: false.
	Manual bool
	// Share is what replay may take of the bulkhead and, beside live triggers, of the traffic, apart from what hand-overs and triggers
	// behind a letter of their key bring: above 0, at most 1. Default: 0.2.
	Share float64
	// MaxAttempts parks a letter after so many attempts. Default: 0, no limit. Five attempts in a row at which the process crashed or the
	// Sink panicked always park it (ReasonPoison).
	MaxAttempts int
}

func (c Config) withDefaults() Config {
	if len(c.Priorities) == 0 {
		c.Priorities = []string{"compliance", "normal", "idle-ping"}
	}
	c.Priorities = slices.Clone(c.Priorities)
	if c.DefaultPriority == "" {
		c.DefaultPriority = c.Priorities[min(1, len(c.Priorities)-1)]
	}
	if c.Source == "" {
		c.Source = "breakwater"
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 20
	}
	c.Consumers = slices.Clone(c.Consumers)
	for i := range c.Consumers {
		c.Consumers[i].setDefaults()
	}
	return c
}

func (c *Consumer) setDefaults() {
	if c.Timeout == 0 {
		c.Timeout = 200 * time.Millisecond
	}
	if c.Bulkhead == 0 {
		c.Bulkhead = 16
	}
	if c.Slow == 0 {
		c.Slow = min(50*time.Millisecond, c.Timeout/2)
	}
	if c.Replay.Share == 0 {
		c.Replay.Share = 0.2
	}
}

func (c Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("emit: "+format, args...)) }
	if len(c.Consumers) == 0 {
		fault("Config.Consumers is empty: name at least one")
	}
	if len(c.Priorities) > MaxPriorities {
		fault("Config.Priorities has %d names: at most %d", len(c.Priorities), MaxPriorities)
	}
	for i, p := range c.Priorities {
		if p == "" || slices.Contains(c.Priorities[:i], p) {
			fault("Config.Priorities[%d] is %q: give each a name of its own", i, p)
		}
	}
	if !slices.Contains(c.Priorities, c.DefaultPriority) {
		fault("Config.DefaultPriority is %q: give one of %q", c.DefaultPriority, c.Priorities)
	}
	if c.MaxBytes < 0 {
		fault("Config.MaxBytes is %d: give a number above 0", c.MaxBytes)
	}
	names := map[string]bool{}
	for i := range c.Consumers {
		k := &c.Consumers[i]
		if names[k.Name] {
			fault("Config.Consumers has two named %q: a name is a lane and the owner of its dead letters", k.Name)
		}
		names[k.Name] = true
		faults = append(faults, k.check(i)...)
	}
	return errors.Join(faults...)
}

func (c *Consumer) check(i int) (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("emit: consumer %q: "+format, append([]any{c.Name}, args...)...))
	}
	if c.Name == "" {
		fault("Consumers[%d].Name is empty", i)
	}
	if c.Sink == nil {
		fault("Sink is nil")
	}
	if slices.Contains(c.Types, "") {
		fault("Types has an empty one: give the types that it gets, or none for all")
	}
	if c.Timeout < time.Millisecond {
		fault("Timeout is %v: give 1ms or more", c.Timeout)
	}
	if c.Slow < 100*time.Microsecond {
		fault("Slow is %v: give 100µs or more", c.Slow)
	}
	if c.Slow >= c.Timeout && c.Timeout >= time.Millisecond {
		fault("Slow is %v and Timeout %v: give less than Timeout, or nothing has the time to be delivered", c.Slow, c.Timeout)
	}
	if !(c.Replay.Share > 0 && c.Replay.Share <= 1) {
		fault("Replay.Share is %v: give a share above 0, at most 1", c.Replay.Share)
	}
	if c.Replay.MaxAttempts < 0 {
		fault("Replay.MaxAttempts is %d: give 0 for no limit, or a number above it", c.Replay.MaxAttempts)
	}
	if c.Breaker.Name != "" || c.Breaker.Classify != nil || c.Breaker.Calls != (breaker.Calls{}) {
		fault("Breaker sets Name, Classify or Calls, which are the lane's")
	}
	if _, err := limit.NewBulkhead(c.bulkheadConfig()); err != nil {
		fault("Bulkhead: %w", err)
	} else if c.Timeout >= time.Millisecond {
		if _, err := breaker.New(c.breakerConfig()); err != nil {
			fault("%w", err)
		}
	}
	return faults
}

// Figures of the verdict on a recovery. Of 400 probes 396 must succeed in time. A consumer that is slow in 2 % of its calls has
// 8 slow ones on average, and more than 4 in 90 % of such recoveries (binomial); a healthy one, at 0.5 %, has 2, and more than 4 in 5 %.
// With 100 probes and one slow one allowed these were 60 % and 9 %. The recoveries that slip through meet the CUSUM, and Sticky.
const (
	probesOf   = 400
	probesRate = 0.99
)

// enoughCalls is how many calls a window must hold for the P99 to say anything; enoughFailures the same for the share of failures.
const (
	enoughCalls    = 100
	enoughFailures = 20
	fewestFailures = 5
)

func (c *Consumer) bulkheadConfig() limit.BulkheadConfig {
	return limit.BulkheadConfig{Limit: c.Bulkhead, MaxWaiting: -1}
}

// DefaultOpen is the open period of a lane whose Consumer.Breaker.Open is zero (REQ-B6): 100 ms that grow to 2 s, up to 20 ms of jitter, sticky
// for 10 s. It is short, since probes come from the dead letters and cost no caller. Take it to change a part of it.
func DefaultOpen() breaker.Backoff {
	return breaker.Backoff{Base: 100 * time.Millisecond, Max: 2 * time.Second, Jitter: 20 * time.Millisecond, Sticky: 10 * time.Second}
}

// breakerConfig is the configuration of the lane's breaker.
func (c *Consumer) breakerConfig() breaker.Config {
	b := c.Breaker
	b.Name, b.Calls = c.Name, breaker.Calls{MaxInFlight: c.Bulkhead, Timeout: c.Timeout}
	if len(b.Rules) == 0 {
		b.Rules = c.rules()
	}
	if b.Open == (breaker.Backoff{}) {
		b.Open = DefaultOpen()
	}
	if b.Probe == (breaker.Probe{}) {
		b.Probe = breaker.Probe{Concurrent: max(1, min(c.Bulkhead/4, 1024)), Of: probesOf, Rate: probesRate, Lease: 2*c.Slow + time.Second, Longest: 10 * time.Second}
	}
	b.Probe.Reserved = true
	if b.Ramp == (breaker.Ramp{}) {
		b.Ramp = breaker.Ramp{For: time.Second}
	}
	return b
}

// rules are CUSUM, which needs no minimum, and two windows, which are as long as calls that all hang take to fill them
// (breaker.Calls): 1 s where the bulkhead lets enough of them through.
func (c *Consumer) rules() []breaker.Rule {
	hanging := float64(c.Bulkhead) / c.Timeout.Seconds() // calls a second
	failures := min(enoughFailures, max(fewestFailures, int(hanging)))
	span := func(calls int) time.Duration {
		ms := math.Ceil(float64(calls) / hanging * 1000)
		return max(time.Second, time.Duration(ms)*time.Millisecond)
	}
	return []breaker.Rule{
		breaker.CUSUM{Threshold: c.Slow},
		breaker.Percentile{Threshold: c.Slow, Span: span(enoughCalls), MinCalls: enoughCalls},
		breaker.FailureRateByTime{Span: span(failures), MinCalls: failures},
	}
}

// An Observer is told what happens, on the goroutine of a caller or of a lane, of several at a time, with no lock held: a slow function
// delays that goroutine. A Letter's Data and Attributes may be read until the function returns. A panic in one is caught. A
// nil function is not called. They may call the Router, but OnTransition and OnFault must not wait for an emit to an Ordered consumer under a Key: the
// trigger of which they are told may have that key's turn. Those that are called on a lane's goroutine must not wait for a Replay.
type Observer struct {
	// OnTransition is called for each change of a lane's breaker; Name is the consumer's.
	OnTransition func(breaker.Transition)
	// OnStored is called for each trigger that was stored; OnShed for each that was not, or not any more: a new one with the
	// store's error, and an evicted letter, of whatever consumer, with ErrFull.
	OnStored func(Letter)
	OnShed   func(l Letter, why error)
	// OnReplayed is called for each letter that was delivered; OnParked for each that was parked.
	OnReplayed func(Letter)
	OnParked   func(Letter)
	// OnFault is called where a store failed, a Sink or an Observer panicked.
	OnFault func(consumer string, err error)
}
