package breaker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The rules named by [Reason.Rule], besides the names of Signal rules and of
// what callers hand to [Breaker.Trip]. Each is one word, fit for a metric's label.
const (
	RuleConsecutiveFailures = "consecutive_failures" // a ConsecutiveFailures rule
	RuleFailureRateByCount  = "failure_rate_count"   // a FailureRateByCount rule
	RuleFailureRateByTime   = "failure_rate_time"    // a FailureRateByTime rule
	RuleSlowCallRate        = "slow_call_rate"       // a SlowCallRate rule
	RulePercentile          = "percentile"           // a Percentile rule
	RuleCUSUM               = "cusum"                // a CUSUM rule
	RuleRampFailures        = "ramp_failures"        // too many failures while traffic ramped up
	RuleFatal               = "fatal"                // an outcome Fatal
	RuleProbeFailure        = "probe_failure"        // a probe failed, or too many of Probe.Of
	RuleProbeSlow           = "probe_slow"           // the same, and the last one was slow
	RuleHalfOpenExpired     = "half_open_expired"    // Probe.Longest passed
	RuleOpenPeriodOver      = "open_period_over"     // the timer of the open period fired
	RuleRecovered           = "recovered"            // enough probes succeeded
	RuleForced              = "forced"               // Force
	RuleRetryAfter          = "retry_after"          // TripFor, asked for by the target: an adapter's
	RuleExternal            = "external"             // Trip without a rule's name
)

// A Reason says why a breaker changed its state: which rule, what it measured
// and against which threshold. The zero value means that nothing happened yet.
type Reason struct {
	// Rule is one of the Rule constants, the name of a Signal, or what was handed to Trip.
	Rule string
	// Value and Threshold are in Unit; both are 0 where nothing was measured.
	Value, Threshold float64
	// Unit of Value and Threshold, "s" for one. It may be empty.
	Unit string
	// Detail is text for people: "3 in a row", the last error. At most 256
	// bytes of an error are kept. It holds what the error said, secrets too.
	Detail string
}

// String reads like "lag 0.83 s > 0.5 s (3 in a row)".
func (r Reason) String() string {
	var s strings.Builder
	s.WriteString(r.Rule)
	if r.Value != 0 || r.Threshold != 0 {
		s.WriteString(" " + r.amount(r.Value) + " " + r.relation() + " " + r.amount(r.Threshold))
	}
	if r.Detail != "" {
		s.WriteString(" (" + r.Detail + ")")
	}
	return strings.TrimSpace(s.String())
}

func (r Reason) amount(v float64) string {
	s := strconv.FormatFloat(v, 'g', 4, 64)
	if r.Unit != "" {
		s += " " + r.Unit
	}
	return s
}

func (r Reason) relation() string {
	switch {
	case r.Value > r.Threshold:
		return ">"
	case r.Value == r.Threshold:
		return "≥"
	default:
		return "of"
	}
}

// ErrOpen matches every refusal of a breaker: errors.Is(err, breaker.ErrOpen).
var ErrOpen = errors.New("breaker: open")

// An OpenError is the refusal of a breaker. It is made once per change of
// state and shared by all callers that are refused in it: do not change it.
// Read it with errors.AsType[*breaker.OpenError].
type OpenError struct {
	Name   string // Config.Name
	State  State  // Open, HalfOpen (all probes are given out), ForcedOpen, or Closed (left out by the Ramp)
	Reason Reason // why it opened

	clock   clock
	jitter  time.Duration // of this opening
	retryAt time.Duration // since the clock's base; 0: unknown
	longest time.Duration // the open period with its jitter: RetryAfter is never more
}

// Error names the breaker, its state and the reason.
func (e *OpenError) Error() string {
	doing := e.State.String()
	if e.State == Closed {
		doing = "taking its traffic back by degrees after it opened"
	}
	return fmt.Sprintf("breaker: %s is %s: %s", strconv.Quote(e.Name), doing, e.Reason)
}

// Is reports whether target is [ErrOpen].
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// RetryAfter is the time left of the open period, computed when asked (the
// refusal itself reads no clock). It is 0 when the period is over, and where no
// time is known: half-open, where the verdict may come at any moment, and
// forced open, which lasts until an operator ends it.
func (e *OpenError) RetryAfter() time.Duration {
	if e.retryAt == 0 {
		return 0
	}
	return min(max(0, e.retryAt-e.clock.since()), e.longest)
}

const textLimit = 256

// errorText is err's text, shortened; a panic of its Error method is swallowed,
// because a text is not worth a caller's call (REQ-B18).
func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("%T, whose Error panics", err)
		}
	}()
	return shorten(err.Error())
}

func shorten(s string) string {
	if len(s) <= textLimit {
		return s
	}
	end := textLimit
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
