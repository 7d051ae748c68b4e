package breaker

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStress with ramp, verdict by rate and latency rules switched on, and settings that change
// meanwhile, and stripes that come: what is counted must hold all the same (REQ-B5, B8, B14, B16).
func TestStressWithEveryRule(t *testing.T) {
	const workers = 8
	s := &ruleStress{t: t, calls: rounds(t, 2_000)}
	c := s.config()
	s.b = mustNew(t, c)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { s.work(rand.New(rand.NewPCG(2, uint64(w)))) })
	}
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	s.change(c, over)
	s.check()
	for s.chain.newest.Load() < s.b.Stats().Generation { // a timer's transition may still be told
		runtime.Gosched()
	}
}

type ruleStress struct {
	t                          *testing.T
	b                          *Breaker
	chain                      transitionChain
	calls                      int // admitted ones, for each worker
	admitted, refused, running atomic.Int64
	ramped                     atomic.Int64
}

const stressProbes = 2

func (s *ruleStress) config() Config {
	return Config{
		Rules: []Rule{
			ConsecutiveFailures{Count: 6},
			SlowCallRate{Threshold: 200 * time.Microsecond, Span: 10 * ms, MinCalls: 5},
			CUSUM{Threshold: 100 * time.Microsecond, Healthy: 0.2, Sick: 0.9},
			Percentile{Threshold: 200 * time.Microsecond, Span: 10 * ms, Quantile: 0.5, Windows: 1, MinCalls: 5},
			DryRun{Rule: FailureRateByTime{Span: 10 * ms, MinCalls: 5}},
		},
		Histogram: true,
		Open:      Backoff{Base: 50 * time.Microsecond, Max: time.Millisecond, Jitter: -1},
		Probe:     Probe{Concurrent: stressProbes, Of: 4, Rate: 0.5, Lease: time.Hour},
		Ramp:      Ramp{For: 500 * time.Microsecond, From: 0.2, MinCalls: 4},
		Observer:  Observer{OnTransition: func(tr Transition) { s.chain.add(s.t, tr) }},
		Classify:  classifyTest,
	}
}

func (s *ruleStress) work(rng *rand.Rand) {
	for done := 0; done < s.calls; {
		p, err := s.b.Allow()
		if err != nil {
			s.refused.Add(1)
			if rng.IntN(500) == 0 {
				s.b.TripFor(100*time.Microsecond, Reason{})
			}
			runtime.Gosched()
			continue
		}
		done++
		s.admitted.Add(1)
		s.ramped.Add(int64(p.word & rampFlag / rampFlag))
		s.hold(&p, rng)
		finish(&p, rng)
	}
}

// hold counts the probes that are under way, while they hold their slots.
func (s *ruleStress) hold(p *Permit, rng *rand.Rand) {
	if p.probe != nil {
		if n := s.running.Add(1); n > stressProbes {
			s.t.Errorf("probes at once: got %d, want at most %d", n, stressProbes)
		}
		defer s.running.Add(-1)
	}
	for range rng.IntN(8) {
		runtime.Gosched() // so that calls overlap, and some are slow
	}
}

// change reconfigures until the work is over, and leaves Concurrent alone.
func (s *ruleStress) change(c Config, over <-chan struct{}) {
	for i := 0; ; i++ {
		c.Histogram = i%2 == 0
		c.Ramp.For = time.Duration(i%3) * 300 * time.Microsecond
		c.Rules[0] = ConsecutiveFailures{Count: 3 + i%5}
		if err := s.b.Reconfigure(c); err != nil {
			s.t.Error(err)
		}
		s.b.Stats()
		if i == 3 {
			s.b.makeRoom(&s.b.cell) // in the midst of it
		}
		select {
		case <-over:
			return
		default:
			runtime.Gosched()
		}
	}
}

func (s *ruleStress) check() {
	s.t.Helper()
	got := s.b.Stats()
	if n := int64(got.Successes + got.Failures + got.Ignored + got.Late); n != s.admitted.Load() {
		s.t.Errorf("results: got %d (%+v), want one for each of %d admitted calls", n, got, s.admitted.Load())
	}
	if n := int64(got.Rejected); n != s.refused.Load() {
		s.t.Errorf("rejected: got %d, want %d", n, s.refused.Load())
	}
	if got.ProbesInFlight != 0 {
		s.t.Errorf("probes in flight at the end: got %d, want 0", got.ProbesInFlight)
	}
	if got.Openings < 5 || s.ramped.Load() == 0 {
		s.t.Errorf("%d openings, %d calls admitted while traffic ramped up: too few for a stress", got.Openings, s.ramped.Load())
	}
	s.t.Logf("%d ramped up, %+v", s.ramped.Load(), got)
}
