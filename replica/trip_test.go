package replica_test

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// lag.md, Sampling: in 40 pauses at any phase, the first breach is seen within 2 s of the
// true lag passing the threshold, and the third one with it opens the breaker (REQ-R4).
func TestLagOpensWithinTwoSeconds(t *testing.T) {
	for phase := range 40 {
		inBubble(t, 2, nil, func(c *cluster) {
			c.writing(3*time.Second+time.Duration(phase)*40*ms, c.r...)
			passed := time.Now().Add(500 * ms)
			for c.state(0) != breaker.Open {
				c.writing(20*ms, c.r[1])
				if late := time.Since(passed); late > 2*time.Second {
					t.Fatalf("phase %d: not open %v after the lag passed the threshold", phase, late)
				}
			}
			if r := c.stats(0).Breaker.Reason; r.Rule != "lag" || r.Value <= 0.5 || r.Threshold != 0.5 {
				t.Fatalf("reason = %+v", r)
			}
		})
	}
}

// REQ-R4: no read is sent as fresh on a late sample, also while the breaker is still closed;
// and in sample mode a flood of reads on one late sample counts as one breach.
func TestLateSampleGetsNoReadsWhileClosed(t *testing.T) {
	inBubble(t, 2, func(cfg *replica.Config) { cfg.Breaches = 1000 }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(4*time.Second, c.r[1])
		c.wantState(0, breaker.Closed)
		if got := c.picks(1000, replica.Requirement{}); got["r1"] != 0 || got["r2"] != 1000 {
			t.Errorf("picks = %v, want all on r2", got)
		}
		c.wantState(0, breaker.Closed)
	})
}

// REQ-B17, REQ-R4: request-counted, the third denied read on one late sample opens, and not the second.
func TestThirdRequestCountedBreachOpens(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.CountRequests = true }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(4 * time.Second)
		c.wantState(0, breaker.Closed) // many late samples, no read yet
		for i, want := range []breaker.State{breaker.Closed, breaker.Closed, breaker.Open} {
			if _, err := c.Pick(replica.Requirement{}); !errors.Is(err, replica.ErrNoReplica) {
				t.Fatalf("read %d: %v, want ErrNoReplica", i+1, err)
			}
			c.wantState(0, want)
		}
	})
}

// REQ-R3: a node that cannot be sampled is open within one interval, refused or silent.
func TestUnsampledNodeOpensWithinAnInterval(t *testing.T) {
	faults := map[string]func(*server){
		"error":  func(s *server) { s.fail(errors.New("connection refused")) },
		"silent": func(s *server) { s.slow(time.Hour) },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, nil, func(c *cluster) {
				fault(c.r[0])
				took := c.waitFor(1650*ms+time.Second, "open", func() bool { return c.state(0) == breaker.Open })
				if s := c.stats(0); s.Breaker.Reason.Rule != "unreachable" || s.Hi != replica.Never {
					t.Errorf("after %v: reason %v, Hi %v", took, s.Breaker.Reason, s.Hi)
				}
				if got := c.picks(100, replica.Requirement{}); got["r2"] != 100 {
					t.Errorf("picks = %v", got)
				}
			})
		})
	}
}

// REQ-R3: reads that hang on a frozen node bring its sample forward.
func TestHungReadsBringTheSampleForward(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.waitFor(2*time.Second, "a sample has just come", c.sampledJustNow(0))
		c.r[0].slow(time.Hour)
		var stuck []replica.Choice
		for len(stuck) == 0 {
			if choice, err := c.Pick(replica.Requirement{}); err != nil {
				t.Fatal(err)
			} else if choice.Name() == "r1" {
				stuck = append(stuck, choice)
			} else {
				choice.Done(nil)
			}
		}
		took := c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		if limit := 3*275*ms + time.Second; took > limit {
			t.Errorf("open after %v, want within three primary intervals and the sample timeout, %v", took, limit)
		}
	})
}

func (c *cluster) sampledJustNow(i int) func() bool {
	before := c.stats(i).LastRun
	return func() bool { return c.stats(i).LastRun.After(before) }
}

// REQ-R5: a sampler that froze takes its replica out by itself: Hi grows with the age of its samples.
func TestFrozenSamplerTakesItsReplicaOut(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		hang := make(chan struct{})
		defer close(hang)
		c.r[0].mu.Lock()
		c.r[0].mu.hang = hang
		c.r[0].mu.Unlock()
		for end := time.Now().Add(2250 * ms); time.Now().Before(end); time.Sleep(20 * ms) {
			c.write(c.position(c.primary)+100, c.r...)
		}
		if s := c.stats(0); s.Condition != replica.Stale || s.Breaker.State != breaker.Closed {
			t.Fatalf("condition %v, breaker %v; want stale with a closed breaker", s.Condition, s.Breaker.State)
		}
		if got := c.picks(100, replica.Requirement{}); got["r2"] != 100 {
			t.Errorf("picks = %v, want all on r2", got)
		}
	})
}

// REQ-R5, REQ-B18: a panic in a driver is a failed sample that is reported, and sampling goes on.
func TestPanicInASamplerIsReportedAndSamplingGoesOn(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].mu.Lock()
		c.r[0].mu.panics = 1
		c.r[0].mu.Unlock()
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.told.Lock()
		faults := len(c.told.faults)
		c.told.Unlock()
		if faults != 1 {
			t.Errorf("%d faults reported, want 1", faults)
		}
		c.waitFor(5*time.Second, "closed again", func() bool { return c.state(0) == breaker.Closed })
	})
}

// REQ-B18: observers that panic on everything harm nothing.
func TestPanickingObserversHarmNothing(t *testing.T) {
	adjust := func(cfg *replica.Config) {
		cfg.Observer = replica.Observer{
			OnTransition: func(breaker.Transition) { panic("t") },
			OnSample:     func(replica.Sample) { panic("s") },
			OnCondition:  func(replica.ConditionChange) { panic("c") },
			OnFault:      func(breaker.Fault) { panic("f") },
		}
	}
	inBubble(t, 1, adjust, func(c *cluster) {
		c.r[0].fail(errors.New("gone"))
		c.waitFor(3*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		c.waitFor(10*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// REQ-R9, REQ-B5: a replica comes back by one probe of its sampler, no user's read goes to it
// before, and then by the ramp: 10 % of its share at first, all of it after 10 s.
func TestComesBackByOneProbeAndARamp(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		for c.state(0) != breaker.Closed {
			if got := c.picks(10, replica.Requirement{}); got["r2"] != 10 {
				t.Fatalf("%v: picks = %v before the probe", c.state(0), got)
			}
			time.Sleep(10 * ms)
		}
		if _, probes, _ := c.r[0].counts(); probes != 1 {
			t.Errorf("%d probes, want 1", probes)
		}
		const n = 20000
		for _, want := range []struct {
			at           time.Duration
			atLeast, max float64 // r1's share of all reads; half of them at full share
		}{{0, 0.03, 0.07}, {5 * time.Second, 0.24, 0.31}, {10 * time.Second, 0.48, 0.52}} {
			time.Sleep(time.Until(c.stats(0).Breaker.Since.Add(want.at)))
			if share := float64(c.picks(n, replica.Requirement{})["r1"]) / n; share < want.atLeast || share > want.max {
				t.Errorf("%v after closing: share %.3f, want %v to %v", want.at, share, want.atLeast, want.max)
			}
		}
	})
}

// behaviours-routing 19: a dead replica costs one probe for each open period, periods double, and no read.
func TestOneProbePerOpenPeriod(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.r[0].fail(errors.New("gone"))
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * ms) {
			if got := c.picks(10, replica.Requirement{}); got["r1"] != 0 && c.state(0) != breaker.Closed {
				t.Fatalf("picks = %v while r1 is %v", got, c.state(0))
			}
		}
		var periods []time.Duration
		halfOpen := 0
		for _, tr := range c.transitions() {
			switch tr.To {
			case breaker.Open:
				periods = append(periods, tr.OpenPeriod)
			case breaker.HalfOpen:
				halfOpen++
			default:
			}
		}
		if failures := int(c.stats(0).Breaker.Failures); failures != halfOpen || halfOpen != len(periods)-1 {
			t.Errorf("%d failed probes in %d half-opens between %d openings, want one each", failures, halfOpen, len(periods))
		}
		const s = time.Second
		want := []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 60 * s, 60 * s}
		for i, p := range periods {
			if p != want[i] {
				t.Fatalf("open periods %v, want %v", periods, want)
			}
		}
		if len(periods) < 6 || c.picks(100, replica.Requirement{})["r1"] != 0 {
			t.Errorf("periods %v", periods)
		}
	})
}

func (c *cluster) transitions() []breaker.Transition {
	c.told.Lock()
	defer c.told.Unlock()
	return append([]breaker.Transition(nil), c.told.transitions...)
}

// REQ-B7: lag resting between the thresholds neither closes nor re-opens; after the longest time half-open it closes.
func TestLagBetweenTheThresholdsRestsHalfOpen(t *testing.T) {
	adjust := func(cfg *replica.Config) { cfg.Open.Max = 20 * time.Second }
	inBubble(t, 1, adjust, func(c *cluster) {
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		stop := c.follow(300 * ms)
		defer stop()
		c.waitFor(3*time.Second, "half-open", func() bool { return c.state(0) == breaker.HalfOpen })
		time.Sleep(15 * time.Second)
		c.wantState(0, breaker.HalfOpen)
		c.waitFor(6*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// follow lets the primary write every 20 ms and r1 replay it after the delay, until stop.
func (c *cluster) follow(delay time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			case <-time.After(20 * ms):
				p := c.position(c.primary) + 100
				c.primary.moveTo(p)
				time.AfterFunc(delay, func() { c.r[0].moveTo(p) })
			}
		}
	}()
	return func() { close(quit); <-done; time.Sleep(delay) }
}

// lag.md, Sampling: an apply delay under the re-entry threshold is re-admitted, one over it is not.
func TestCatchUpProbeJudgesTheDelay(t *testing.T) {
	for delay, want := range map[time.Duration]breaker.State{150 * ms: breaker.Closed, 230 * ms: breaker.HalfOpen} {
		t.Run(delay.String(), func(t *testing.T) {
			inBubble(t, 1, nil, func(c *cluster) {
				c.r[0].fail(errors.New("gone"))
				c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
				c.r[0].fail(nil)
				stop := c.follow(delay)
				defer stop()
				time.Sleep(4 * time.Second)
				c.wantState(0, want)
			})
		})
	}
}

// REQ-R11: an infinite trip threshold makes the lag rule inert while error-based tripping goes on.
func TestTripNeverIsTheRollBackSwitch(t *testing.T) {
	inBubble(t, 2, func(cfg *replica.Config) { cfg.Trip = replica.Never }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(10*time.Second, c.r[1])
		c.wantState(0, breaker.Closed)
		if got := c.picks(1000, replica.Requirement{}); got["r1"] < 300 || c.stats(0).Lo < 5*time.Second {
			t.Errorf("picks = %v, Lo %v; want reads on r1 and its lag still measured", got, c.stats(0).Lo)
		}
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.r[0].fail(nil)
		c.waitFor(5*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// behaviours-routing 9: the primary is never opened by a lag rule, nor by anything else here.
func TestPrimaryIsNeverOpened(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.primary.fail(errors.New("gone"))
		time.Sleep(time.Minute)
		choice, err := c.Pick(replica.Requirement{PrimaryOnly: true})
		if err != nil || !choice.Primary() || choice.Name() != "primary" {
			t.Fatalf("Pick = %+v, %v", choice, err)
		}
		choice.Done(errors.New("refused"))
		if _, err = c.Pick(replica.Requirement{PrimaryOnly: true}); err != nil {
			t.Errorf("after a failed read: %v", err)
		}
	})
}

// REQ-R2, and the sampling load: calm while open, so that an incident is not hammered.
func TestSamplingIsCalmWhileOpenAndFastInDoubt(t *testing.T) {
	inBubble(t, 2, func(cfg *replica.Config) { cfg.Open.Base = 10 * time.Second }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		before, _, _ := c.r[0].counts()
		begin := time.Now()
		for c.state(0) != breaker.Open {
			c.writing(20*ms, c.r[1])
		}
		took := time.Since(begin)
		fast, _, _ := c.r[0].counts()
		if n := fast - before; n < 3 || n > 20 || took > 2500*ms {
			t.Errorf("%d samples up to the opening after %v: doubt, then three breaches 100 ms apart", n, took)
		}
		c.writing(1500*ms, c.r[1])
		calm, _, _ := c.r[0].counts()
		if n := calm - fast; n > 2 {
			t.Errorf("%d samples in 1.5 s of being open, want at most 2", n)
		}
	})
}

// REQ-R9: a failing or panicking probe opens again; one that says nothing (a full pool) decides nothing.
func TestProbeOutcomes(t *testing.T) {
	probes := map[string]struct {
		probe func() (breaker.Outcome, error)
		want  breaker.State
	}{
		"fails":   {func() (breaker.Outcome, error) { return breaker.Failure, errors.New("no answer") }, breaker.Open},
		"panics":  {func() (breaker.Outcome, error) { panic("probe") }, breaker.Open},
		"ignored": {func() (breaker.Outcome, error) { return breaker.Ignored, errors.New("pool exhausted") }, breaker.HalfOpen},
	}
	for name, tc := range probes {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, nil, func(c *cluster) {
				c.r[0].mu.Lock()
				c.r[0].mu.probe = tc.probe
				c.r[0].mu.Unlock()
				c.r[0].fail(errors.New("gone"))
				c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
				c.r[0].fail(nil)
				time.Sleep(4 * time.Second)
				c.wantState(0, tc.want)
				c.r[0].mu.Lock()
				c.r[0].mu.probe = nil
				c.r[0].mu.Unlock()
				c.waitFor(6*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
			})
		})
	}
}

// REQ-R14: that the primary cannot be looked at is no verdict on a replica that answers.
func TestProbeWithoutThePrimaryDecidesNothing(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		c.primary.fail(errors.New("gone too"))
		c.r[0].fail(nil)
		time.Sleep(10 * time.Second)
		c.wantState(0, breaker.HalfOpen)
		c.primary.set(func(l *replica.Look) { l.InRecovery = true }) // nor does one that is in recovery
		c.primary.fail(nil)
		time.Sleep(10 * time.Second)
		c.wantState(0, breaker.HalfOpen)
		c.primary.set(func(l *replica.Look) { l.InRecovery = false })
		c.waitFor(4*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// REQ-B1: an operator who forces a replica's breaker closed gets its full share back, by the ramp.
func TestForcedClosedRampsUp(t *testing.T) {
	for _, forced := range []breaker.State{breaker.ForcedClosed, breaker.Disabled} {
		inBubble(t, 2, nil, func(c *cluster) {
			c.r[0].fail(errors.New("gone"))
			c.waitFor(5*time.Second, "half-open was seen", func() bool { return len(c.transitions()) > 2 })
			c.r[0].fail(nil)
			if err := c.Breaker("r1").Force(forced, "test"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(11 * time.Second)
			if got := c.stats(0).Share; got != 1 {
				t.Errorf("%v: share = %v after the ramp", forced, got)
			}
		})
	}
}

// REQ-B6: Sticky can be switched off, and is off still when the settings in force are handed back.
func TestStickyCanBeSwitchedOff(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Open.Sticky = -1 }, func(c *cluster) {
		if err := c.Reconfigure(c.Settings()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			c.r[0].fail(errors.New("gone"))
			c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
			if got := c.stats(0).Breaker.OpenPeriod; got != 2*time.Second {
				t.Errorf("open period %v, want the base", got)
			}
			c.r[0].fail(nil)
			c.waitFor(5*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
		}
	})
}
