package breaker

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a call would be refused with is told without a call, also in half-open: why it opened.
func TestRefusalWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, lagConfig())
		if got := b.Refusal(); got != nil {
			t.Errorf("closed: got %v, want none", got)
		}
		for range 3 {
			b.Observe("lag", 1)
		}
		wantRefusal := func(state State, rule string) {
			t.Helper()
			if got := b.Refusal(); got == nil || got.State != state || got.Reason.Rule != rule {
				t.Errorf("got %v, want %v by %s", got, state, rule)
			}
		}
		wantRefusal(Open, "lag")
		after(b.Stats().RetryAfter)
		wantRefusal(HalfOpen, "lag")
		p, err := b.AllowProbe()
		if err != nil {
			t.Fatal(err)
		}
		p.DoneAs(Failure, errDown)
		wantRefusal(Open, RuleProbeFailure)
		if err := b.Force(ForcedOpen, "drill"); err != nil {
			t.Fatal(err)
		}
		wantRefusal(ForcedOpen, RuleForced)
		for _, s := range []State{ForcedClosed, Disabled, Closed} {
			if err := b.Force(s, "drill"); err != nil {
				t.Fatal(err)
			}
			if got := b.Refusal(); got != nil {
				t.Errorf("%v: got %v, want none", s, got)
			}
		}
		if got := b.Stats().Rejected; got != 0 {
			t.Errorf("refusals counted: got %d, want 0", got)
		}
		after(time.Hour)
	})
}

// REQ-B9, REQ-B18: an error is judged as a call's would be, and counts nowhere.
func TestClassifyWithoutACall(t *testing.T) {
	var faults int
	c := behaviourConfig()
	c.Observer.OnFault = func(Fault) { faults++ }
	c.Classify = func(err error) Outcome {
		if err == errDown { //nolint:errorlint // its own
			panic("classifier")
		}
		return classifyTest(err)
	}
	b := mustNew(t, c)
	for want, err := range map[Outcome]error{Success: nil, Ignored: errNeutral, Failure: errDown} {
		if got := b.Classify(err); got != want {
			t.Errorf("%v: got %v, want %v", err, got, want)
		}
	}
	if s := b.Stats(); s.Successes+s.Failures+s.Ignored != 0 || faults != 1 {
		t.Errorf("got %+v and %d faults, want nothing counted and 1", s, faults)
	}
}
