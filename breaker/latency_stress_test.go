package breaker

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// sumRule adds up what a latency window hands out.
type sumRule struct{ sum *sumDetector }

func (r sumRule) withDefaults() Rule { return r }
func (sumRule) check(string) error   { return nil }
func (r sumRule) detector() detector { return r.sum }

type sumDetector struct{ calls, slow, ticks uint64 }

func (*sumDetector) limit() time.Duration                { return 50 * ms }
func (*sumDetector) reset(tally)                         {}
func (*sumDetector) failed(tally) (Reason, bool)         { return Reason{}, false }
func (*sumDetector) inherit(detector, tally) bool        { return true }
func (*sumDetector) settle(time.Duration) (Reason, bool) { return Reason{}, false }

func (d *sumDetector) ripened(r ripe) (Reason, bool) {
	d.calls, d.slow, d.ticks = d.calls+r.calls, d.slow+r.slow, d.ticks+1
	return Reason{}, false
}

// Every measured call is counted once, and none is slow that was not, from all
// processors at once. What was not measured because nobody could judge, says so.
func TestLatencyStress(t *testing.T) {
	const callers, each = 8, 20_000
	sum := &sumDetector{}
	b := mustNew(t, Config{Rules: []Rule{sumRule{sum}}, Classify: classifyTest})
	type count struct{ measured, long, withdrawn uint64 }
	counts := make(chan count, callers)
	for range callers {
		go func() {
			var c count
			for i := range each {
				began := time.Now()
				p, err := b.Allow()
				if err != nil {
					t.Error(err)
					break
				}
				measured := p.word&measuredFlag != 0
				if err := []error{nil, nil, nil, errNeutral, errDown}[i%5]; err != nil {
					p.Done(err)
					c.withdrawn += btoi(measured)
				} else {
					p.Done(nil)
				}
				c.measured += btoi(measured)
				c.long += btoi(time.Since(began) >= 50*ms)
			}
			counts <- c
		}()
	}
	var all count
	for range callers {
		c := <-counts
		all.measured, all.long, all.withdrawn = all.measured+c.measured, all.long+c.long, all.withdrawn+c.withdrawn
	}
	if got, want := b.Stats().Successes, uint64(callers*each*3/5); got != want {
		t.Errorf("got %d successes, want %d", got, want)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judgeLatencyLocked(b.clock.since() + time.Minute)
	if want := all.measured - all.withdrawn; sum.calls+all.long < want || sum.calls > want+all.long {
		t.Errorf("got %d calls, want %d", sum.calls, want)
	}
	if sum.slow > all.long {
		t.Errorf("got %d slow calls, at most %d took so long", sum.slow, all.long)
	}
	t.Logf("%d of %d calls measured, %d ticks, %d calls lasted for 50 ms or more", all.measured, callers*each, sum.ticks, all.long)
}

func btoi(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// The same while the state changes all the time: counts stay sane, and nothing of an older
// generation is left.
func TestLatencyStressUnderForce(t *testing.T) {
	sum := &sumDetector{}
	b := mustNew(t, Config{Rules: []Rule{ConsecutiveFailures{Count: 1 << 30}, sumRule{sum}}})
	var running sync.WaitGroup
	var admitted, unmeasured atomic.Uint64
	for range 4 {
		running.Go(func() {
			for range 20_000 {
				if p, err := b.Allow(); err == nil {
					admitted.Add(1)
					if stateOf(p.word) == Disabled {
						unmeasured.Add(1)
					}
					p.Done(nil)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { running.Wait(); close(over) }()
	for i := 0; ; i++ {
		_ = b.Force([]State{Closed, ForcedClosed, ForcedOpen, Disabled}[i%4], "")
		select {
		case <-over:
		default:
			continue
		}
		break
	}
	_ = b.Force(Closed, "")
	runN(t, b, 10, nil)
	if s := b.Stats(); s.Successes+s.Late+unmeasured.Load() != admitted.Load()+10 {
		t.Errorf("got %d successes, %d late, %d while disabled; want %d in all", s.Successes, s.Late, unmeasured.Load(), admitted.Load()+10)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judgeLatencyLocked(b.clock.since() + time.Minute)
	if got := admitted.Load(); sum.calls < 10 || sum.calls > got+10 || sum.slow > got/100 {
		t.Errorf("got %d calls, %d slow, of %d admitted", sum.calls, sum.slow, got)
	}
}

// Reconfigure swaps the thresholds while calls run: each success counts once.
func TestLatencyStressUnderReconfigure(t *testing.T) {
	b := mustNew(t, Config{Rules: []Rule{SlowCallRate{MinCalls: 1 << 30}}})
	const callers, each = 4, 20_000
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for range each {
				if p, err := b.Allow(); err == nil {
					p.Done(nil)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() { running.Wait(); close(over) }()
	sets := [][]Rule{
		{ConsecutiveFailures{}},
		{SlowCallRate{MinCalls: 1 << 30}},
		{CUSUM{Limit: 1000}, SlowCallRate{Threshold: time.Second, MinCalls: 1 << 30}},
		{SlowCallRate{Threshold: time.Second, MinCalls: 1 << 30}, FailureRateByTime{}},
	}
	for i := 0; ; i++ {
		if err := b.Reconfigure(Config{Rules: sets[i%len(sets)]}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
		default:
			continue
		}
		break
	}
	if got := b.Stats().Successes; got != callers*each {
		t.Errorf("got %d successes, want %d (%d late)", got, callers*each, b.Stats().Late)
	}
}
