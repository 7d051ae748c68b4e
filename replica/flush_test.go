package replica_test

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// REQ-R8: a primary that holds WAL back is asked to flush it once that has lasted for two intervals, and once.
func TestIdlePrimaryIsAskedToFlush(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].set(func(l *replica.Look) { l.Flushed = 1 }) // a replica's is not looked at
		time.Sleep(5 * time.Second)
		c.primary.hold(64)
		time.Sleep(449 * ms)
		if got := c.primary.flushed(); got != 0 {
			t.Errorf("asked %d times within 450 ms, want 0", got)
		}
		time.Sleep(380 * ms) // three intervals at most from the beginning
		if got := c.primary.flushed(); got != 1 {
			t.Errorf("asked %d times within 825 ms, want once", got)
		}
		c.r[0].moveTo(c.position(c.primary))
		c.waitFor(2*time.Second, "caught up", func() bool { return c.stats(0).Hi < 300*ms })
		time.Sleep(10 * time.Second)
		if a, b := c.primary.flushed(), c.r[0].flushed(); a != 1 || b != 0 {
			t.Errorf("flushes: %d on the primary, %d on the replica; want 1, 0", a, b)
		}
		if got := c.transitions(); len(got) != 0 {
			t.Errorf("transitions %v, want none", got)
		}
	})
}

// A primary that does not flush is asked once in four intervals, and in 800 ms, at most.
func TestFlushIsAskedSeldom(t *testing.T) {
	for interval, most := range map[time.Duration]int{10 * ms: 12, 250 * ms: 10, time.Second: 3} {
		inBubble(t, 1, func(cfg *replica.Config) { cfg.PrimaryInterval, cfg.MaxStaleness = interval, 5*time.Second }, func(c *cluster) {
			c.primary.flushBy(func(*replica.Look) error { return nil })
			c.primary.hold(64)
			time.Sleep(10 * time.Second)
			if got := c.primary.flushed(); got > most || got < most/2-1 {
				t.Errorf("interval %v: asked %d times in 10 s, want at most %d and at least half of that", interval, got, most)
			}
		})
	}
}

// REQ-R2: a primary that flushes by itself, some time after its asynchronous commits, is not asked; nor is one
// that does not tell what is flushed, nor a server in recovery.
func TestFlushIsNotAsked(t *testing.T) {
	t.Run("busy", func(t *testing.T) {
		inBubble(t, 1, nil, func(c *cluster) {
			for range 1000 {
				time.Sleep(20 * ms)
				c.primary.hold(100)
				p := c.position(c.primary)
				time.AfterFunc(220*ms, func() { c.primary.set(func(l *replica.Look) { l.Flushed = p }) })
			}
			time.Sleep(time.Second)
			if got := c.primary.flushed(); got != 0 {
				t.Errorf("asked %d times, want 0", got)
			}
		})
	})
	t.Run("not told", func(t *testing.T) {
		inBubble(t, 1, nil, func(c *cluster) {
			c.primary.moveTo(2000)
			time.Sleep(3 * time.Second)
			if got := c.primary.flushed(); got != 0 || c.stats(0).Lo == 0 {
				t.Errorf("asked %d times, lag at least %v; want 0, and the position taken for flushed", got, c.stats(0).Lo)
			}
		})
	})
	t.Run("in recovery", func(t *testing.T) {
		inBubble(t, 1, nil, func(c *cluster) {
			c.primary.hold(64)
			time.Sleep(300 * ms) // it was seen
			c.primary.set(func(l *replica.Look) { l.InRecovery = true })
			time.Sleep(3 * time.Second)
			if got := c.primary.flushed(); got != 0 {
				t.Errorf("asked %d times, want 0", got)
			}
		})
	})
}

// REQ-R5: that a primary cannot be asked to flush is told as a fault. It is no failed sample: the primary answers.
func TestFlushThatFailsIsAFault(t *testing.T) {
	for name, flush := range map[string]func(*replica.Look) error{
		"error": func(*replica.Look) error { return errors.New("no more\ntransactions") },
		"panic": func(*replica.Look) error { panic("flush") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, nil, func(c *cluster) {
				c.primary.flushBy(flush)
				c.primary.hold(64)
				c.waitFor(2*time.Second, "asked", func() bool { return c.primary.flushed() == 1 })
				c.told.Lock()
				c.told.samples = nil
				c.told.Unlock()
				time.Sleep(300 * ms)
				c.told.Lock()
				defer c.told.Unlock()
				if len(c.told.faults) != 1 || c.told.faults[0].Part != "Flush" || c.told.faults[0].Name != "primary" {
					t.Fatalf("faults %+v, want one of the primary's Flush", c.told.faults)
				}
				if f := c.told.faults[0]; name == "error" && f.Detail != "no more transactions" || name == "panic" && f.Panic != "flush" {
					t.Errorf("fault %+v does not say what it was", f)
				}
				for _, s := range c.told.samples {
					if s.Primary && s.Condition != replica.Fit {
						t.Errorf("sample of the primary: %v, want ok", s.Condition)
					}
				}
				c.primary.mu.Lock()
				defer c.primary.mu.Unlock()
				if c.primary.mu.connects != 2 {
					t.Errorf("%d connections, want a new one after the fault", c.primary.mu.connects)
				}
			})
		})
	}
}

// REQ-R8: what a primary holds back is no evidence of lag: it opens no breaker, and a probe decides nothing by it.
func TestUnflushedIsNoLag(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.primary.flushBy(func(*replica.Look) error { return nil })
		time.Sleep(time.Second)
		c.primary.hold(64)
		time.Sleep(20 * time.Second)
		if s := c.stats(0); s.Lo != 0 || s.Condition != replica.Stale {
			t.Errorf("lag at least %v, %v; want 0, stale", s.Lo, s.Condition)
		}
		c.wantState(0, breaker.Closed)
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		time.Sleep(10 * time.Second)
		c.wantState(0, breaker.HalfOpen)
		if got := c.stats(0).Breaker.Openings; got != 1 {
			t.Errorf("%d openings, want the one by the failed sample", got)
		}
		c.primary.set(func(l *replica.Look) { l.Flushed = l.Position })
		c.r[0].moveTo(c.position(c.primary))
		c.waitFor(2*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// REQ-R9: a probe finds a late replica late also where the primary flushes while it waits.
func TestProbeCountsFromTheFlush(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.primary.flushBy(func(*replica.Look) error { return nil })
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		c.primary.hold(64)
		c.waitFor(5*time.Second, "half-open", func() bool { return c.state(0) == breaker.HalfOpen })
		time.Sleep(100 * ms)
		c.primary.set(func(l *replica.Look) { l.Flushed = l.Position })
		flushed := time.Now()
		c.waitFor(2*time.Second, "open again", func() bool { return c.state(0) == breaker.Open })
		var last breaker.Transition
		for _, tr := range c.transitions() {
			last = tr
		}
		if last.Reason.Rule != "lag" || last.Reason.Value < 0.5 || last.Reason.Value > 0.6 || last.At.Sub(flushed) < 500*ms {
			t.Errorf("opened %v after the flush by %+v, want lag since the flush", last.At.Sub(flushed), last.Reason)
		}
	})
}
