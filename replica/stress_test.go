package replica_test

import (
	"errors"
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
func TestMixedPicksUnderChange(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		const workers, calls = 64, 1_000_000 / 64
		var wg sync.WaitGroup
		var counted [3]atomic.Int64 // replica, primary, refused
		for w := range workers {
			wg.Go(func() {
				for i := range calls {
					mixedCall(c, &counted, (w+i)%4 == 0, i)
				}
			})
		}
		wg.Go(func() { churn(c) })
		wg.Wait()
		if total := counted[0].Load() + counted[1].Load() + counted[2].Load(); total != workers*calls {
			t.Errorf("%d calls counted, want %d", total, workers*calls)
		}
		for _, n := range append(c.Stats().Replicas, c.Stats().Primary) {
			if n.InFlight != 0 {
				t.Errorf("%s still counts %d reads in flight", n.Name, n.InFlight)
			}
		}
	})
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
	if i%100 == 0 {
		outcome = breaker.Failure
	}
	choice.DoneAs(outcome, nil)
}

func churn(c *cluster) {
	for i := range 50 {
		extra := newServer("extra", true)
		if err := c.Add(extra.node()); err != nil {
			c.t.Error(err)
		}
		c.r[i%3].fail([]error{nil, errors.New("gone")}[i%2])
		if err := c.Reconfigure(replica.Settings{Trip: time.Duration(500+i) * ms}); err != nil {
			c.t.Error(err)
		}
		time.Sleep(100 * ms)
		if err := c.Remove("extra"); err != nil {
			c.t.Error(err)
		}
	}
}

// The cap of reads in flight is never exceeded, whoever asks at once (REQ-R17).
func TestCapHoldsUnderConcurrency(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Replicas[0].MaxInFlight = 3 }, func(c *cluster) {
		var now, most atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 2000 {
					choice, err := c.Pick(replica.Requirement{})
					if err != nil {
						continue
					}
					n := now.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					now.Add(-1)
					choice.Done(nil)
				}
			})
		}
		wg.Wait()
		if got := most.Load(); got > 3 {
			t.Errorf("%d reads at once, cap 3", got)
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
