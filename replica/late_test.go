package replica_test

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

var acceptsLate = replica.Requirement{AcceptLate: time.Minute}

// late has all replicas replay nothing any more for d, while the primary goes on.
func (c *cluster) late(d time.Duration) (since time.Time) {
	c.writing(3*time.Second, c.r...)
	since = time.Now()
	c.writing(d)
	return since
}

func (c *cluster) wantLate(r replica.Requirement, want bool) replica.Choice {
	c.t.Helper()
	if got := c.Eligible(r) > 0; got != want {
		c.t.Errorf("%v: eligible: %v, want %v", c.state(0), got, want)
	}
	choice, err := c.Pick(r)
	if got := err == nil && choice.Late(); got != want || !want && !errors.Is(err, replica.ErrNoReplica) {
		c.t.Errorf("%v: late: %v, error %v; want %v", c.state(0), got, err, want)
	}
	return choice
}

// REQ-D5, REQ-R4: a replica whose only fault is lag takes the reads that accept it and no other, while its breaker
// is closed, open and half-open, and tells no less than its true age.
func TestLateReplicaByChoice(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Open.Base = 20 * ms }, func(c *cluster) {
		since := c.late(600 * ms)
		seen := map[breaker.State]bool{}
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); c.writing(20 * ms) {
			if c.stats(0).Condition == replica.Fit {
				continue // its newest sample is from before
			}
			c.wantLate(replica.Requirement{}, false)
			c.wantLate(replica.Requirement{AcceptUnverified: true, MaxStaleness: replica.Never}, false)
			choice := c.wantLate(acceptsLate, true)
			_, hi := choice.Staleness()
			if age := time.Since(since); hi < age || hi > age+2*time.Second {
				c.t.Fatalf("Hi %v, want %v or little more", hi, age)
			}
			if !choice.Eligible() || choice.Primary() || choice.Unverified() {
				c.t.Fatalf("choice %+v", choice)
			}
			seen[c.state(0)] = true
			choice.Done(nil)
			c.wantLate(replica.Requirement{AcceptLate: time.Since(since)}, false) // too old
		}
		if !seen[breaker.Closed] || !seen[breaker.Open] {
			c.t.Errorf("states in which it took late reads: %v", seen)
		}
		if b := c.stats(0).Breaker; b.Successes != 0 || c.stats(0).InFlight != 0 {
			c.t.Errorf("late reads counted: %+v", b)
		}
	})
}

// REQ-D5: while its half-open probe is under way, the slot stays the probe's.
func TestLateReadTakesNoProbeSlot(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) {
		cfg.Reenter, cfg.Trip = 200*ms, 2*time.Second
		cfg.MaxStaleness = 4 * time.Second
	}, func(c *cluster) {
		c.late(7 * time.Second)
		c.waitFor(10*time.Second, "half-open", func() bool { return c.state(0) == breaker.HalfOpen })
		c.r[0].slow(300 * ms) // the probe's look
		for range 10 {
			choice := c.wantLate(acceptsLate, true)
			choice.DoneAs(breaker.Success, nil)
		}
		c.wantState(0, breaker.HalfOpen)
		if b := c.stats(0).Breaker; b.ProbeSuccesses != 0 || b.Successes != 0 {
			c.t.Errorf("late reads counted: %+v", b)
		}
	})
}

// REQ-D5, REQ-R4: a replica that is open for another reason than lag takes no late read, however late it is besides.
func TestLateReplicaThatIsOpenForAnotherReason(t *testing.T) {
	for name, fault := range map[string]func(c *cluster){
		"unreachable": func(c *cluster) { c.r[0].fail(errors.New("gone")) },
		"failures":    func(c *cluster) { c.Breaker("r1").Trip(breaker.Reason{Rule: breaker.RuleConsecutiveFailures}) },
		"forced":      func(c *cluster) { _ = c.Breaker("r1").Force(breaker.ForcedOpen, "drill") },
		"promoted":    func(c *cluster) { c.r[0].set(func(l *replica.Look) { l.InRecovery = false }) },
		"timeline":    func(c *cluster) { c.r[0].set(func(l *replica.Look) { l.Timeline = 2 }) },
		"no rights":   func(c *cluster) { c.r[0].set(func(l *replica.Look) { l.MissingRights = "all" }) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(cfg *replica.Config) { cfg.Breaches = 1000 }, func(c *cluster) {
				c.late(2 * time.Second)
				choice := c.wantLate(acceptsLate, true)
				fault(c)
				if err := c.Refresh(c.t.Context()); err != nil {
					c.t.Fatal(err)
				}
				c.wantLate(acceptsLate, false)
				if choice.Eligible() {
					c.t.Error("asked again: still eligible")
				}
			})
		})
	}
}

// REQ-R5: a sampler that froze takes its replica out for late reads too.
func TestLateReplicaWithoutSamples(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.late(2 * time.Second)
		c.wantLate(acceptsLate, true)
		hang := make(chan struct{})
		defer close(hang)
		c.r[0].mu.Lock()
		c.r[0].mu.hang = hang
		c.r[0].mu.Unlock()
		c.writing(3 * time.Second)
		c.wantLate(acceptsLate, false)
	})
}

// REQ-R3, REQ-R7: a late read that its node fails brings the next sample forward; if that succeeds, the node is still
// left alone for the shortest open period.
func TestLateReadThatFails(t *testing.T) {
	for outcome, bad := range map[breaker.Outcome]bool{breaker.Failure: true, breaker.Fatal: true, breaker.Ignored: false, breaker.Success: false} {
		inBubble(t, 1, func(cfg *replica.Config) { cfg.Breaches = 1000 }, func(c *cluster) {
			c.late(2 * time.Second)
			c.waitFor(2*time.Second, "a sample has just come", c.sampledJustNow(0))
			before := c.stats(0)
			choice := c.wantLate(acceptsLate, true)
			choice.DoneAs(outcome, errors.New("x"))
			time.Sleep(10 * ms)
			if got := c.stats(0).LastRun.After(before.LastRun); got != bad {
				c.t.Errorf("%v: sampled again: %v, want %v", outcome, got, bad)
			}
			c.wantLate(acceptsLate, !bad)
			c.writing(2 * time.Second)
			c.wantLate(acceptsLate, true)
			if got := c.stats(0).Breaker; got.Failures+got.Successes+got.Ignored != 0 {
				c.t.Errorf("%v: it was counted: %+v", outcome, got)
			}
		})
	}
}

// Done has Config.Classify judge the error of a late read as any other's.
func TestLateReadIsClassified(t *testing.T) {
	adjust := func(cfg *replica.Config) {
		cfg.Breaches = 1000
		cfg.Classify = func(err error) breaker.Outcome {
			if err.Error() == "query" {
				return breaker.Ignored
			}
			return breaker.Failure
		}
	}
	inBubble(t, 1, adjust, func(c *cluster) {
		c.late(2 * time.Second)
		for _, err := range []error{nil, errors.New("query")} {
			choice := c.wantLate(acceptsLate, true)
			choice.Done(err)
			c.wantLate(acceptsLate, true)
		}
		choice := c.wantLate(acceptsLate, true)
		choice.Done(errors.New("reset"))
		c.wantLate(acceptsLate, false)
	})
}

// REQ-R17: a late read has its place under the cap.
func TestLateReadsAreCapped(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Replicas[0].MaxInFlight = 2 }, func(c *cluster) {
		c.late(4 * time.Second)
		c.waitFor(5*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		first := c.wantLate(acceptsLate, true)
		c.wantLate(acceptsLate, true)
		if _, err := c.Pick(acceptsLate); !errors.Is(err, replica.ErrSaturated) {
			c.t.Errorf("third: %v, want ErrSaturated", err)
		}
		first.Done(nil)
		c.wantLate(acceptsLate, true)
	})
}

// REQ-R12: a late replica must hold the position that the read asks for.
func TestLateReplicaAndPosition(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.late(4 * time.Second)
		held, r := c.position(c.r[0]), acceptsLate
		r.Position = at(1, held)
		choice := c.wantLate(r, true)
		if !choice.Eligible() {
			c.t.Error("asked again: not eligible")
		}
		choice, err := c.Await(c.t.Context(), r, 0)
		if err != nil || !choice.Late() {
			c.t.Errorf("Await: late: %v, error %v", choice.Late(), err)
		}
		r.Position = at(1, held+1)
		c.wantLate(r, false)
	})
}

// REQ-D5: a late replica is the last resort; of several the one with fewer reads in flight of two.
func TestLateReplicasShareTheirReads(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(4*time.Second, c.r[2])
		if got := c.picks(100, acceptsLate); got["r3"] != 100 {
			c.t.Errorf("beside a fresh one: %v", got)
		}
		c.writing(4 * time.Second)
		var held []replica.Choice
		for range 30 {
			held = append(held, c.wantLate(acceptsLate, true))
		}
		for i := range 3 {
			if got := c.stats(i).InFlight; got < 9 || got > 11 {
				c.t.Errorf("r%d: %d of 30 in flight", i+1, got)
			}
		}
		r := acceptsLate
		r.Except = "r1"
		if got := c.picks(100, r); got["r1"] != 0 || got[""] != 0 {
			c.t.Errorf("all but r1: %v", got)
		}
		for i := range held {
			held[i].Done(nil)
		}
	})
}

// REQ-R1: a late pick allocates nothing. AdmitsLate is for who makes its connection.
func TestLatePickAllocatesNothing(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		c.late(4 * time.Second)
		c.waitFor(5*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		if n := testing.AllocsPerRun(100, func() {
			choice, err := c.Pick(acceptsLate)
			if err != nil || !choice.Eligible() {
				c.t.Fatal(err)
			}
			choice.Done(nil)
		}); n != 0 {
			c.t.Errorf("%v allocations", n)
		}
		if c.Admits("r1") || !c.AdmitsLate("r1") || !c.AdmitsLate("primary") || c.AdmitsLate("nobody") {
			c.t.Error("r1: admits late reads only; the primary all; nobody none")
		}
	})
}
