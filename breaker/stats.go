package breaker

import (
	"math"
	"time"
)

// Stats is a snapshot of a breaker: plain values of one moment, but for the
// counters that calls raise without a lock, which may be a little ahead.
// Counters run from New and only grow.
//
// Why it opened last is in Reason only while it is open. In half-open, and while traffic ramps
// up, each refusal still tells it (OpenError.Reason); to keep it for longer use Observer.OnTransition.
type Stats struct {
	Name       string
	State      State
	Generation uint64    // one more with each change of state
	Since      time.Time // of the state
	Reason     Reason    // of the newest transition: why it opened while Open, then "open_period_over" and "recovered"

	OpenPeriod time.Duration // the newest, before jitter; 0 if there was none, or after Force
	RetryAfter time.Duration // left of the open period, jitter included; 0 in every state but Open

	ProbesInFlight int // reservations whose lease is not over, those of an earlier half-open too
	ProbeSuccesses int // in this half-open
	ProbesOf       int // how many probes a verdict takes: Probe.Of, or Probe.Successes

	ConsecutiveFailures uint64 // since the last success, or since the breaker closed
	ConsecutiveLimit    int    // the lowest Count of a ConsecutiveFailures rule; 0: no such rule

	Breaches    int // observations in a row above Trip, of the Signal that is nearest to its Breaches
	BreachLimit int // those Breaches; 0: no Signal can open it

	Successes uint64 // results that counted
	Failures  uint64 // results that counted, Fatal ones too
	Ignored   uint64 // results that say nothing
	Late      uint64 // results dropped: of an older generation, or of a probe that lost its lease
	Rejected  uint64 // refusals
	Openings  uint64
	WouldOpen uint64 // what DryRun rules reported
	Faults    uint64 // see Fault

	// Refusing is how long it has been Open, HalfOpen or ForcedOpen, in all.
	Refusing time.Duration
	// Flapping says that it has opened again three times in the last five minutes after it had closed (REQ-O9). The first
	// opening is none of them, nor is a failed recovery: a target that stays down does not flap.
	Flapping bool

	RampShare float64 // of the calls that Closed admits: below 1 while traffic ramps up
	Latency   Latency // of the calls, probes too; measured with a latency rule or Config.Histogram
}

// Stats returns what the breaker counted. It takes the breaker's lock for a
// moment; calls of a closed breaker do not wait for it.
func (b *Breaker) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tallyLocked()
	word := b.loadWord()
	s := Stats{
		Name: b.name, State: stateOf(word), Generation: generationOf(word),
		Since: b.mu.since, Reason: b.mu.reason, OpenPeriod: b.mu.period,
		ProbesInFlight: b.probesInFlight(t.now), ProbesOf: probesOf(&b.settings.Load().Probe),
		ConsecutiveFailures: t.streak, ConsecutiveLimit: b.settings.Load().consecutiveLimit,
		Successes: t.successes, Failures: t.failures,
		Ignored: b.ignored.Load(), Late: b.late.Load(), Rejected: b.rejected.Load(),
		Openings: b.mu.openings, WouldOpen: b.mu.wouldOpen, Faults: b.faults.Load(),
		Refusing: b.mu.refusing, Flapping: b.mu.relapses.flapping(b.clock.since()),
		RampShare: 1, Latency: b.latencyLocked(t.now),
	}
	s.Breaches, s.BreachLimit = b.breachesLocked()
	if b.ramp.on {
		s.RampShare = b.ramp.share(t.now, &b.settings.Load().Ramp)
	}
	if refuses(s.State) {
		s.Refusing += max(0, b.clock.since()-b.mu.enteredAt)
	}
	if t.successes != b.mu.streakMark {
		s.ConsecutiveFailures = 0
	}
	switch s.State {
	case Open:
		s.RetryAfter = b.refusal.Load().RetryAfter()
	case HalfOpen:
		s.ProbeSuccesses = b.mu.probeSuccesses
	default:
	}
	return s
}

func probesOf(p *Probe) int {
	if p.Of > 0 {
		return p.Of
	}
	return p.Successes
}

// breachesLocked are those of the Signal that lacks the fewest.
func (b *Breaker) breachesLocked() (breaches, limit int) {
	for _, in := range b.mu.detectors {
		d, ok := in.detector.(*signalDetector)
		if !ok || in.dry || math.IsInf(d.rule.Trip, 1) {
			continue
		}
		if limit == 0 || d.rule.Breaches-d.breaches < limit-breaches {
			breaches, limit = d.breaches, d.rule.Breaches
		}
	}
	return breaches, limit
}

func (b *Breaker) probesInFlight(now time.Duration) (n int) {
	for _, sl := range b.settings.Load().slots {
		if p := sl.Load(); p != nil && !p.expired(now) {
			n++
		}
	}
	return n
}

func consecutiveLimit(rules []Rule) (limit int) {
	for _, r := range rules {
		if c, ok := r.(ConsecutiveFailures); ok && (limit == 0 || c.Count < limit) {
			limit = c.Count
		}
	}
	return limit
}

// refuses tells whether a state keeps traffic out; HalfOpen admits probes only.
func refuses(s State) bool { return s == Open || s == HalfOpen || s == ForcedOpen }

// Three relapses within this span are flapping (REQ-O9).
const flapSpan = 5 * time.Minute

// relapses are the newest openings that followed a close, since the clock's base, newest last; 0: none.
type relapses [3]time.Duration

func (r *relapses) add(now time.Duration) { *r = relapses{r[1], r[2], max(now, 1)} }

func (r *relapses) flapping(now time.Duration) bool { return r[0] > 0 && now-r[0] <= flapSpan }
