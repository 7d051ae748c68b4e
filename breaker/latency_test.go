package breaker

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

func slowConfig(rules ...Rule) Config {
	return Config{Name: "b", Rules: rules, Open: Backoff{Base: time.Second, Jitter: -1}, Classify: classifyTest}
}

// startN begins n calls, all of which must be admitted.
func startN(t *testing.T, b *Breaker, n int) (ps []*Permit) {
	t.Helper()
	for range n {
		ps = append(ps, start(t, b))
	}
	return ps
}

func doneAll(ps []*Permit, err error) {
	for _, p := range ps {
		p.Done(err)
	}
}

// behaviours-breaker 28; REQ-B2: slow successes open.
func TestSlowSuccessesOpen(t *testing.T) {
	rule := SlowCallRate{Threshold: 2 * time.Second, MinCalls: 10}
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(rule))
		ps := startN(t, b, 10)
		after(3 * time.Second)
		doneAll(ps, nil)
		wantState(t, b, Open)
		r := b.Stats().Reason
		if r.Rule != RuleSlowCallRate || r.Value != 1 || r.Threshold != 0.5 || r.Detail != "10 of 10 calls lasted for 2s or more" {
			t.Errorf("reason: got %+v", r)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(rule))
		slow, fast := startN(t, b, 4), startN(t, b, 6)
		after(time.Second)
		doneAll(fast, nil)
		after(2 * time.Second)
		doneAll(slow, nil)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// behaviours-breaker 29: calls that hang count before they return, and once.
func TestHungCallsOpenBeforeTheyReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(SlowCallRate{Threshold: 2 * time.Second, MinCalls: 10}))
		after(777 * ms) // in no relation to a tick
		hung := startN(t, b, 20)
		after(2*time.Second - 1)
		other := start(t, b)
		other.DoneAs(Ignored, nil)
		after(1)
		if run(b, nil) {
			t.Fatal("a call was admitted after 20 calls have lasted for the threshold")
		}
		wantState(t, b, Open)
		if got := b.Stats().Reason.Detail; got != "20 of 20 calls lasted for 2s or more" {
			t.Errorf("detail: got %q", got)
		}
		after(time.Second)
		runN(t, b, 1, nil) // the probe
		wantState(t, b, Closed)
		doneAll(hung, nil) // late: nothing is counted twice
		fresh := startN(t, b, 9)
		after(3 * time.Second)
		doneAll(fresh, nil)
		wantState(t, b, Closed)
		if got := b.Stats().Late; got != 20 {
			t.Errorf("late: got %d, want 20", got)
		}
	})
}

// The same without an opening: a slow call that ends late is not counted again.
func TestSlowCallCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(SlowCallRate{Threshold: time.Second, MinCalls: 20}))
		ps := startN(t, b, 10)
		after(2 * time.Second)
		runN(t, b, 1, nil) // judges: 10 of 10 are slow
		after(time.Second)
		doneAll(ps, nil)
		runN(t, b, 8, nil)
		after(2 * time.Second)
		runN(t, b, 1, nil)
		wantState(t, b, Closed) // 10 of 19
		after(2 * time.Second)
		runN(t, b, 1, nil) // judges the twentieth: 10 of 20 is not over 0.5
		wantState(t, b, Closed)
	})
}

// A consumer at 500 calls/s whose calls begin to hang: open in under 100 ms, before the
// first returns.
func TestHungConsumerOpensWithin100ms(t *testing.T) {
	for offset := time.Duration(0); offset < 8*ms; offset += 700 * time.Microsecond {
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, slowConfig(CUSUM{}))
			after(offset)
			for range 2000 { // healthy for 4 s, 1 ms a call
				p := start(t, b)
				after(ms)
				p.Done(nil)
				after(ms)
			}
			began := time.Now()
			for {
				if _, err := b.Allow(); err != nil {
					break
				}
				after(2 * ms)
				if time.Since(began) > time.Second {
					t.Fatal("still closed after 1 s")
				}
			}
			if took := time.Since(began); took >= 100*ms {
				t.Errorf("open after %v, want under 100ms", took)
			}
			if r := b.Stats().Reason; r.Rule != RuleCUSUM || r.Value < 14 || r.Threshold != 14 {
				t.Errorf("reason: got %v", r)
			}
		})
	}
}

// The bound between slow and not: a call that lasted for the threshold is slow.
func TestThresholdIsSlow(t *testing.T) {
	for d, want := range map[time.Duration]State{50*ms - 1: Closed, 50 * ms: Open} {
		synctest.Test(t, func(t *testing.T) {
			b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 1}))
			after(123 * time.Microsecond)
			p := start(t, b)
			after(d)
			p.Done(nil)
			after(ms)
			run(b, nil) // whoever comes next judges
			wantState(t, b, want)
		})
	}
}

// sick runs windows of a Percentile rule: each second calls of which some are slow.
func sick(t *testing.T, b *Breaker, calls, slow int) {
	t.Helper()
	after(10 * ms)
	var fast, hung []*Permit
	for i := range calls {
		p, err := b.Allow()
		if err != nil {
			break
		}
		if i >= slow {
			fast = append(fast, &p)
		} else {
			hung = append(hung, &p)
		}
	}
	after(10 * ms)
	doneAll(fast, nil)
	after(980 * ms)
	doneAll(hung, nil)
}

// REQ-B2: P99 over 50 ms in 3 windows in a row of at least 100 calls.
func TestPercentileNeedsThreeWindows(t *testing.T) {
	type window struct{ calls, slow int }
	for name, tc := range map[string]struct {
		windows []window
		want    State
	}{
		"three over":             {[]window{{100, 2}, {100, 2}, {100, 2}}, Open},
		"exactly 1 % is not":     {[]window{{100, 1}, {200, 2}, {1000, 10}}, Closed},
		"one window well":        {[]window{{100, 2}, {100, 2}, {100, 0}, {100, 2}, {100, 2}}, Closed},
		"too few calls in one":   {[]window{{100, 2}, {99, 99}, {100, 2}}, Closed},
		"an empty one between":   {[]window{{100, 2}, {100, 2}, {0, 0}, {100, 2}}, Closed},
		"bad ones after a break": {[]window{{100, 2}, {100, 0}, {100, 2}, {100, 2}, {100, 2}}, Open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, slowConfig(Percentile{}))
				for _, w := range tc.windows {
					sick(t, b, w.calls, w.slow)
				}
				after(100 * ms)
				run(b, nil) // judges
				wantState(t, b, tc.want)
				if r := b.Stats().Reason; tc.want == Open && (r.Rule != RulePercentile || !strings.HasPrefix(r.Detail, "P99 over 50ms in 3 windows in a row")) {
					t.Errorf("reason: got %+v", r)
				}
			})
		})
	}
}

// What is no evidence: ignored calls, and failures that were not slow. A timeout is slow.
func TestWhatLatencyRulesLeaveOut(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts time.Duration
		err   error
		want  uint64 // calls counted
		slow  uint64
	}{
		"success":          {ms, nil, 1, 0},
		"slow success":     {60 * ms, nil, 1, 1},
		"quick failure":    {ms, errDown, 0, 0},
		"timeout":          {60 * ms, errDown, 1, 1},
		"ignored":          {ms, errNeutral, 0, 0},
		"ignored too late": {60 * ms, errNeutral, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 100}))
				p := start(t, b)
				after(tc.lasts)
				p.Done(tc.err)
				after(100 * ms)
				b.judgeLatency()
				w := b.mu.detectors[0].detector.(*slowWindow)
				calls, slow := uint64(0), uint64(0)
				for i := range steps {
					calls, slow = calls+w.calls[i], slow+w.slow[i]
				}
				if calls != tc.want || slow != tc.slow {
					t.Errorf("got %d slow of %d, want %d of %d", slow, calls, tc.slow, tc.want)
				}
			})
		})
	}
}

// REQ-B2: rules combine; each names itself.
func TestLatencyBesideFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(CUSUM{}, ConsecutiveFailures{}, SlowCallRate{Threshold: time.Second}))
		runN(t, b, 5, errDown)
		wantState(t, b, Open)
		if got := b.Stats().Reason.Rule; got != RuleConsecutiveFailures {
			t.Errorf("rule: got %s", got)
		}
		if got := len(b.measure.Load().windows); got != 2 {
			t.Errorf("windows: got %d, want one a threshold", got)
		}
	})
}

// A probe that succeeds slowly is a failed one.
func TestSlowProbeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(CUSUM{}))
		b.Trip(Reason{})
		after(time.Second)
		p := start(t, b)
		after(50 * ms)
		p.Done(nil)
		wantState(t, b, Open)
		if r := b.Stats().Reason; r.Rule != RuleProbeSlow || r.Value != 0.05 || r.Threshold != 0.05 {
			t.Errorf("reason: got %+v", r)
		}
		after(2 * time.Second)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// REQ-B1, B16: what was measured before Force counts for nothing after it; a window lives on in
// Reconfigure.
func TestLatencyWindowsAcrossChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 10}))
		startN(t, b, 9)
		if err := b.Reconfigure(slowConfig(SlowCallRate{MinCalls: 9}, CUSUM{Threshold: time.Second})); err != nil {
			t.Fatal(err)
		}
		after(60 * ms)
		run(b, nil)
		wantState(t, b, Open)
	})
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 5}))
		startN(t, b, 4)
		_ = b.Force(ForcedClosed, "")
		startN(t, b, 4)
		_ = b.Force(Closed, "")
		startN(t, b, 4)
		after(60 * ms)
		runN(t, b, 1, nil) // judges 4 calls, which is one too few
		wantState(t, b, Closed)
		after(60 * ms)
		if run(b, nil) { // and now 4 of 5
			t.Error("admitted")
		}
	})
	synctest.Test(t, func(t *testing.T) { // switched off and on while a call runs
		b := mustNew(t, slowConfig(SlowCallRate{MinCalls: 1}))
		p := start(t, b)
		_ = b.Reconfigure(slowConfig(ConsecutiveFailures{}))
		_ = b.Reconfigure(slowConfig(SlowCallRate{MinCalls: 1}))
		after(60 * ms)
		p.Done(nil)
		after(60 * ms)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

// A long idle time, and one that lets the number of a tick come again, confuse nothing.
func TestLatencyAfterIdle(t *testing.T) {
	l := newLatencyWindow(50*ms, 0)
	for _, idle := range []time.Duration{0, time.Second, l.tick() << 19, time.Hour, 24 * time.Hour} {
		clk := &fakeClock{now: 5 * time.Second}
		b, err := newBreaker(slowConfig(SlowCallRate{MinCalls: 1, Rate: 0.9}), clk)
		if err != nil {
			t.Fatal(err)
		}
		run(b, nil) // fast; nobody judges it
		clk.advance(idle)
		runN(t, b, 1, nil)
		clk.advance(100 * ms)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	}
}

func TestLatencyWindowsRefuseBadSettings(t *testing.T) {
	_, err := New(Config{
		Rules: []Rule{
			SlowCallRate{Threshold: -1, Span: -1, Rate: 2, MinCalls: -1},
			Percentile{Quantile: 1, Threshold: time.Nanosecond, Span: 1, Windows: -1, MinCalls: -3},
			CUSUM{Healthy: 0.5, Sick: 0.1, Limit: math.Inf(1), Threshold: 1},
			DryRun{},
			DryRun{Rule: DryRun{Rule: CUSUM{}}},
			DryRun{Rule: CUSUM{Limit: -1}},
			(*CUSUM)(nil),
			DryRun{Rule: &CUSUM{}},
		},
		Ramp:  Ramp{For: -1, From: 1, Rate: 1, MinCalls: -1},
		Calls: Calls{MaxInFlight: -1, Timeout: -1},
		Probe: Probe{Of: -1, Rate: 1.5, Expiry: 7},
	})
	wantErrors(t, err,
		"Rules[0].Threshold is -1ns: use at least 100µs, or 0 for 50ms", "Rules[0].Span is -1ns", "Rules[0].Rate is 2", "Rules[0].MinCalls is -1: use at least 1, or 0 for 20",
		"Rules[1].Quantile is 1", "Rules[1].Threshold is 1ns", "Rules[1].Span is 1ns", "Rules[1].Windows is -1", "Rules[1].MinCalls is -3: use at least 1, or 0 for 100",
		"Rules[2].Sick is 0.1: use a share above Healthy, 0.5", "Rules[2].Limit is +Inf", "Rules[2].Threshold is 1ns",
		"Rules[3].Rule is nil", "Rules[4].Rule is a DryRun", "Rules[5].Rule.Limit is -1",
		"Rules[6] is a pointer, *breaker.CUSUM: put the rule itself there", "Rules[7].Rule is a pointer, *breaker.CUSUM",
		"Ramp.For is -1ns", "Ramp.From is 1", "Ramp.Rate is 1", "Ramp.MinCalls is -1",
		"Calls.MaxInFlight is -1", "Calls.Timeout is -1ns",
		"Probe.Of is -1", "Probe.Rate is 1.5", "Probe.Expiry is 7",
	)
}

// Windows that can never fill are refused, with the arithmetic.
func TestNewRefusesWindowsThatNeverFill(t *testing.T) {
	calls := Calls{MaxInFlight: 16, Timeout: 200 * ms}
	_, err := New(Config{Calls: calls, Rules: []Rule{
		Percentile{Span: 100 * ms, MinCalls: 20},
		FailureRateByTime{Span: 200 * ms},
		SlowCallRate{Threshold: 200 * ms},
		DryRun{Rule: CUSUM{Threshold: time.Second}},
	}})
	wantErrors(t, err,
		"Rules[0].MinCalls is 20: 16 in flight that each end by a timeout of 200ms are 8 calls in a Span of 100ms; use at most that, or a longer Span",
		"Rules[1].MinCalls is 20: 16 in flight that each end by a timeout of 200ms are 16 calls in a Span of 200ms",
		"Rules[2].Threshold is 200ms: Calls.Timeout ends every call after 200ms, before it is slow; use less",
		"Rules[3].Rule.Threshold is 1s",
	)
	for _, ok := range []Config{
		{Calls: calls, Rules: []Rule{Percentile{Span: 100 * ms, MinCalls: 8}}},
		{Calls: Calls{MaxInFlight: 16}, Rules: []Rule{Percentile{Span: 100 * ms}}},
		{Calls: Calls{Timeout: 200 * ms}, Rules: []Rule{Percentile{Span: 100 * ms}}},
	} {
		if _, err := New(ok); err != nil {
			t.Errorf("%+v: %v", ok, err)
		}
	}
}

var errSlow = errors.New("timeout")

// 3 isolated failures among 1,000,000 successes, with every rule there is (REQ-B13).
func TestIsolatedFailuresOpenNothing(t *testing.T) {
	clk := &fakeClock{}
	b, err := newBreaker(slowConfig(ConsecutiveFailures{}, FailureRateByCount{}, FailureRateByTime{},
		SlowCallRate{}, Percentile{}, CUSUM{}), clk)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1_000_000 {
		runN(t, b, 1, nil)
		clk.advance(100 * time.Microsecond)
		if i%333_333 == 1 {
			p := start(t, b)
			clk.advance(60 * ms)
			p.Done(errSlow)
		}
	}
	wantState(t, b, Closed)
	if s := b.Stats(); s.Failures != 3 || s.Successes != 1_000_000 {
		t.Errorf("got %d failures, %d successes", s.Failures, s.Successes)
	}
}

// Short windows may ripen together: one in which nothing began ends the row all the same.
func TestPercentileOverAnEmptyWindow(t *testing.T) {
	d := &percentileDetector{rule: Percentile{Span: 10 * ms, Windows: 2, MinCalls: 1}.withDefaults().(Percentile)}
	for _, at := range []time.Duration{0, 20 * ms} {
		if _, holds := d.ripened(ripe{at: at, calls: 1, slow: 1}); holds {
			t.Errorf("holds at %v", at)
		}
	}
	if _, holds := d.settle(30 * ms); holds {
		t.Error("two windows with an empty one between are a row")
	}
	d.ripened(ripe{at: 30 * ms, calls: 1, slow: 1})
	if _, holds := d.settle(40 * ms); !holds {
		t.Error("two windows in a row are none")
	}
}

// A call that began before its window was made is not in it, though its tick is.
func TestWindowKnowsNothingBeforeItsBirth(t *testing.T) {
	l := newLatencyWindow(50*ms, ms)
	if !l.begin(ms) || l.end(0, 2*ms) != 0 {
		t.Error("a call from before the window was counted")
	}
	l.withdraw(0, 2*ms)
	if fast := l.end(ms, 2*ms); fast != 1 {
		t.Errorf("calls that ended in time: got %d, want 1", fast)
	}
	l.harvest(time.Second, func(r ripe) bool {
		if r.calls != 1 || r.fast != 1 {
			t.Errorf("got %+v, want one call, in time", r)
		}
		return false
	})
}

// Stats.Latency holds probes too.
func TestLatencyOfProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Histogram: true, Open: Backoff{Jitter: -1}})
		b.Trip(Reason{})
		after(time.Second)
		p := start(t, b)
		after(20 * ms)
		p.Done(nil)
		if l := b.Stats().Latency; l.Calls != 1 || l.P50 < 19*ms || l.P50 > 21*ms {
			t.Errorf("got %+v, want one call of 20ms", l)
		}
	})
}
