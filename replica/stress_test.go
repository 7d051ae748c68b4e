package replica_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// behaviours-routing 45b: 64 goroutines mix reads of the primary and of replicas, 1 M calls, while
// membership and settings change and nodes fail: nothing panics, hangs, races or leaks a place.
// On real time: in a bubble no time would pass while somebody calls, so nothing would change.
func TestMixedPicksUnderChange(t *testing.T) {
	c := &cluster{t: t}
	cfg := c.config(3)
	cfg.Calm, cfg.Fast, cfg.PrimaryInterval, cfg.SampleTimeout = 10*ms, 2*ms, 5*ms, 5*ms
	cfg.Open.Base, cfg.Ramp = 10*ms, 10*ms
	set, err := replica.NewSet(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	c.Set = set
	if err := set.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	const workers, calls = 64, 1_000_000 / 64
	var counted [3]atomic.Int64 // replica, primary, refused
	var callers, churner sync.WaitGroup
	var over atomic.Bool
	var changes, made atomic.Int64
	churner.Go(func() {
		for ; !over.Load(); changes.Add(1) {
			churn(c, int(changes.Load()))
		}
	})
	for w := range workers {
		callers.Go(func() {
			i := 0
			for ; i < calls || changes.Load() < 10; i++ {
				mixedCall(c, &counted, (w+i)%4 == 0, i)
			}
			made.Add(int64(i))
		})
	}
	callers.Wait()
	over.Store(true)
	churner.Wait()
	onReplicas, onPrimary, refused := counted[0].Load(), counted[1].Load(), counted[2].Load()
	t.Logf("%d on replicas, %d on the primary, %d refused, during %d rounds of changes", onReplicas, onPrimary, refused, changes.Load())
	if onReplicas+onPrimary+refused != made.Load() || onPrimary < workers*calls/4 {
		t.Errorf("%d + %d + %d calls counted, want %d, a quarter of them on the primary", onReplicas, onPrimary, refused, made.Load())
	}
	if onReplicas < workers*calls/4 {
		t.Errorf("only %d reads on replicas: this shows nothing", onReplicas)
	}
	for _, n := range append(set.Stats().Replicas, set.Stats().Primary) {
		if n.InFlight != 0 {
			t.Errorf("%s still counts %d reads in flight", n.Name, n.InFlight)
		}
	}
}

func mixedCall(c *cluster, counted *[3]atomic.Int64, primary bool, i int) {
	choice, err := c.Pick(replica.Requirement{PrimaryOnly: primary})
	switch {
	case err != nil:
		counted[2].Add(1)
		return
	case choice.Primary():
		counted[1].Add(1)
	default:
		counted[0].Add(1)
	}
	outcome := breaker.Success
	if i%1000 == 0 {
		outcome = breaker.Failure
	}
	choice.DoneAs(outcome, nil)
}

// churn changes what can be changed once; the third replica stays well.
func churn(c *cluster, i int) {
	extra := newServer("extra", true)
	if err := c.Add(extra.node()); err != nil {
		c.t.Error(err)
	}
	c.r[i%2].fail([]error{nil, errors.New("gone")}[i/2%2])
	st := replica.Settings{Trip: time.Duration(500+i%100) * ms, Calm: 10 * ms, Fast: 2 * ms, PrimaryInterval: 5 * ms, SampleTimeout: 5 * ms, Ramp: 10 * ms}
	st.Open.Base = 10 * ms
	if err := c.Reconfigure(st); err != nil {
		c.t.Error(err)
	}
	if err := c.Refresh(context.Background()); err != nil {
		c.t.Error(err)
	}
	if err := c.Remove("extra"); err != nil {
		c.t.Error(err)
	}
}

// The cap of reads in flight is never exceeded, whoever asks at once (REQ-R17).
func TestCapHoldsUnderConcurrency(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Replicas[0].MaxInFlight = 3 }, func(c *cluster) {
		var now, most, refused atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 2000 {
					choice, err := c.Pick(replica.Requirement{})
					if err != nil {
						refused.Add(1)
						continue
					}
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					runtime.Gosched() // lets the others meet it
					now.Add(-1)
					choice.Done(nil)
				}
			})
		}
		wg.Wait()
		if got := most.Load(); got != 3 || refused.Load() == 0 {
			t.Errorf("%d reads at once and %d refused, want the cap of 3 reached and kept", got, refused.Load())
		}
	})
}

// REQ-R1: a pick that succeeds allocates nothing.
func TestPickAllocatesNothing(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		synctest.Wait()
		allocs := testing.AllocsPerRun(1000, func() {
			choice, err := c.Pick(replica.Requirement{})
			if err != nil {
				t.Fatal(err)
			}
			_ = choice.Eligible()
			choice.Done(nil)
		})
		if allocs != 0 {
			t.Errorf("%v allocations a pick, want 0", allocs)
		}
	})
}
