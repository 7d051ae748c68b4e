package breaker

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) { // REQ-B2, B5, B6
	c := Config{}.withDefaults()
	if got, want := fmt.Sprint(c.Rules), "[{5}]"; got != want {
		t.Errorf("rules: got %v, want %v", got, want)
	}
	if want := (Backoff{time.Second, 30 * time.Second, 500 * time.Millisecond, 0}); c.Open != want {
		t.Errorf("open: got %+v, want %+v", c.Open, want)
	}
	if want := (Probe{Concurrent: 1, Successes: 1, Lease: 30 * time.Second, Longest: 30 * time.Second}); c.Probe != want {
		t.Errorf("probe: got %+v, want %+v", c.Probe, want)
	}
	for _, tc := range []struct {
		got  Rule
		want Rule
	}{
		{FailureRateByCount{}.withDefaults(), FailureRateByCount{100, 0.5, 20}},
		{FailureRateByCount{Calls: 10}.withDefaults(), FailureRateByCount{10, 0.5, 10}},
		{FailureRateByTime{}.withDefaults(), FailureRateByTime{10 * time.Second, 0.5, 20}},
		{SlowCallRate{}.withDefaults(), SlowCallRate{50 * time.Millisecond, 10 * time.Second, 0.5, 20}},
		{Percentile{}.withDefaults(), Percentile{0.99, 50 * time.Millisecond, time.Second, 3, 100}},
		{CUSUM{}.withDefaults(), CUSUM{50 * time.Millisecond, 0.005, 0.02, 14}},
		{DryRun{Rule: CUSUM{}}.withDefaults(), DryRun{CUSUM{50 * time.Millisecond, 0.005, 0.02, 14}}},
		{lagRule().withDefaults(), lagRule()},
	} {
		if tc.got != tc.want {
			t.Errorf("got %+v, want %+v", tc.got, tc.want)
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := New(Config{
		Rules: []Rule{
			nil,
			ConsecutiveFailures{Count: -1},
			FailureRateByCount{Calls: -5},
			FailureRateByCount{Calls: 10, MinCalls: 11, Rate: 1},
			FailureRateByTime{Span: time.Millisecond, Rate: math.NaN(), MinCalls: -1},
			Signal{Breaches: -1},
			Signal{Name: "lag", Trip: 0.5, Reenter: 0.6},
			lagRule(),
			DryRun{Rule: lagRule()},
		},
		Open:  Backoff{Base: time.Minute, Max: time.Second, Sticky: -1},
		Probe: Probe{Rate: 0.9, Concurrent: 2000, Successes: -1, Lease: -1, Longest: -1},
	})
	wantErrors(t, err,
		"Open.Max is 1s: set it to at least Open.Base, 1m0s",
		"Open.Sticky is -1ns",
		"Probe.Concurrent is 2000", "Probe.Rate is 0.9: say of how many probes", "Probe.Successes is -1", "Probe.Lease is -1ns", "Probe.Longest is -1ns",
		"Rules[0] is nil",
		"Rules[1].Count is -1",
		"Rules[2].Calls is -5",
		"Rules[3].Rate is 1: no rate is above 1",
		"Rules[3].MinCalls is 11: a window of 10 calls never holds so many",
		"Rules[4].Rate is NaN", "Rules[4].MinCalls is -1", "Rules[4].Span is 1ms",
		`Rules[5].Name is ""`, "Rules[5].Trip is 0", "Rules[5].Breaches is -1",
		"Rules[6].Reenter is 0.6: use a value above 0 and at most Trip, 0.5",
		`Rules[7].Name is "lag": Rules[6] has it already`,
		`Rules[8].Rule.Name is "lag": Rules[7] has it already`,
	)
}

// A duration whose sum with another would overflow is refused: "for ever" is a Force.
func TestNewRefusesHugeDurations(t *testing.T) {
	const huge = time.Duration(math.MaxInt64)
	_, err := New(Config{Open: Backoff{huge, huge, huge, huge}, Probe: Probe{Lease: huge, Longest: huge}})
	wantErrors(t, err, "Open.Base is", "Open.Jitter is", "Open.Max is", "Open.Sticky is", "Probe.Lease is", "Probe.Longest is")
}

// The caller's slice stays the caller's.
func TestNewCopiesTheRules(t *testing.T) {
	rules := []Rule{ConsecutiveFailures{}}
	mustNew(t, Config{Rules: rules})
	if got := rules[0]; got != (ConsecutiveFailures{}) {
		t.Errorf("the caller's rule became %+v", got)
	}
}

func TestWords(t *testing.T) {
	for s, want := range map[State]string{
		Closed: "closed", Open: "open", HalfOpen: "half_open",
		ForcedOpen: "forced_open", ForcedClosed: "forced_closed", Disabled: "disabled", 9: "state(9)",
	} {
		if got, _ := s.MarshalText(); string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for o, want := range map[Outcome]string{
		Success: "success", Failure: "failure", Ignored: "ignored", Fatal: "fatal", 9: "outcome(9)",
	} {
		if got := o.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

type panickyError struct{}

func (panickyError) Error() string { panic("no text") }

// REQ-B18: a text is not worth a caller's call.
func TestErrorTextsAreShortAndNeverPanic(t *testing.T) {
	long := strings.Repeat("é ", 200)
	for _, tc := range []struct {
		err  error
		want int
	}{{nil, 0}, {errors.New(long), 258}, {panickyError{}, len("breaker.panickyError, whose Error panics")}} {
		if got := errorText(tc.err); len(got) != tc.want {
			t.Errorf("got %d bytes, want %d: %q", len(got), tc.want, got)
		}
	}
	b := mustNew(t, Config{})
	runN(t, b, 5, panickyError{})
	wantState(t, b, Open)
}
