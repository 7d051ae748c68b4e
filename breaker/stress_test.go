package breaker

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Counted invariants under load, for the race detector (REQ-B5, B8, B14): at
// most Concurrent probes at a time, each admitted call counted exactly once,
// and transitions that follow one another legally. The same for a breaker that has its stripes.
func TestStress(t *testing.T) {
	for name, busy := range map[string]bool{"one cell": false, "stripes": true} {
		t.Run(name, func(t *testing.T) { stress(t, busy) })
	}
}

func stress(t *testing.T, busy bool) {
	t.Helper()
	const workers, concurrent = 8, 2
	calls := rounds(t, 2_000) // admitted ones, for each worker
	var chain transitionChain
	b := mustNew(t, Config{
		Rules: []Rule{ConsecutiveFailures{Count: 4}, FailureRateByCount{Calls: 50}, FailureRateByTime{Span: 10 * time.Millisecond}},
		Open:  Backoff{Base: 50 * time.Microsecond, Max: time.Millisecond, Jitter: -1, Sticky: time.Millisecond},
		Probe: Probe{Concurrent: concurrent, Successes: 3, Lease: time.Hour},
		Observer: Observer{
			OnTransition: func(tr Transition) { chain.add(t, tr) },
		},
		Classify: classifyTest,
	})
	if busy {
		b.makeRoom(&b.cell)
	}
	var admitted, refused, running atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			for done := 0; done < calls; {
				p, err := b.Allow()
				if err != nil {
					refused.Add(1)
					runtime.Gosched()
					continue
				}
				done++
				admitted.Add(1)
				probe := p.probe != nil
				if probe {
					if n := running.Add(1); n > concurrent {
						t.Errorf("probes at once: got %d, want at most %d", n, concurrent)
					}
				}
				if rng.IntN(4) == 0 {
					runtime.Gosched() // so that calls overlap
				}
				if probe { // while it still holds its slot
					running.Add(-1)
				}
				finish(&p, rng)
			}
		})
	}
	wg.Wait()
	s := b.Stats()
	if got := int64(s.Successes + s.Failures + s.Ignored + s.Late); got != admitted.Load() {
		t.Errorf("results: got %d (%+v), want one for each of %d admitted calls", got, s, admitted.Load())
	}
	if got := int64(s.Rejected); got != refused.Load() {
		t.Errorf("rejected: got %d, want %d", got, refused.Load())
	}
	if s.Openings < uint64(calls/100) {
		t.Errorf("openings: got %d, too few for a stress", s.Openings)
	}
	for chain.newest.Load() < b.Stats().Generation { // a timer's transition may still be told
		runtime.Gosched()
	}
	t.Logf("%+v", s)
}

func finish(p *Permit, rng *rand.Rand) {
	switch rng.IntN(8) {
	case 0, 1:
		p.Done(errDown)
	case 3:
		p.Done(errNeutral)
	default:
		p.Done(nil)
	}
}

// transitionChain checks that each transition follows the one before.
type transitionChain struct {
	inside atomic.Bool
	newest atomic.Uint64
	last   Transition
}

func (c *transitionChain) add(t *testing.T, tr Transition) {
	t.Helper()
	if !c.inside.CompareAndSwap(false, true) {
		t.Error("two observer calls at once")
	}
	defer c.inside.Store(false)
	if tr.From != c.last.To || tr.Generation != c.last.Generation+1 || !legal(tr.From, tr.To) {
		t.Errorf("after %v>%v (%d) came %v>%v (%d)",
			c.last.From, c.last.To, c.last.Generation, tr.From, tr.To, tr.Generation)
	}
	c.last = tr
	c.newest.Store(tr.Generation)
}

func legal(from, to State) bool {
	switch from {
	case Closed:
		return to == Open
	case Open:
		return to == HalfOpen
	case HalfOpen:
		return to == Open || to == Closed
	default:
		return false
	}
}

// Everything at once, for the race detector: no call may block or panic.
func TestStressOfTheWholeSurface(t *testing.T) {
	b := mustNew(t, lagConfig())
	ops := []func(n int){
		func(int) { run(b, nil) },
		func(int) { run(b, errDown) },
		func(int) { Do(t.Context(), b, func(context.Context) (int, error) { return 0, errDown }) },
		func(n int) { b.Observe("lag", float64(n%10)/10) },
		func(int) { b.Trip(Reason{}) },
		func(n int) { _ = b.Force([]State{Closed, ForcedOpen, ForcedClosed, Disabled}[n%4], "") },
		func(int) { b.Stats() },
		func(n int) {
			c := lagConfig()
			c.Probe.Concurrent = 1 + n%3
			c.Rules = append(c.Rules, FailureRateByTime{Span: time.Duration(10+n%5) * time.Millisecond}, FailureRateByCount{Calls: 5 + n%50})
			if err := b.Reconfigure(c); err != nil {
				t.Error(err)
			}
		},
		func(int) {
			if p, err := b.AllowProbe(); err == nil {
				p.Done(nil)
			}
		},
		func(int) { b.wake(b.alarm()) },
	}
	var wg sync.WaitGroup
	for _, op := range ops {
		wg.Go(func() {
			for n := range rounds(t, 3000) {
				op(n)
			}
		})
	}
	wg.Wait()
	if err := b.Force(Closed, ""); err != nil {
		t.Fatal(err)
	}
	runN(t, b, 1, nil)
}
