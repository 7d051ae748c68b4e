package breaker

import (
	"testing"
	"time"
)

// FuzzOperations runs an explicit sequence of operations, a byte each, on a
// clock that is moved by hand, and checks what must hold after every one: at
// most Concurrent probes, each admitted call counted once, legal transitions,
// and no state in which calls are refused for ever (REQ-B5, B8, B18).
func FuzzOperations(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 1, 1, 1, 6, 0, 6, 0, 2, 0})
	f.Add([]byte{1, 1, 1, 1, 1, 7, 3, 7, 7, 7, 3, 4, 4, 4})
	f.Add([]byte{5, 5, 5, 6, 13, 6, 13, 6, 0, 13, 21, 29, 8, 9, 10, 11})
	f.Fuzz(func(t *testing.T, ops []byte) {
		if len(ops) > 2000 {
			return
		}
		newFuzzRun(t).all(ops)
	})
}

type fuzzRun struct {
	t        *testing.T
	b        *Breaker
	clk      *fakeClock
	permits  []Permit
	admitted uint64
	last     Transition
}

func newFuzzRun(t *testing.T) *fuzzRun {
	t.Helper()
	r := &fuzzRun{t: t, clk: &fakeClock{}}
	b, err := newBreaker(Config{
		Rules: []Rule{
			ConsecutiveFailures{},
			FailureRateByCount{Calls: 10},
			FailureRateByTime{MinCalls: 8},
			Signal{Name: "lag", Trip: 10, Reenter: 5, Breaches: 2},
		},
		Open:     Backoff{Base: time.Second, Max: 8 * time.Second, Jitter: -1, Sticky: 3 * time.Second},
		Probe:    Probe{Concurrent: 2, Successes: 2, Lease: 5 * time.Second},
		Observer: Observer{OnTransition: r.transition},
	}, r.clk)
	if err != nil {
		t.Fatal(err)
	}
	r.b = b
	return r
}

func (r *fuzzRun) transition(tr Transition) {
	forced := tr.Reason.Rule == RuleForced
	if tr.From != r.last.To || !forced && !legal(tr.From, tr.To) {
		r.t.Errorf("after %v>%v came %v>%v", r.last.From, r.last.To, tr.From, tr.To)
	}
	r.last = tr
}

func (r *fuzzRun) all(ops []byte) {
	for _, op := range ops {
		r.step(op)
		r.check()
	}
	for i := range r.permits {
		r.permits[i].Done(nil)
	}
	s := r.b.Stats()
	if got := s.Successes + s.Failures + s.Ignored + s.Late; got != r.admitted {
		r.t.Errorf("results: got %d, want one for each of %d admitted calls", got, r.admitted)
	}
	r.recovers()
}

// step takes the operation from the low bits and its argument from the high.
func (r *fuzzRun) step(op byte) {
	arg := int(op >> 3)
	switch op & 7 {
	case 0:
		r.end(Success, arg)
	case 1:
		r.end(Failure, arg)
	case 2:
		r.end([]Outcome{Ignored, Fatal}[arg&1], arg>>1)
	case 3:
		if p, err := r.b.Allow(); err == nil {
			r.admitted++
			r.permits = append(r.permits, p)
		}
	case 4:
		r.b.Observe("lag", float64(arg))
	case 5:
		r.b.Trip(Reason{})
	case 6:
		r.clk.advance(time.Duration(1<<arg) * time.Microsecond)
	case 7:
		if arg < 4 {
			_ = r.b.Force([]State{ForcedClosed, Closed, ForcedOpen, Closed}[arg], "")
		} else {
			r.reconfigure(arg)
		}
	}
}

// end runs a call, or for an odd argument ends one that is under way.
func (r *fuzzRun) end(o Outcome, arg int) {
	if arg&1 == 1 && len(r.permits) > 0 {
		i := arg % len(r.permits)
		r.permits[i].DoneAs(o, nil)
		r.permits[i] = r.permits[len(r.permits)-1]
		r.permits = r.permits[:len(r.permits)-1]
		return
	}
	if p, err := r.b.Allow(); err == nil {
		r.admitted++
		p.DoneAs(o, nil)
		p.DoneAs(o, nil) // counts once
	}
}

func (r *fuzzRun) reconfigure(arg int) {
	s := r.b.settings.Load()
	c := Config{Open: s.Open, Probe: s.Probe, Ramp: s.Ramp}
	c.Open.Jitter = -1
	c.Rules = []Rule{
		FailureRateByCount{Calls: 5 + arg},
		ConsecutiveFailures{Count: arg},
		FailureRateByTime{Span: time.Duration(arg) * time.Second, MinCalls: 8},
		Signal{Name: "lag", Trip: float64(arg), Reenter: 3, Breaches: 2},
	}
	if err := r.b.Reconfigure(c); err != nil {
		r.t.Error(err)
	}
}

func (r *fuzzRun) check() {
	s := r.b.Stats()
	if s.ProbesInFlight > 2 {
		r.t.Errorf("probes at once: got %d, want at most 2", s.ProbesInFlight)
	}
	if s.State == Open && (s.RetryAfter <= 0 || s.RetryAfter > 8*time.Second) {
		r.t.Errorf("open for %v more, want above 0 and at most Max", s.RetryAfter)
	}
	if s.Faults != 0 {
		r.t.Errorf("faults: got %d, want 0", s.Faults)
	}
}

// recovers shows that the breaker never sticks: whatever came before, a
// healthy target closes it.
func (r *fuzzRun) recovers() {
	if r.b.State() == ForcedOpen || r.b.State() == ForcedClosed {
		return
	}
	for range 100 {
		if r.b.State() == Closed {
			return
		}
		r.clk.advance(time.Second)
		r.b.Observe("lag", 1)
		run(r.b, nil)
	}
	r.t.Errorf("a healthy target did not close the breaker: %+v", r.b.Stats())
}
