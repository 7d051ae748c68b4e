package main

import (
	"errors"
	"time"

	"github.com/afex/hystrix-go/hystrix"
	resiliency "github.com/eapache/go-resiliency/breaker"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
)

const (
	forever  = time.Hour             // an open period that does not end in the run
	brief    = 50 * time.Millisecond // one that does
	failures = 5                     // in a row open
	probes   = 1
	minCalls = 20 // of a rate
	span     = 10 * time.Second
	longest  = time.Second // of a call, for those who time out
	inFlight = 10_000      // hystrix-go gives a place back after its call has returned: more than a batch
)

var errDown = errors.New("down")

// openByFailures makes failing calls until one is refused: the breaker was opened by its rule.
func openByFailures(fail func() error) error {
	return until("open", func() bool { return !errors.Is(fail(), errDown) })
}

// closed is how a breaker begins.
func closed[B any](B) error { return nil }

func one() (int, error) { return 1, nil }

func down() (int, error) { return 0, errDown }

// Of sony/gobreaker.

func gobreakerSettings(openFor time.Duration) gobreaker.Settings {
	return gobreaker.Settings{
		MaxRequests: probes,
		Timeout:     openFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failures },
	}
}

func gobreakerRate() gobreaker.Settings {
	return gobreaker.Settings{
		Interval: span, BucketPeriod: span / 10,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.Requests >= minCalls && float64(c.TotalFailures)/float64(c.Requests) > 0.5
		},
	}
}

func gobreakerExecute(s gobreaker.Settings, into func(*gobreaker.CircuitBreaker[int]) error) setup {
	return func() (loop, error) {
		b := gobreaker.NewCircuitBreaker[int](s)
		return func(n int) (good int) {
			for range n {
				if _, err := b.Execute(one); err == nil {
					good++
				}
			}
			return good
		}, into(b)
	}
}

func gobreakerOpen(b *gobreaker.CircuitBreaker[int]) error {
	return openByFailures(func() error {
		_, err := b.Execute(down)
		return err
	})
}

// gobreakerHalfOpen leaves a probe running.
func gobreakerHalfOpen(b *gobreaker.CircuitBreaker[int]) error {
	if err := gobreakerOpen(b); err != nil {
		return err
	}
	return until("half-open", func() bool {
		running, ended := make(chan bool, 1), make(chan bool, 1)
		go func() {
			_, _ = b.Execute(func() (int, error) {
				running <- true
				time.Sleep(forever)
				return 1, nil
			})
			ended <- true
		}()
		select {
		case <-running:
			return true
		case <-ended:
			return false
		}
	})
}

func gobreakerTwoStep(s gobreaker.Settings, into func(*gobreaker.TwoStepCircuitBreaker[int]) error) setup {
	return func() (loop, error) {
		b := gobreaker.NewTwoStepCircuitBreaker[int](s)
		return func(n int) (good int) {
			for range n {
				if done, err := b.Allow(); err == nil {
					done(nil)
					good++
				}
			}
			return good
		}, into(b)
	}
}

func twoStepOpen(b *gobreaker.TwoStepCircuitBreaker[int]) error {
	return openByFailures(func() error {
		done, err := b.Allow()
		if err == nil {
			done(errDown)
			err = errDown
		}
		return err
	})
}

// twoStepHalfOpen leaves the one probe out.
func twoStepHalfOpen(b *gobreaker.TwoStepCircuitBreaker[int]) error {
	if err := twoStepOpen(b); err != nil {
		return err
	}
	return until("half-open", func() bool {
		_, err := b.Allow()
		return err == nil
	})
}

// Of failsafe-go.

func failsafeConfig(openFor time.Duration) circuitbreaker.Builder[int] {
	return circuitbreaker.NewBuilder[int]().
		WithFailureThreshold(failures).WithSuccessThreshold(probes).WithDelay(openFor)
}

func failsafeRate() circuitbreaker.Builder[int] {
	return circuitbreaker.NewBuilder[int]().WithFailureRateThreshold(0.5, minCalls, span)
}

// failsafeExecutor calls through an executor of the breaker, around inner policies if there are any.
func failsafeExecutor(c circuitbreaker.Builder[int], into func(circuitbreaker.CircuitBreaker[int]) error, inner ...failsafe.Policy[int]) setup {
	return func() (loop, error) {
		b := c.Build()
		e := failsafe.With(append([]failsafe.Policy[int]{b}, inner...)...)
		return func(n int) (good int) {
			for range n {
				if _, err := e.Get(one); err == nil {
					good++
				}
			}
			return good
		}, into(b)
	}
}

func failsafeTimeout() failsafe.Policy[int] { return timeout.New[int](longest) }

func failsafePermit(c circuitbreaker.Builder[int], into func(circuitbreaker.CircuitBreaker[int]) error) setup {
	return func() (loop, error) {
		b := c.Build()
		return func(n int) (good int) {
			for range n {
				if b.TryAcquirePermit() {
					b.RecordSuccess()
					good++
				}
			}
			return good
		}, into(b)
	}
}

func failsafeOpen(b circuitbreaker.CircuitBreaker[int]) error {
	return openByFailures(func() error {
		_, err := failsafe.With(b).Get(down)
		return err
	})
}

// failsafeHalfOpen leaves the one probe out.
func failsafeHalfOpen(b circuitbreaker.CircuitBreaker[int]) error {
	if err := failsafeOpen(b); err != nil {
		return err
	}
	return until("half-open", b.TryAcquirePermit)
}

// Of eapache/go-resiliency.

func resiliencyRun(into func(*resiliency.Breaker) error) setup {
	return func() (loop, error) {
		b := resiliency.New(failures, probes, forever)
		fn := func() error { return nil }
		return func(n int) (good int) {
			for range n {
				if b.Run(fn) == nil {
					good++
				}
			}
			return good
		}, into(b)
	}
}

func resiliencyOpen(b *resiliency.Breaker) error {
	return openByFailures(func() error { return b.Run(func() error { return errDown }) })
}

// Of afex/hystrix-go, whose commands are known by their names in the process.

func hystrixDo(command string, into func(command string) error) setup {
	return func() (loop, error) {
		hystrix.ConfigureCommand(command, hystrix.CommandConfig{
			Timeout:                int(longest.Milliseconds()),
			MaxConcurrentRequests:  inFlight,
			RequestVolumeThreshold: minCalls,
			ErrorPercentThreshold:  50,
			SleepWindow:            int(forever.Milliseconds()),
		})
		fn := func() error { return nil }
		return func(n int) (good int) {
			for range n {
				if hystrix.Do(command, fn, nil) == nil {
					good++
				}
			}
			return good
		}, into(command)
	}
}

func hystrixOpen(command string) error {
	return openByFailures(func() error { return hystrix.Do(command, func() error { return errDown }, nil) })
}

// Of golang.org/x/time/rate.

// wideRate is a rate that no loop uses up.
const wideRate = 1_000_000_000

func rateAllow() (loop, error) {
	l := rate.NewLimiter(wideRate, wideRate)
	return func(n int) (good int) {
		for range n {
			if l.Allow() {
				good++
			}
		}
		return good
	}, nil
}
