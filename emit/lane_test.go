package emit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// TestWaitForAKeyIsBounded: however many triggers of a key come at once, each is answered within the lane's budget.
func TestWaitForAKeyIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(45 * time.Millisecond)}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		var slowest longest
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				began := time.Now()
				_, _ = r.Emit(t.Context(), keyed("k", i))
				slowest.add(time.Since(began))
			})
			synctest.Wait()
		}
		all.Wait()
		if slowest.get() > 200*time.Millisecond {
			t.Errorf("an emit took %v; want the lane's 200ms at most", slowest.get())
		}
		if s := stats(t, r, "a"); s.Breaker.Failures > 0 {
			t.Errorf("%d failures of calls that had no time left", s.Breaker.Failures)
		}
		settled(t, r, "a", time.Minute)
		for i, id := range a.taken() {
			if id != "k#"+strconv.Itoa(i) {
				t.Fatalf("the %dth is %s", i, id)
			}
		}
	})
}

// TestFullBulkheadIsNoSickness: calls that found no slot say nothing about the consumer, though their permits were given out.
func TestFullBulkheadIsNoSickness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(40 * time.Millisecond)}
		r := one(t, a, func(c *emit.Consumer) { c.Bulkhead, c.Replay.Manual = 1, true })
		for i := range 1000 {
			go func() { _, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i))) }()
			time.Sleep(time.Millisecond)
		}
		if s := stats(t, r, "a"); s.Breaker.State != breaker.Closed || s.Reasons[emit.ReasonBulkhead] < 800 {
			t.Errorf("%v by %v with %v", s.Breaker.State, s.Breaker.Reason, s.Reasons)
		}
		time.Sleep(time.Second)
	})
}

// TestReplayWaitsForTheLiveCallOfItsKey: a letter that a person sent back is not delivered beside a live one of its key.
func TestReplayWaitsForTheLiveCallOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error { return emit.ErrRejected }}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonRejected)
		a.set(takes(45 * time.Millisecond))
		go func() { _, _ = r.Emit(t.Context(), keyed("k", 2)) }()
		synctest.Wait()
		a.Lock()
		a.max = 0
		a.Unlock()
		if n, err := r.Replay(t.Context(), "a", emit.Filter{}); n != 1 || err != nil {
			t.Errorf("Replay: %d, %v", n, err)
		}
		if a.max != 1 {
			t.Errorf("%d deliveries of one key at once", a.max)
		}
	})
}

// TestRotationOfProbes: the letter whose probe failed goes to the end of the row, so that the next half-open asks another.
func TestRotationOfProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Breaker.Open = breaker.Backoff{Base: 300 * time.Millisecond, Max: 2 * time.Second, Jitter: -1}
		})
		openBreaker(t, r)
		var mu sync.Mutex
		var asked []string
		a.set(func(_ context.Context, x emit.Trigger) error {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, x.ID)
			return errDown
		})
		time.Sleep(6 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(asked) < 4 || asked[0] == asked[1] || asked[1] == asked[2] || asked[0] == asked[2] {
			t.Errorf("probes asked %v; want another letter each time", asked)
		}
	})
}

// TestReplayYields: where live calls have the bulkhead but for the share of replay, no replay begins.
func TestReplayYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(10 * time.Second)}
		r := one(t, a, func(c *emit.Consumer) { c.Bulkhead, c.Timeout, c.Slow = 10, time.Minute, 30*time.Second })
		for i := range 9 {
			go func() { _, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i))) }()
		}
		synctest.Wait()
		a.set(fails)
		emitWant(t, r, trigger("stored"), emit.Stored, emit.ReasonFailed)
		a.set(nil)
		time.Sleep(9 * time.Second)
		before := a.called()
		time.Sleep(2 * time.Second)
		if after := a.called(); before != 10 || after != 11 {
			t.Errorf("%d calls beside 9 live ones, %d after them; want 10 and 11", before, after)
		}
	})
}

// TestRampIsForLiveTraffic: after a recovery the replay waits until live traffic is back.
func TestRampIsForLiveTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		var closedAt time.Time
		var mu sync.Mutex
		r := newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: a, Breaker: breaker.Config{Ramp: breaker.Ramp{For: 5 * time.Second}, Probe: breaker.Probe{Successes: 1}}}},
			Observer: emit.Observer{OnTransition: func(x breaker.Transition) {
				mu.Lock()
				defer mu.Unlock()
				if x.To == breaker.Closed {
					closedAt = x.At
				}
			}},
		})
		openBreaker(t, r)
		a.set(nil)
		time.Sleep(3 * time.Second)
		before := stats(t, r, "a")
		mu.Lock()
		defer mu.Unlock()
		if before.Breaker.State != breaker.Closed || before.Replayed > 2 {
			t.Errorf("%v, %d replayed %v after the recovery; want no more than its probe", before.Breaker.State, before.Replayed, time.Since(closedAt))
		}
		time.Sleep(10 * time.Second)
		if after := stats(t, r, "a"); after.Stored != 0 {
			t.Errorf("%d left after the ramp", after.Stored)
		}
	})
}

// TestEvictionFreesTheKey: a letter that had to make room holds its key back no longer, though others are stored.
func TestEvictionFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Ordered, c.Replay.Manual = true, true
			c.DeadLetters = newRing(t, emit.RingConfig{Letters: 2, Bytes: 4096, Reserved: -1})
		})
		x := keyed("k", 1)
		x.Priority = "idle-ping"
		emitWant(t, r, x, emit.Stored, emit.ReasonFailed)
		emitWant(t, r, keyed("j", 1), emit.Stored, emit.ReasonFailed)
		y := keyed("i", 1)
		y.Priority = "compliance"
		emitWant(t, r, y, emit.Stored, emit.ReasonFailed)
		if s := stats(t, r, "a"); s.Evicted != 1 {
			t.Fatalf("%d evicted", s.Evicted)
		}
		a.set(nil)
		emitWant(t, r, keyed("k", 2), emit.Delivered, "")
		emitWant(t, r, keyed("j", 2), emit.Shed, emit.ReasonBehind)
	})
}

// TestEmitAllocatesNothing: but for the deadline's context (REQ-E5). A refusal and its divert into the ring allocate nothing at all.
func TestEmitAllocatesNothing(t *testing.T) {
	ok := emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok, DeadLetters: newRing(t, emit.RingConfig{Letters: 5000, Bytes: 4 << 20})}}})
	x := emit.Trigger{ID: "1", Type: "order.paid", Source: "shop", Data: make([]byte, 500)}
	ctx := t.Context()
	do := func() {
		if _, err := r.Emit(ctx, x); err != nil && !errors.Is(err, emit.ErrShed) {
			t.Error(err)
		}
	}
	deadline := testing.AllocsPerRun(1000, func() {
		_, cancel := context.WithTimeout(ctx, time.Second)
		cancel()
	})
	if n := testing.AllocsPerRun(1000, do); n > deadline {
		t.Errorf("%v allocations for a delivery; want the %v of its deadline", n, deadline)
	}
	force(t, r, breaker.ForcedOpen)
	do()
	if n := testing.AllocsPerRun(1000, do); n != 0 {
		t.Errorf("%v allocations for a divert; want none", n)
	}
	if s := stats(t, r, "a"); s.Stored != 1002 {
		t.Errorf("%d stored", s.Stored)
	}
}
