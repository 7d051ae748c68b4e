package breaker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// REQ-B17: the checks that the published designs give inline.
func TestPublishedChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Open: Backoff{Jitter: -1}})
		wantState(t, b, Closed) // a fresh breaker
		runN(t, b, 4, errDown)
		wantState(t, b, Closed)
		runN(t, b, 1, errDown)
		touched := false
		_, err := Do(t.Context(), b, func(context.Context) (int, error) { touched = true; return 0, nil })
		if touched || !errors.Is(err, ErrOpen) { // the sixth call
			t.Errorf("sixth call: touched %v, error %v; want false, ErrOpen", touched, err)
		}
		if got := b.Stats().OpenPeriod; got != time.Second {
			t.Errorf("first open period: got %v, want 1s", got) // known mistake 7
		}
		after(time.Second)
		runN(t, b, 1, errDown)
		wantState(t, b, Open) // a failed probe opens and lengthens
		if got := b.Stats().OpenPeriod; got != 2*time.Second {
			t.Errorf("second open period: got %v, want 2s", got)
		}
		after(2 * time.Second)
		runN(t, b, 1, nil)
		wantState(t, b, Closed)
	})
}

func TestThirdBreachOpens(t *testing.T) { // REQ-B17, REQ-R4
	b := mustNew(t, Config{Rules: []Rule{lagRule()}})
	for i, want := range []State{Closed, Closed, Open} {
		b.Observe("lag", 0.83)
		if got := b.State(); got != want {
			t.Errorf("after breach %d: got %v, want %v", i+1, got, want)
		}
	}
}

// behaviours-breaker 20: a call counts in the window of its end.
func TestCallsLongerThanTheWindowCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		for range 100 {
			p := start(t, b)
			go func() { time.Sleep(11 * time.Second); p.Done(errDown) }()
		}
		after(11 * time.Second)
		if s := b.Stats(); s.State != Open || s.Failures != 5 || s.Late != 95 {
			t.Errorf("got %v after %d failures, %d late; want open after 5, 95 late", s.State, s.Failures, s.Late)
		}
	})
}

// behaviours-breaker 21: the window slides.
func TestTimeWindowHasNoEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Rules = []Rule{FailureRateByTime{MinCalls: 6}}
		b := mustNew(t, c)
		after(9900 * time.Millisecond)
		runN(t, b, 5, errDown)
		wantState(t, b, Closed)
		after(200 * time.Millisecond)
		runN(t, b, 1, errDown)
		wantState(t, b, Open)
	})
}

func TestTimeWindowForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, behaviourConfig())
		runN(t, b, 4, errDown)
		after(10 * time.Second)
		runN(t, b, 1, errDown)
		wantState(t, b, Closed)
		runN(t, b, 4, nil) // 1 of 5 failed
		after(10 * time.Second)
		runN(t, b, 4, errDown)
		wantState(t, b, Closed) // the successes are gone too: 4 of 4, under MinCalls
		runN(t, b, 1, errDown)
		wantState(t, b, Open)
	})
}

// Successes at a low rate are put into exact steps: one that is 5 s apart from
// the next event is not forgotten with the event before it.
func TestTimeWindowKeepsSparseSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := behaviourConfig()
		c.Rules = []Rule{FailureRateByTime{MinCalls: 2, Rate: 0.5}}
		b := mustNew(t, c)
		runN(t, b, 1, nil)
		after(5 * time.Second)
		runN(t, b, 1, nil) // at 5 s: within the last 10 s of 14 s
		after(9 * time.Second)
		runN(t, b, 1, errDown)
		runN(t, b, 1, nil)
		runN(t, b, 1, errDown)
		wantState(t, b, Closed) // 2 of 4 is not more than half
		runN(t, b, 1, errDown)
		wantState(t, b, Open) // 3 of 5 is
	})
}

// At a high rate few successes look at the clock, and the rate is still right.
func TestTimeWindowAtAHighRate(t *testing.T) {
	clk := &fakeClock{}
	b, err := newBreaker(Config{Rules: []Rule{FailureRateByTime{}}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	round := func(oks, failures int) { // of 1 ms
		for range oks {
			run(b, nil)
		}
		for range failures {
			run(b, errDown)
		}
		clk.advance(time.Millisecond)
	}
	for range 15_000 {
		round(12, 10) // 45 % fail
	}
	wantState(t, b, Closed)
	healthy := clk.now
	for b.State() == Closed && clk.now-healthy < time.Minute {
		round(2, 8) // 80 % fail
	}
	// 22 calls a round before, 10 after: the window passes 50 % when x of its
	// 10,000 rounds are sick and 10*(10,000-x) + 8x > 11*(10,000-x) + 5x, x = 2,500.
	if got := clk.now - healthy; got < 1500*time.Millisecond || got > 3*time.Second {
		t.Errorf("opened %v after the rate rose, want 1.5 s to 3 s", got)
	}
}

// A steady stream of successes reads the clock seldom.
func TestTimeWindowLooksAtTheClockSeldom(t *testing.T) {
	clk := &countingClock{}
	b, err := newBreaker(Config{Rules: []Rule{FailureRateByTime{}}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	clk.looks = 0
	for range 100_000 {
		run(b, nil)
		clk.now += 10 * time.Microsecond
	}
	if clk.looks > 3_000 {
		t.Errorf("looks at the clock in 100,000 calls: got %d, want at most 3,000", clk.looks)
	}
}

type countingClock struct {
	fakeClock
	looks int
}

func (c *countingClock) since() time.Duration { c.looks++; return c.now }

// behaviours-breaker 22: failures in a row do not age out, also where a window of
// 10 s beside them forgets: it never holds six.
func TestConsecutiveFailuresDoNotAge(t *testing.T) {
	row := ConsecutiveFailures{Count: 6}
	for name, rules := range map[string][]Rule{
		"alone":                {row},
		"beside a time window": {FailureRateByTime{MinCalls: 6}, row},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, Config{Rules: rules})
				for range 5 {
					runN(t, b, 1, errDown)
					after(2500 * time.Millisecond)
				}
				wantState(t, b, Closed)
				runN(t, b, 1, errDown)
				wantState(t, b, Open)
				if got := b.Stats().Reason; got.Rule != RuleConsecutiveFailures || got.Value != 6 {
					t.Errorf("reason: got %v, want 6 failures in a row", got)
				}
			})
		})
	}
}

// behaviours-breaker 23: a success ends the row.
func TestSuccessEndsTheRow(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{ConsecutiveFailures{Count: 3}}})
	for range 3 {
		runN(t, b, 10_000, nil)
		runN(t, b, 1, errDown)
	}
	wantState(t, b, Closed)
	if got := b.Stats().ConsecutiveFailures; got != 1 {
		t.Errorf("consecutive failures: got %d, want 1", got)
	}
	runN(t, b, 1, nil)
	if got := b.Stats().ConsecutiveFailures; got != 0 {
		t.Errorf("consecutive failures after a success: got %d, want 0", got)
	}
}

// behaviours-breaker 24: several rules, the first that holds opens.
func TestConsecutiveOrRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustNew(t, Config{Rules: []Rule{FailureRateByTime{}, ConsecutiveFailures{}}})
		for range 5 {
			after(time.Minute)
			runN(t, b, 1, errDown)
		}
		wantState(t, b, Open)
		if got := b.Stats().Reason.Rule; got != RuleConsecutiveFailures {
			t.Errorf("reason: got %s, want %s", got, RuleConsecutiveFailures)
		}
	})
}

// behaviours-breaker 25.
func TestOneFailureOfANewBreakerDoesNotOpen(t *testing.T) {
	b := mustNew(t, behaviourConfig())
	runN(t, b, 1, errDown)
	wantState(t, b, Closed)
}

// behaviours-breaker 26: rates are not rounded, in either window.
func TestRatesAreExact(t *testing.T) {
	windows := map[string]func(minCalls int, rate float64) Rule{
		"count": func(n int, rate float64) Rule { return FailureRateByCount{Calls: n, Rate: rate, MinCalls: n} },
		"time":  func(n int, rate float64) Rule { return FailureRateByTime{Rate: rate, MinCalls: n} },
	}
	for name, rule := range windows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ratesAreExact(t, rule) }) // time stands still: nothing leaves the window
		})
	}
}

func ratesAreExact(t *testing.T, rule func(minCalls int, rate float64) Rule) {
	t.Helper()
	b := mustNew(t, Config{Rules: []Rule{rule(1000, 0.5)}})
	runN(t, b, 505, nil)
	runN(t, b, 495, errDown)
	wantState(t, b, Closed) // 49.5 % of a bar of 50 %

	b = mustNew(t, Config{Rules: []Rule{rule(1000, 0.001)}})
	for range 4 {
		runN(t, b, 249, nil)
		runN(t, b, 1, errDown)
	}
	wantState(t, b, Open)                            // 0.4 % of a bar of 0.1 %
	if got := b.Stats().Reason.Value; got != 0.004 { // though the ring of calls keeps only as many failures as decide
		t.Errorf("measured share: got %v, want 0.004", got)
	}

	b = mustNew(t, Config{Rules: []Rule{rule(100, 0.29)}})
	runN(t, b, 71, nil)
	runN(t, b, 29, errDown)
	wantState(t, b, Closed) // 29 of 100 is not above 0.29
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
}

func TestCountWindowForgets(t *testing.T) { // known mistake 6
	b := mustNew(t, Config{Rules: []Rule{FailureRateByCount{Calls: 10, MinCalls: 10}}})
	runN(t, b, 5, errDown)
	for range 20 { // 5 failures are at most half of any 10 calls
		runN(t, b, 5, nil)
		runN(t, b, 5, errDown)
	}
	wantState(t, b, Closed)
	runN(t, b, 1, errDown)
	wantState(t, b, Open) // the oldest of the 10 was a success
}

// A rule whose minimum is reached by a success is judged at the next failure.
func TestSuccessNeverOpens(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{FailureRateByCount{Calls: 20, MinCalls: 20}}})
	runN(t, b, 19, errDown)
	runN(t, b, 1, nil)
	wantState(t, b, Closed)
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
}

// REQ-B13.
func TestThreeIsolatedFailuresInAMillionNeverOpen(t *testing.T) {
	for _, rule := range []Rule{FailureRateByCount{}, FailureRateByTime{}} {
		b := mustNew(t, Config{Rules: []Rule{rule}})
		for range 3 {
			runN(t, b, 333_333, nil)
			runN(t, b, 1, errDown)
		}
		wantState(t, b, Closed)
	}
}

// behaviours-breaker 33; REQ-B9: neither failures nor calls of the rate.
func TestCallersThatWalkAwayCountForNothing(t *testing.T) {
	b := mustNew(t, behaviourConfig())
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Do(ctx, b, func(ctx context.Context) (int, error) {
			cancel()
			return 0, fmt.Errorf("query: %w", ctx.Err())
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want the caller's own error", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		Do(ctx, b, func(context.Context) (int, error) {
			cancel()
			return 0, errors.New("driver: operation was interrupted") // does not say why
		})
	}
	s := b.Stats()
	if s.State != Closed || s.Failures != 0 || s.Successes != 0 || s.Ignored != 200 {
		t.Errorf("got %v, %d failures, %d successes, %d ignored; want closed, 0, 0, 200",
			s.State, s.Failures, s.Successes, s.Ignored)
	}
	runN(t, b, 4, errDown)
	wantState(t, b, Closed) // the 200 are not of the five calls that a rate needs
	runN(t, b, 1, errDown)
	wantState(t, b, Open)
	if got := b.Stats().Reason.Value; got != 1 {
		t.Errorf("measured share of failures: got %v, want 1: 5 of 5", got)
	}
}

// behaviours-breaker 34; REQ-B9: a deadline is no cancellation. 100 calls that run into
// their caller's own open, also where the error does not say why they ended.
func TestDeadlineIsAFailure(t *testing.T) {
	for name, result := range map[string]func(context.Context) error{
		"context error": func(ctx context.Context) error { return fmt.Errorf("query: %w", ctx.Err()) },
		"driver error":  func(context.Context) error { return errors.New("driver: operation was interrupted") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustNew(t, behaviourConfig())
				for range 100 {
					go func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						Do(ctx, b, func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, result(ctx) })
					}()
				}
				after(time.Second)
				if s := b.Stats(); s.State != Open || s.Failures != 5 || s.Ignored != 0 {
					t.Errorf("got %v after %d failures, %d ignored; want open after 5, 0", s.State, s.Failures, s.Ignored)
				}
			})
		})
	}
}

// behaviours-breaker 36; REQ-B10.
func TestFunctionThatAlwaysPanicsTrips(t *testing.T) {
	b := mustNew(t, behaviourConfig())
	for i := range 5 {
		wantPanic(t, i, func() { Do(t.Context(), b, func(context.Context) (int, error) { panic(i) }) })
	}
	wantState(t, b, Open)
}

// REQ-B2: a refused connection opens at once.
func TestFatalOpensAtOnce(t *testing.T) {
	b := mustNew(t, Config{})
	p := start(t, b)
	p.DoneAs(Fatal, errors.New("connection refused"))
	wantState(t, b, Open)
	want := Reason{Rule: RuleFatal, Detail: "last error: connection refused"}
	if got := b.Stats().Reason; got != want {
		t.Errorf("reason: got %+v, want %+v", got, want)
	}
}

// REQ-B8: a permit counts once, whichever way its success is counted.
func TestPermitCountsOnce(t *testing.T) {
	for name, rules := range map[string][]Rule{"plain": nil, "timed": {FailureRateByTime{}}, "latency": {Percentile{}}} {
		t.Run(name, func(t *testing.T) {
			b := mustNew(t, Config{Rules: rules})
			p := start(t, b)
			p.Done(nil)
			p.Done(nil)
			p.Done(errDown)
			p.DoneAs(Fatal, nil)
			q := start(t, b)
			q.Done(errDown)
			q.Done(nil)
			var zero Permit
			zero.Done(nil)
			zero.Done(errDown)
			zero.DoneAs(Fatal, nil)
			if s := b.Stats(); s.Successes != 1 || s.Failures != 1 || s.State != Closed {
				t.Errorf("got %d successes, %d failures, %v; want 1, 1, closed", s.Successes, s.Failures, s.State)
			}
		})
	}
}

func TestReasonsSayWhatWasMeasured(t *testing.T) {
	for _, tc := range []struct {
		name string
		rule Rule
		do   func(*Breaker)
		want string
	}{
		{
			"consecutive",
			ConsecutiveFailures{Count: 2},
			func(b *Breaker) { run(b, errDown); run(b, errDown) },
			"consecutive_failures 2 ≥ 2 (last error: down)",
		},
		{"count", FailureRateByCount{MinCalls: 4}, func(b *Breaker) {
			for _, err := range []error{nil, errDown, errDown, errDown} {
				run(b, err)
			}
		}, "failure_rate_count 0.75 > 0.5 (3 of 4 calls, last error: down)"},
		{"signal", lagRule(), func(b *Breaker) {
			for range 3 {
				b.Observe("lag", 0.83)
			}
		}, "lag 0.83 s > 0.5 s (3 in a row)"},
		{
			"external",
			ConsecutiveFailures{},
			func(b *Breaker) { b.Trip(Reason{Detail: "cannot be sampled"}) },
			"external (cannot be sampled)",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := mustNew(t, Config{Name: "a", Rules: []Rule{tc.rule}})
			tc.do(b)
			if got := b.Stats().Reason.String(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			_, err := b.Allow()
			if got, want := err.Error(), `breaker: "a" is open: `+tc.want; got != want {
				t.Errorf("error: got %q, want %q", got, want)
			}
		})
	}
}
