package breaker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

var errDown = errors.New("connection reset")

// must is for examples only: a program handles the error.
func must(b *breaker.Breaker, err error) *breaker.Breaker {
	if err != nil {
		panic(err)
	}
	return b
}

func Example() {
	b, err := breaker.New(breaker.Config{Name: "payments"})
	if err != nil {
		fmt.Println(err)
		return
	}
	call := func(context.Context) (string, error) { return "", errDown }
	for range 6 {
		_, err = breaker.Do(context.Background(), b, call)
		fmt.Println(err)
	}
	// Output:
	// connection reset
	// connection reset
	// connection reset
	// connection reset
	// connection reset
	// breaker: "payments" is open: consecutive_failures 5 ≥ 5 (last error: connection reset)
}

func ExampleNew() {
	_, err := breaker.New(breaker.Config{
		Rules: []breaker.Rule{breaker.FailureRateByCount{Calls: 10, MinCalls: 20}},
		Open:  breaker.Backoff{Base: time.Minute, Max: time.Second},
	})
	fmt.Println(err)
	// Output:
	// breaker: Open.Max is 1s: set it to at least Open.Base, 1m0s
	// breaker: Rules[0].MinCalls is 20: a window of 10 calls never holds so many; use at most Calls
}

func ExampleDo() {
	b := must(breaker.New(breaker.Config{Name: "stock"}))
	n, err := breaker.Do(context.Background(), b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output: 42 <nil>
}

func ExampleBreaker_Allow() {
	b := must(breaker.New(breaker.Config{Name: "stock"}))
	permit, err := b.Allow()
	if err != nil {
		fmt.Println("not now:", err)
		return
	}
	err = nil // of the call
	permit.Done(err)
	fmt.Println(b.Stats().Successes)
	// Output: 1
}

func ExampleBreaker_AllowProbe() {
	b := must(breaker.New(breaker.Config{
		Name:  "replica-a",
		Open:  breaker.Backoff{Base: time.Nanosecond, Jitter: -1},
		Probe: breaker.Probe{Reserved: true},
	}))
	b.Trip(breaker.Reason{Rule: "unreachable"})
	for b.State() != breaker.HalfOpen { // the open period of 1 ns
	}
	_, err := b.Allow() // a user's read
	fmt.Println(errors.Is(err, breaker.ErrOpen))
	probe, err := b.AllowProbe() // the sampler
	fmt.Println(err)
	probe.Done(nil)
	fmt.Println(b.State())
	// Output:
	// true
	// <nil>
	// closed
}

func ExamplePermit_DoneAs() {
	b := must(breaker.New(breaker.Config{Name: "replica-a"}))
	permit, err := b.Allow()
	if err != nil {
		return
	}
	permit.DoneAs(breaker.Fatal, errors.New("connection refused")) // proves by itself that it is down
	fmt.Println(b.State(), b.Stats().Reason)
	// Output: open fatal (last error: connection refused)
}

func ExampleBreaker_Observe() {
	b := must(breaker.New(breaker.Config{
		Name:  "replica-a",
		Rules: []breaker.Rule{breaker.Signal{Name: "lag", Trip: 0.5, Reenter: 0.2, Breaches: 3, Unit: "s"}},
	}))
	for _, lag := range []float64{0.1, 0.7, 0.8, 0.83} {
		b.Observe("lag", lag)
		fmt.Println(b.State())
	}
	fmt.Println(b.Stats().Reason)
	// Output:
	// closed
	// closed
	// closed
	// open
	// lag 0.83 s > 0.5 s (3 in a row)
}

func ExampleBreaker_Trip() {
	b := must(breaker.New(breaker.Config{Name: "replica-a"}))
	b.Trip(breaker.Reason{Rule: "unreachable", Detail: "no sample within 1.5s"})
	_, err := b.Allow()
	fmt.Println(err)
	// Output: breaker: "replica-a" is open: unreachable (no sample within 1.5s)
}

func ExampleBreaker_Force() {
	b := must(breaker.New(breaker.Config{Name: "payments"}))
	if err := b.Force(breaker.ForcedOpen, "migration until 14:00"); err != nil {
		fmt.Println(err)
	}
	_, err := b.Allow()
	fmt.Println(err)
	if err := b.Force(breaker.Closed, "done"); err != nil {
		fmt.Println(err)
	}
	fmt.Println(b.State())
	// Output:
	// breaker: "payments" is forced_open: forced (migration until 14:00)
	// closed
}

func ExampleBreaker_Reconfigure() {
	b := must(breaker.New(breaker.Config{Name: "payments"}))
	err := b.Reconfigure(breaker.Config{Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 3}}})
	fmt.Println(err, b.Stats().ConsecutiveLimit)
	// Output: <nil> 3
}

func ExampleOpenError_RetryAfter() {
	b := must(breaker.New(breaker.Config{Name: "payments", Open: breaker.Backoff{Base: 20 * time.Second, Jitter: -1}}))
	b.Trip(breaker.Reason{})
	_, err := b.Allow()
	if refusal, ok := errors.AsType[*breaker.OpenError](err); ok {
		fmt.Println(refusal.State, refusal.RetryAfter().Round(time.Second))
	}
	// Output: open 20s
}

func ExampleObserver() {
	b := must(breaker.New(breaker.Config{
		Name: "payments",
		Observer: breaker.Observer{OnTransition: func(t breaker.Transition) {
			fmt.Printf("%s: %v to %v: %v\n", t.Name, t.From, t.To, t.Reason)
		}},
	}))
	b.Trip(breaker.Reason{Rule: "health check"})
	// Output: payments: closed to open: health check
}

// Why it opened: in Stats while it is open, in each refusal until traffic is back, and in OnTransition.
func ExampleReason() {
	b := must(breaker.New(breaker.Config{Name: "payments", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 2}}}))
	for range 2 {
		if p, err := b.Allow(); err == nil {
			p.Done(errDown)
		}
	}
	s := b.Stats()
	fmt.Printf("%s is %v: %v\n", s.Name, s.State, s.Reason)
	fmt.Println(s.Reason.Rule, s.Reason.Value, s.Reason.Threshold)
	// Output:
	// payments is open: consecutive_failures 2 ≥ 2 (last error: connection reset)
	// consecutive_failures 2 2
}

func ExampleBreaker_Stats() {
	b := must(breaker.New(breaker.Config{Name: "payments"}))
	for range 2 {
		if p, err := b.Allow(); err == nil {
			p.Done(errDown)
		}
	}
	s := b.Stats()
	fmt.Printf("%v, %d of %d failures in a row\n", s.State, s.ConsecutiveFailures, s.ConsecutiveLimit)
	// Output: closed, 2 of 5 failures in a row
}

func ExampleDoOr() {
	b := must(breaker.New(breaker.Config{Name: "prices"}))
	b.Trip(breaker.Reason{})
	price, err := breaker.DoOr(context.Background(), b,
		func(context.Context) (int, error) { return 42, nil },
		breaker.Fallback[int]{Func: func(_ context.Context, cause error) (int, error) {
			fmt.Println(cause)
			return 40, nil // yesterday's
		}})
	fmt.Println(price, err)
	// Output:
	// breaker: "prices" is open: external
	// 40 <nil>
}

func ExampleIgnore() {
	b := must(breaker.New(breaker.Config{Name: "users", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}}))
	_, err := breaker.Do(context.Background(), b, func(context.Context) (string, error) {
		return "", fmt.Errorf("user 7: %w", breaker.Ignore(errors.New("the name is too long")))
	})
	fmt.Println(err)
	fmt.Println(b.State())
	// Output:
	// user 7: the name is too long
	// closed
}

func ExampleBreaker_TripFor() {
	b := must(breaker.New(breaker.Config{Name: "api", Open: breaker.Backoff{Jitter: -1}}))
	b.TripFor(20*time.Second, breaker.Reason{Rule: breaker.RuleRetryAfter})
	_, err := b.Allow()
	fmt.Println(err)
	fmt.Println(b.Stats().OpenPeriod)
	// Output:
	// breaker: "api" is open: retry_after
	// 20s
}

// A rule is tried on live traffic before it may open.
func ExampleDryRun() {
	b := must(breaker.New(breaker.Config{
		Name:  "orders",
		Rules: []breaker.Rule{breaker.DryRun{Rule: breaker.ConsecutiveFailures{Count: 2}}, breaker.ConsecutiveFailures{}},
		Observer: breaker.Observer{OnWouldOpen: func(w breaker.WouldOpen) {
			fmt.Printf("%s would open: %v\n", w.Name, w.Reason)
		}},
	}))
	for range 3 {
		if p, err := b.Allow(); err == nil {
			p.Done(errDown)
		}
	}
	fmt.Println(b.State())
	// Output:
	// orders would open: consecutive_failures 2 ≥ 2
	// closed
}

// Calls that hang open it before they return; a percentile that could never decide is refused.
func ExampleCUSUM() {
	c := breaker.Config{
		Name:  "orders",
		Rules: []breaker.Rule{breaker.CUSUM{Threshold: 50 * time.Millisecond}, breaker.ConsecutiveFailures{}},
		Calls: breaker.Calls{MaxInFlight: 16, Timeout: 200 * time.Millisecond},
	}
	b := must(breaker.New(c))
	fmt.Println(b.State())
	c.Rules = append(c.Rules, breaker.Percentile{})
	_, err := breaker.New(c)
	fmt.Println(err)
	// Output:
	// closed
	// breaker: Rules[2].MinCalls is 100: 16 in flight that each end by a timeout of 200ms are 80 calls in a Span of 1s; use at most that, or a longer Span
}
