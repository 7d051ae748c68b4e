package main

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// ours makes a breaker, puts it into a state and hands it to a loop.
func ours(c breaker.Config, into func(*breaker.Breaker) error, use func(*breaker.Breaker) loop) setup {
	return func() (loop, error) {
		b, err := breaker.New(c)
		if err == nil {
			err = into(b)
		}
		return use(b), err
	}
}

func oursAllowDone(b *breaker.Breaker) loop {
	return func(n int) (good int) {
		for range n {
			p, err := b.Allow()
			if err == nil {
				p.Done(nil)
				good++
			}
		}
		return good
	}
}

func oursDo(b *breaker.Breaker) loop {
	ctx, fn := context.Background(), func(context.Context) (int, error) { return 1, nil }
	return func(n int) (good int) {
		for range n {
			if _, err := breaker.Do(ctx, b, fn); err == nil {
				good++
			}
		}
		return good
	}
}

// oursConfig is the shared rule: five failures in a row, one probe.
func oursConfig(openFor time.Duration) breaker.Config {
	return breaker.Config{
		Open:  breaker.Backoff{Base: openFor, Max: openFor, Jitter: -1},
		Probe: breaker.Probe{Lease: forever, Longest: forever},
	}
}

func oursRate() breaker.Config {
	return breaker.Config{Rules: []breaker.Rule{breaker.FailureRateByTime{}}}
}

func oursLatency() breaker.Config {
	return breaker.Config{Rules: []breaker.Rule{breaker.Percentile{}, breaker.CUSUM{}}}
}

func oursOpen(b *breaker.Breaker) error {
	return openByFailures(func() error {
		p, err := b.Allow()
		if err == nil {
			p.Done(errDown)
			err = errDown
		}
		return err
	})
}

// oursHalfOpen leaves the one probe out.
func oursHalfOpen(b *breaker.Breaker) error {
	if err := oursOpen(b); err != nil {
		return err
	}
	return until("half-open", func() bool {
		_, err := b.Allow()
		return err == nil
	})
}
