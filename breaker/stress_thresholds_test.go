package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Latency windows that come, go and change their order under calls, among changes of state: each
// admitted call counts once (REQ-B8, B16).
func TestStressOfLatencyWindowsThatChange(t *testing.T) {
	const workers = 6
	calls := rounds(t, 20_000)
	slow := func(d time.Duration) Rule {
		return SlowCallRate{Threshold: d, Span: 10 * ms, Rate: 0.99, MinCalls: 1 << 30}
	}
	us := time.Microsecond
	ruleSets := [][]Rule{
		{slow(100 * us)},
		{slow(200 * us), slow(100 * us)},
		{slow(100 * us), slow(200 * us)},
		{slow(200 * us), FailureRateByTime{Span: 10 * ms}},
		{slow(400 * us), slow(200 * us), slow(100 * us)},
		{ConsecutiveFailures{Count: 1 << 30}},
	}
	c := Config{Rules: ruleSets[0], Open: Backoff{Base: time.Microsecond, Max: time.Microsecond, Jitter: -1}, Classify: classifyTest}
	b := mustNew(t, c)
	var admitted, successes, disabled atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(3, uint64(w)))
			for done := 0; done < calls; {
				p, err := b.Allow()
				if err != nil {
					runtime.Gosched()
					continue
				}
				done++
				if stateOf(p.word) == Disabled {
					disabled.Add(1)
				} else {
					admitted.Add(1)
				}
				if rng.IntN(4) == 0 {
					runtime.Gosched()
				}
				switch rng.IntN(16) {
				case 0:
					p.Done(errNeutral)
				case 1:
					p.Done(errDown)
				default:
					p.Done(nil)
					successes.Add(1)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	rng := rand.New(rand.NewPCG(4, 4))
	for running := true; running; {
		select {
		case <-over:
			running = false
		default:
		}
		switch rng.IntN(8) {
		case 0:
			_ = b.Force([]State{Closed, ForcedClosed, Disabled, Closed}[rng.IntN(4)], "")
			_ = b.Force(Closed, "")
		case 1:
			b.Trip(Reason{})
			runtime.Gosched()
			_ = b.Force(Closed, "")
		default:
			c.Rules, c.Histogram = ruleSets[rng.IntN(len(ruleSets))], rng.IntN(2) == 0
			if err := b.Reconfigure(c); err != nil {
				t.Fatal(err)
			}
		}
		b.Stats()
		runtime.Gosched()
	}
	s := b.Stats()
	if got := int64(s.Successes + s.Failures + s.Ignored + s.Late); got != admitted.Load() {
		t.Errorf("results: got %d (%+v), want one for each of %d admitted calls", got, s, admitted.Load())
	}
	if s.Successes == 0 || int64(s.Successes) > successes.Load() {
		t.Errorf("successes: got %d of %d", s.Successes, successes.Load())
	}
	t.Logf("%d admitted, %d while disabled, %+v", admitted.Load(), disabled.Load(), s)
}
