package replica_test

import (
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// A switchover: a replica followed the new primary while the sampler's connection still led to the old one. It
// held more than that did and was barred for good, though two timelines cannot be compared.
func TestSwitchoverDoesNotBarWhoFollows(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(5*time.Second, c.r...)
		p := c.position(c.primary) + 500
		c.r[0].set(func(l *replica.Look) { l.InRecovery, l.Timeline, l.Position = false, 2, p })
		c.r[1].set(func(l *replica.Look) { l.Timeline, l.Position = 2, p })
		time.Sleep(5 * time.Second)
		if got := c.stats(1).Condition; got != replica.OtherTimeline {
			t.Errorf("while the old primary is sampled: %v, want the other timeline", got)
		}
		c.primary.set(func(l *replica.Look) { l.Instance, l.Timeline, l.Position = "r1", 2, p })
		c.waitFor(4*time.Second, "r2 in use", func() bool { _, err := c.Pick(replica.Requirement{}); return err == nil })
	})
}

// A primary that is a long round trip away is an obstacle to the catch-up probe, not evidence of lag: the replica that
// follows it closely comes back, by the longest time half-open at the latest.
func TestFarPrimaryDoesNotKeepAReplicaOpen(t *testing.T) {
	for _, rtt := range []time.Duration{150 * ms, 400 * ms, 700 * ms} {
		t.Run(rtt.String(), func(t *testing.T) {
			inBubble(t, 1, func(cfg *replica.Config) { cfg.MaxStaleness = 5 * time.Second }, func(c *cluster) {
				c.primary.slow(rtt)
				stop := c.follow(0)
				defer stop()
				time.Sleep(10 * time.Second)
				c.Breaker("r1").Trip(breaker.Reason{Detail: "test"})
				c.waitFor(70*time.Second, "closed again", func() bool { return c.state(0) == breaker.Closed })
				if got := c.stats(0).Breaker.Openings; got != 1 {
					t.Errorf("%d openings, want the one", got)
				}
			})
		})
	}
}

// The reason of a probe that was given up told the probe's patience, 0.51 s, as the lag of a replica that was 10 s late.
func TestProbeTellsTheWholeLag(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(10 * time.Second)
		var last breaker.Transition
		for _, tr := range c.transitions() {
			if tr.To == breaker.Open {
				last = tr
			}
		}
		if last.From != breaker.HalfOpen || last.Reason.Value < 2 {
			t.Errorf("last opening from %v by %v, want a failed probe that tells seconds", last.From, last.Reason)
		}
	})
}

// REQ-B18, REQ-R5: runtime.Goexit in an observer ended that node's sampler for good, with nobody told.
func TestGoexitInAnObserverDoesNotEndTheSampler(t *testing.T) {
	var once atomic.Bool
	adjust := func(cfg *replica.Config) {
		told := cfg.Observer.OnSample
		cfg.Observer.OnSample = func(s replica.Sample) {
			told(s)
			if s.Node == "r1" && once.CompareAndSwap(false, true) {
				runtime.Goexit()
			}
		}
	}
	inBubble(t, 1, adjust, func(c *cluster) {
		before, _, _ := c.r[0].counts()
		time.Sleep(10 * time.Second)
		if after, _, _ := c.r[0].counts(); after-before < 4 {
			t.Errorf("%d samples in 10 s", after-before)
		}
		c.told.Lock()
		defer c.told.Unlock()
		if len(c.told.faults) != 1 {
			t.Errorf("faults told: %v", c.told.faults)
		}
	})
}

// REQ-R5: on an idle primary each look at the primary vouches for a replica again, so the bound alone does not age with
// the replica's own samples. Their age is asked too.
func TestSamplesAgeOnAnIdlePrimary(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		hang := make(chan struct{})
		defer close(hang)
		c.r[0].mu.Lock()
		c.r[0].mu.hang = hang
		c.r[0].mu.Unlock()
		time.Sleep(5 * time.Second)
		_, err := c.Pick(replica.Requirement{})
		if !errors.Is(err, replica.ErrNoReplica) || !strings.Contains(err.Error(), "last sampled") {
			t.Errorf("err = %v, want a refusal for the age of the sample", err)
		}
	})
}

// A connection for reads that leads to another server than the sample did voids the sample.
func TestConfirmVoidsTheSampleOfAnotherServer(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		if !c.Confirm("r1", "r1") || !c.Confirm("nobody", "x") || !c.Confirm("primary", "x") {
			t.Error("the sampled server, or one that is not guarded, was not confirmed")
		}
		for range 2 { // the second one is not sampled anew yet
			if c.Confirm("r1", "another") {
				t.Error("another server was confirmed")
			}
		}
		if _, err := c.Pick(replica.Requirement{}); err == nil || !strings.Contains(err.Error(), "another server") {
			t.Errorf("err = %v", err)
		}
		c.waitFor(100*ms, "sampled anew", func() bool { return c.stats(0).Condition == replica.Fit })
	})
}

// A "budget minus elapsed" that went below zero loosened the bound to the default.
func TestNegativeBoundIsNoDefault(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		if _, err := c.Pick(replica.Requirement{MaxStaleness: -1}); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("err = %v, want ErrNoReplica", err)
		}
	})
}

// Waiting for a sample of all nodes is not over with the removal of one.
func TestRefreshOutlivesARemoval(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.r[1].slow(900 * ms)
		done := make(chan error, 1)
		go func() { done <- c.Refresh(c.t.Context()) }()
		time.Sleep(100 * ms)
		if err := c.Remove("r2"); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("Refresh: %v", err)
		}
	})
}

// A threshold alone is a whole setting: defaults that it implies do not contradict it.
func TestTripAloneIsASetting(t *testing.T) {
	for _, trip := range []time.Duration{10 * ms, 20 * ms, 100 * ms, 175 * ms, 10 * time.Second, replica.Never} {
		inBubble(t, 1, func(cfg *replica.Config) { cfg.Trip = trip }, func(*cluster) {})
	}
	c := &cluster{t: t}
	cfg := c.config(1)
	cfg.Calm, cfg.Trip = replica.Never-1, 1000*24*time.Hour
	if _, err := replica.NewSet(cfg); err == nil || !strings.Contains(err.Error(), "Calm is") || !strings.Contains(err.Error(), "Trip is") {
		t.Errorf("huge settings: %v", err)
	}
}
