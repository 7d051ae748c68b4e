package breakermodel

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-go/breakwater/breaker"
)

// The breaker and the reference agree after every operation (REQ-B1, B2, B4 to
// B8, B16).
func TestBreakerAgreesWithTheReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			p := newPair(t)
			t.Repeat(map[string]func(*rapid.T){
				"":            p.compare,
				"allow":       func(*rapid.T) { p.allow(t, false) },
				"allow probe": func(*rapid.T) { p.allow(t, true) },
				"done":        p.done,
				"run":         p.run,
				"advance":     p.advance,
				"observe":     p.observe,
				"trip":        func(*rapid.T) { p.b.Trip(breaker.Reason{}); p.m.trip() },
				"force":       p.force,
				"reconfigure": p.reconfigure,
			})
		})
	})
}

// A pair is a breaker and its reference, with the calls under way in both.
type pair struct {
	b     *breaker.Breaker
	m     *reference
	calls []call
}

type call struct {
	p *breaker.Permit
	m *permit
}

func newPair(t *rapid.T) *pair {
	c := drawConfig(t)
	b, err := breaker.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &pair{b: b, m: &reference{cfg: c, slots: make([]*permit, c.Probe.Concurrent)}}
}

func drawConfig(t *rapid.T) breaker.Config {
	c := breaker.Config{
		Open: breaker.Backoff{
			Base:   time.Second,
			Max:    5 * time.Second,
			Jitter: -1,
			Sticky: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "sticky"),
		},
		Probe: drawProbe(t),
	}
	rules := []breaker.Rule{
		breaker.ConsecutiveFailures{Count: rapid.IntRange(1, 6).Draw(t, "count")},
		breaker.FailureRateByCount{
			Calls: 8, Rate: rapid.SampledFrom([]float64{0.25, 0.5, 0.74}).Draw(t, "rate by count"),
			MinCalls: rapid.IntRange(1, 8).Draw(t, "min calls by count"),
		},
		breaker.FailureRateByTime{
			Span: 10 * time.Second, Rate: rapid.SampledFrom([]float64{0.25, 0.5, 0.74}).Draw(t, "rate by time"),
			MinCalls: rapid.IntRange(1, 8).Draw(t, "min calls by time"),
		},
		breaker.Signal{Name: "lag", Trip: 0.5, Reenter: 0.2, Breaches: rapid.IntRange(1, 3).Draw(t, "breaches")},
	}
	for i, r := range rules {
		if rapid.Bool().Draw(t, fmt.Sprintf("with rule %d", i)) {
			c.Rules = append(c.Rules, r)
		}
	}
	if len(c.Rules) == 0 {
		c.Rules = rules[:1]
	}
	return c
}

func drawProbe(t *rapid.T) breaker.Probe {
	return breaker.Probe{
		Concurrent: rapid.IntRange(1, 3).Draw(t, "concurrent"),
		Successes:  rapid.IntRange(1, 3).Draw(t, "successes"),
		Lease:      rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(t, "lease"),
		Longest:    7 * time.Second,
		Reserved:   rapid.Bool().Draw(t, "reserved"),
	}
}

func (p *pair) allow(t *rapid.T, owner bool) {
	ask := p.b.Allow
	if owner {
		ask = p.b.AllowProbe
	}
	got, err := ask()
	want := p.m.allow(owner)
	if (err == nil) != (want != nil) {
		t.Fatalf("admitted: got %v, want %v", err == nil, want != nil)
	}
	if err != nil {
		if !errors.Is(err, breaker.ErrOpen) {
			t.Fatalf("got %v, want ErrOpen", err)
		}
		return
	}
	p.calls = append(p.calls, call{&got, want})
}

// done ends a call that is under way, or one that ended already.
func (p *pair) done(t *rapid.T) {
	if len(p.calls) == 0 {
		t.Skip("no call")
	}
	p.end(t, rapid.SampledFrom(p.calls).Draw(t, "call"))
}

// run makes a call that ends at once.
func (p *pair) run(t *rapid.T) {
	before := len(p.calls)
	p.allow(t, false)
	if len(p.calls) > before {
		p.end(t, p.calls[before])
	}
}

func (p *pair) end(t *rapid.T, c call) {
	o := rapid.SampledFrom([]breaker.Outcome{
		breaker.Success, breaker.Success, breaker.Failure, breaker.Failure, breaker.Failure, breaker.Ignored, breaker.Fatal,
	}).Draw(t, "outcome")
	if o == breaker.Fatal && rapid.IntRange(0, 3).Draw(t, "not fatal") > 0 {
		o = breaker.Failure
	}
	p.leaveBusyStep()
	if o == breaker.Success {
		c.p.Done(nil) // has a path of its own
	} else {
		c.p.DoneAs(o, nil)
	}
	p.m.done(c.m, o)
}

// leaveBusyStep keeps a step of the time window under the rate at which the
// breaker begins to sample its successes: the reference is exact.
func (p *pair) leaveBusyStep() {
	n := 0
	for _, x := range p.m.results {
		if x.at/time.Second == p.m.now/time.Second {
			n++
		}
	}
	if n >= 15 {
		p.pass(time.Second)
	}
}

func (p *pair) advance(t *rapid.T) {
	p.pass(rapid.SampledFrom([]time.Duration{
		time.Nanosecond, 300 * time.Millisecond, time.Second - time.Nanosecond, time.Second,
		2 * time.Second, 2500 * time.Millisecond, 11 * time.Second, 40 * time.Second,
	}).Draw(t, "time"))
}

func (p *pair) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	p.m.advance(d)
}

func (p *pair) observe(t *rapid.T) {
	v := rapid.SampledFrom([]float64{0.1, 0.2, 0.3, 0.5, 0.6}).Draw(t, "lag")
	p.b.Observe("lag", v)
	p.m.observe(v)
}

func (p *pair) force(t *rapid.T) {
	s := rapid.SampledFrom([]breaker.State{
		breaker.Closed, breaker.Closed, breaker.ForcedOpen, breaker.ForcedClosed, breaker.Disabled,
	}).Draw(t, "state")
	if err := p.b.Force(s, ""); err != nil {
		t.Fatal(err)
	}
	p.m.force(s)
}

// reconfigure changes thresholds; what the rules measured stays.
func (p *pair) reconfigure(t *rapid.T) {
	c := p.m.cfg
	c.Probe.Successes = rapid.IntRange(1, 3).Draw(t, "successes")
	rules := append([]breaker.Rule(nil), c.Rules...)
	for i, r := range rules {
		switch r := r.(type) {
		case breaker.ConsecutiveFailures:
			r.Count = rapid.IntRange(1, 6).Draw(t, "count")
			rules[i] = r
		case breaker.FailureRateByTime:
			r.MinCalls = rapid.IntRange(1, 8).Draw(t, "min calls by time")
			rules[i] = r
		case breaker.Signal:
			r.Breaches = rapid.IntRange(1, 3).Draw(t, "breaches")
			rules[i] = r
		}
	}
	c.Rules = rules
	if err := p.b.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
	p.m.cfg = c
}

func (p *pair) compare(t *rapid.T) {
	s, m := p.b.Stats(), p.m
	type view struct {
		State                                                  breaker.State
		Generation                                             uint64
		Rule                                                   string
		Period, RetryAfter                                     time.Duration
		InFlight, ProbeOK                                      int
		Streak                                                 uint64
		Successes, Failures, Ignored, Late, Rejected, Openings uint64
	}
	got := view{
		s.State, s.Generation, s.Reason.Rule, s.OpenPeriod, s.RetryAfter, s.ProbesInFlight, s.ProbeSuccesses,
		s.ConsecutiveFailures, s.Successes, s.Failures, s.Ignored, s.Late, s.Rejected, s.Openings,
	}
	want := view{
		m.state, m.generation, m.rule, m.period, m.retryAfter(), m.probesInFlight(), m.probeOK,
		m.streak, m.successes, m.failures, m.ignored, m.late, m.rejected, m.openings,
	}
	if m.state != breaker.HalfOpen {
		want.ProbeOK = 0
	}
	if got != want {
		t.Fatalf("\n got %+v\nwant %+v", got, want)
	}
}
