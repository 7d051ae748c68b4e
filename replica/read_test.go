package replica_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// REQ-R12: a read's own bound is compared with Hi now; a bound below the calm interval says what it needs.
func TestOwnBound(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		for c.stats(0).Hi < time.Second { // writes on both: Hi grows between samples
			c.write(c.position(c.primary)+100, c.r...)
			time.Sleep(20 * ms)
		}
		if _, err := c.Pick(replica.Requirement{}); err != nil {
			t.Errorf("default bound: %v", err)
		}
		_, err := c.Pick(replica.Requirement{MaxStaleness: 300 * ms})
		if !errors.Is(err, replica.ErrNoReplica) || !strings.Contains(err.Error(), "shorter sampling interval") {
			t.Errorf("bound of 300 ms: %v", err)
		}
		if c.Refresh(c.t.Context()) != nil {
			t.Fatal("refresh failed")
		}
		if _, err := c.Pick(replica.Requirement{MaxStaleness: 300 * ms}); err != nil {
			t.Errorf("after a fresh sample: %v", err)
		}
	})
}

// REQ-R14: the primary is gone. Reads that accept it go on unverified for the grace, others and later ones not.
func TestUnknownPrimaryGrace(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.primary.fail(errors.New("gone"))
		time.Sleep(4 * time.Second)
		if _, err := c.Pick(replica.Requirement{}); err == nil || !strings.Contains(err.Error(), "unknown_primary") {
			t.Errorf("verified read: %v", err)
		}
		accept := replica.Requirement{AcceptUnverified: true}
		if choice, err := c.Pick(accept); err != nil || !choice.Unverified() {
			t.Errorf("accepting read: %+v, %v", choice, err)
		}
		time.Sleep(7 * time.Second)
		if _, err := c.Pick(accept); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("after the grace: %v", err)
		}
		c.primary.fail(nil)
		c.waitFor(4*time.Second, "verified again", func() bool {
			choice, err := c.Pick(replica.Requirement{})
			return err == nil && !choice.Unverified()
		})
	})
}

// REQ-R14: a replica that was late when the primary was last seen is no refuge.
func TestUnknownPrimaryGraceIsForFreshReplicas(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Breaches = 1000 }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(3 * time.Second)
		c.primary.fail(errors.New("gone"))
		time.Sleep(2 * time.Second)
		if choice, err := c.Pick(replica.Requirement{AcceptUnverified: true}); err == nil {
			t.Errorf("a late replica was picked: %+v", choice)
		}
	})
}

// REQ-R15: the error names each node's reason and when to come back.
func TestNoReplicaNamesEachReason(t *testing.T) {
	inBubble(t, 3, nil, func(c *cluster) {
		c.r[0].fail(errors.New("connection refused"))
		c.r[1].set(func(l *replica.Look) { l.InRecovery = false })
		c.writing(3*time.Second, c.r[0], c.r[1])
		_, err := c.Pick(replica.Requirement{})
		no, ok := errors.AsType[*replica.NoReplicaError](err)
		if !ok || errors.Is(err, replica.ErrSaturated) {
			t.Fatalf("err = %v", err)
		}
		want := []replica.Condition{replica.Unreachable, replica.Promoted, replica.Open}
		for i, r := range no.Reasons {
			if r.Condition != want[i] || r.Detail == "" {
				t.Errorf("reason %d = %+v, want %v with words", i, r, want[i])
			}
		}
		if no.RetryAfter <= 0 || no.RetryAfter > 5*time.Second {
			t.Errorf("RetryAfter = %v", no.RetryAfter)
		}
		for _, part := range []string{"r1: unreachable (connection refused", "r3: open (breaker open: lag"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

// REQ-R17, behaviours-routing 17: a node at its cap is saturated, not sick; what overflows goes
// to another, and when all are at their caps the error says so.
func TestCapIsSaturation(t *testing.T) {
	adjust := func(cfg *replica.Config) {
		for i := range cfg.Replicas {
			cfg.Replicas[i].MaxInFlight = 2
		}
	}
	inBubble(t, 2, adjust, func(c *cluster) {
		var held []replica.Choice
		for range 4 {
			choice, err := c.Pick(replica.Requirement{})
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, choice)
		}
		_, err := c.Pick(replica.Requirement{})
		if !errors.Is(err, replica.ErrSaturated) || !errors.Is(err, replica.ErrNoReplica) {
			t.Fatalf("fifth read: %v", err)
		}
		held[0].Done(nil)
		if _, err = c.Pick(replica.Requirement{}); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		for i := range 2 {
			if b := c.stats(i).Breaker; b.State != breaker.Closed || b.Failures != 0 {
				t.Errorf("breaker of %s: %v, %d failures", b.Name, b.State, b.Failures)
			}
		}
	})
}

// REQ-R16: a thousand reads that wait share extra samples: those that came while one was under way share the next.
func TestRefreshIsShared(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].slow(20 * ms)
		c.primary.slow(20 * ms)
		before, _, _ := c.r[0].counts()
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if err := c.Refresh(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if after, _, _ := c.r[0].counts(); after-before > 4 {
			t.Errorf("%d samples for 1000 waiting reads", after-before)
		}
	})
}

// REQ-R6: three failed reads in a row open; ignored ones do not count; a refused one opens at once.
func TestReadOutcomesCount(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		read := func(o breaker.Outcome) {
			choice, err := c.Pick(replica.Requirement{})
			if err != nil {
				t.Fatal(err)
			}
			choice.DoneAs(o, errors.New("x"))
			choice.DoneAs(breaker.Failure, nil) // a second time: nothing
		}
		for range 10 {
			read(breaker.Ignored)
		}
		read(breaker.Failure)
		read(breaker.Failure)
		read(breaker.Success)
		read(breaker.Failure)
		read(breaker.Failure)
		c.wantState(0, breaker.Closed)
		read(breaker.Failure)
		c.wantState(0, breaker.Open)
		if _, _, fences := c.r[0].counts(); fences != 1 {
			t.Errorf("fenced %d times, want 1", fences)
		}
		c.waitFor(4*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
		read(breaker.Fatal)
		c.wantState(0, breaker.Open)
	})
}

// behaviours-routing 26: a late sample is seen when eligibility is asked again after a wait.
func TestEligibleAgainSeesALateSample(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Breaches = 1000 }, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		choice, err := c.Pick(replica.Requirement{})
		if err != nil {
			t.Fatal(err)
		}
		for c.stats(0).Lo <= 500*ms {
			c.writing(20 * ms)
		}
		c.wantState(0, breaker.Closed)
		if choice.Eligible() {
			t.Error("eligible on a late sample")
		}
		choice.Done(nil)
	})
}

// behaviours-routing 29: the share of a dead replica is spread evenly, not given to a neighbour.
func TestDeadReplicasShareIsSpreadEvenly(t *testing.T) {
	inBubble(t, 4, nil, func(c *cluster) {
		c.r[1].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(1) == breaker.Open })
		const n = 30000
		got := c.picks(n, replica.Requirement{})
		for _, name := range []string{"r1", "r3", "r4"} {
			if share := float64(got[name]) / n; share < 0.31 || share > 0.36 {
				t.Errorf("share of %s = %.3f, want a third", name, share)
			}
		}
	})
}

// behaviours-routing 26: eligibility asked again after a wait sees an opening.
func TestEligibleAgain(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		choice, err := c.Pick(replica.Requirement{})
		if err != nil || !choice.Eligible() {
			t.Fatalf("%v, eligible %v", err, choice.Eligible())
		}
		c.r[0].fail(errors.New("gone"))
		c.waitFor(2*time.Second, "open", func() bool { return c.state(0) == breaker.Open })
		if choice.Eligible() {
			t.Error("eligible on an open node")
		}
		choice.Done(nil)
		if choice.Eligible() {
			t.Error("eligible after Done")
		}
	})
}

// behaviours-routing 29, 52: the dead host's share is spread evenly, and membership changes take effect at once.
func TestEvenSharesAndMembership(t *testing.T) {
	inBubble(t, 4, nil, func(c *cluster) {
		if err := c.Remove("r2"); err != nil {
			t.Fatal(err)
		}
		const n = 30000
		got := c.picks(n, replica.Requirement{})
		for _, name := range []string{"r1", "r3", "r4"} {
			if share := float64(got[name]) / n; share < 0.31 || share > 0.36 {
				t.Errorf("share of %s = %.3f, want a third", name, share)
			}
		}
		added := newServer("r5", true)
		if err := c.Add(added.node()); err != nil {
			t.Fatal(err)
		}
		c.waitFor(ms*100, "sampled", func() bool { return c.Stats().Replicas[3].Condition == replica.Fit })
		if share := float64(c.picks(n, replica.Requirement{})["r5"]) / n; share == 0 || share > 0.05 {
			t.Errorf("share of the new one at once = %.3f, want the start of its ramp", share)
		}
		time.Sleep(11 * time.Second)
		if share := float64(c.picks(n, replica.Requirement{})["r5"]) / n; share < 0.23 || share > 0.27 {
			t.Errorf("share of the new one after its ramp = %.3f, want a quarter", share)
		}
		for _, err := range []error{c.Add(added.node()), c.Remove("r2"), c.Add(replica.Node{})} {
			if err == nil {
				t.Error("a wrong change of membership was accepted")
			}
		}
	})
}

// REQ-B16: thresholds change while running; states and counts stay; a contradiction changes nothing.
func TestReconfigure(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.writing(2*time.Second, c.r[1])
		c.wantState(0, breaker.Open)
		if err := c.Reconfigure(replica.Settings{Trip: 100 * ms, Reenter: time.Second}); err == nil {
			t.Error("a contradiction was accepted")
		}
		st := replica.Settings{Trip: 10 * time.Second, Reenter: 9 * time.Second}
		if err := c.Reconfigure(st); err != nil {
			t.Fatal(err)
		}
		c.wantState(0, breaker.Open)
		c.writing(5*time.Second, c.r[1])
		if err := c.Reconfigure(replica.Settings{Trip: replica.Never}); err != nil {
			t.Fatal(err)
		}
		c.waitFor(20*time.Second, "closed", func() bool { return c.state(0) == breaker.Closed })
	})
}

// behaviours-routing 33: nodes that are down at the start are used once they are up.
func TestStartsWithNodesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		cfg := c.config(1)
		c.primary.fail(errors.New("down"))
		c.r[0].slow(time.Hour)
		set, err := replica.NewSet(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		c.Set = set
		begin := time.Now()
		if err := set.Ready(t.Context()); err != nil || time.Since(begin) > 2*time.Second {
			t.Fatalf("ready after %v: %v", time.Since(begin), err)
		}
		c.primary.fail(nil)
		c.r[0].slow(0)
		c.waitFor(10*time.Second, "in use", func() bool { _, err := set.Pick(replica.Requirement{}); return err == nil })
	})
}

func TestClosedSetRefuses(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.Close()
		c.Close()
		_, pick := c.Pick(replica.Requirement{})
		for _, err := range []error{pick, c.Add(newServer("r9", true).node()), c.Remove("r1"), c.Reconfigure(replica.Settings{}), c.Refresh(c.t.Context())} {
			if !errors.Is(err, replica.ErrClosed) {
				t.Errorf("err = %v, want ErrClosed", err)
			}
		}
	})
}

// Every fault of a configuration is told at once, each naming its field.
func TestConfigFaultsAllAtOnce(t *testing.T) {
	n := newServer("r1", true).node()
	cfg := replica.Config{Replicas: []replica.Node{n, n, {MaxInFlight: -1}}}
	cfg.Trip, cfg.Reenter = 100*ms, 200*ms
	cfg.Calm, cfg.Fast, cfg.PrimaryInterval, cfg.SampleTimeout = time.Second, 2*time.Second, 3*time.Second, time.Second
	cfg.MaxStaleness, cfg.Breaches, cfg.Failures, cfg.RampFrom = ms, -1, -1, 2
	cfg.Open.Base = -time.Second
	_, err := replica.NewSet(cfg)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{
		"Primary.Name is empty", "Primary.Connect is nil", `Replicas[1].Name is "r1"`, "Replicas[2].Name", "Replicas[2].Connect",
		"Replicas[2].MaxInFlight is -1", "Reenter is 200ms, above Trip (100ms)", "SampleTimeout is 1s", "Fast is 2s",
		"PrimaryInterval is 3s", "MaxStaleness is 1ms", "Breaches is -1", "Failures is -1", "RampFrom is 2", "Base",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	cfg = replica.Config{Primary: n}
	cfg.Reenter = ms
	if _, err = replica.NewSet(cfg); err == nil || !strings.Contains(err.Error(), "below the round trips") {
		t.Errorf("re-entry below the round trips: %v", err)
	}
}

// What NewSet would say of settings is told without nodes, and those that it takes are fine.
func TestCheckSettings(t *testing.T) {
	faulty := replica.Settings{Trip: 100 * ms, Reenter: 200 * ms, Breaches: -1, Open: breaker.Backoff{Base: -time.Second}}
	err := replica.CheckSettings(faulty, 65)
	for _, part := range []string{"Reenter is 200ms", "Breaches is -1", "Base", "Replicas has 65 nodes"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q:\n%v", part, err)
		}
	}
	if err := replica.CheckSettings(replica.Settings{}, 64); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// REQ-R12: a read that asks for the primary is refused while the server of that name is in recovery:
// nothing bounds how old it is. And while it is at its cap (REQ-R17).
func TestPrimaryOnlyNeedsAPrimary(t *testing.T) {
	inBubble(t, 1, func(cfg *replica.Config) { cfg.Primary.MaxInFlight = 1 }, func(c *cluster) {
		only := replica.Requirement{PrimaryOnly: true}
		held, err := c.Pick(only)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Pick(only); !errors.Is(err, replica.ErrSaturated) {
			t.Errorf("at its cap: %v", err)
		}
		c.primary.set(func(l *replica.Look) { l.InRecovery = true })
		time.Sleep(time.Second)
		if held.Eligible() {
			t.Error("still eligible on a server in recovery")
		}
		held.Done(nil)
		if _, err = c.Pick(only); !errors.Is(err, replica.ErrNoReplica) || !strings.Contains(err.Error(), "not_primary (it is in recovery") {
			t.Errorf("in recovery: %v", err)
		}
		c.primary.set(func(l *replica.Look) { l.InRecovery = false })
		time.Sleep(2 * time.Second)
		if _, err = c.Pick(only); err != nil {
			t.Errorf("primary again: %v", err)
		}
		c.Close()
		if _, err = c.Pick(only); !errors.Is(err, replica.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// REQ-R10: each Set, so each process, has breakers of its own.
func TestSetsDecideForThemselves(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		other, err := replica.NewSet(replica.Config{Primary: c.primary.node(), Replicas: []replica.Node{c.r[0].node()}})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if err := other.Ready(c.t.Context()); err != nil {
			t.Fatal(err)
		}
		c.Breaker("r1").Trip(breaker.Reason{Detail: "test"})
		if _, err := other.Pick(replica.Requirement{}); err != nil || c.state(0) != breaker.Open {
			t.Errorf("the other set: %v; this one: %v", err, c.state(0))
		}
	})
}

// REQ-R14: a primary that comes back has moved on before the replicas are sampled again. They are not taken for late
// by samples from before: reads that accept it go on, and the new samples are taken at once.
func TestPrimaryComesBack(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.primary.fail(errors.New("connection refused"))
		time.Sleep(5 * time.Second)
		accept := replica.Requirement{AcceptUnverified: true}
		if got := c.picks(1, accept); got[""] > 0 {
			t.Fatal("within the grace: refused")
		}
		c.write(c.position(c.primary)+100, c.r...)
		for _, r := range c.r {
			r.slow(100 * time.Millisecond) // so that their new samples take a while
		}
		c.primary.fail(nil)
		back := time.Now()
		for c.Eligible(replica.Requirement{}) == 0 {
			if got := c.picks(10, accept); got[""] > 0 {
				_, err := c.Pick(accept)
				t.Fatalf("%v after it came back: %v", time.Since(back), err)
			}
			c.writing(20*time.Millisecond, c.r...)
		}
		if took := time.Since(back); took > 1700*time.Millisecond { // a calm interval, and its jitter
			t.Errorf("verified again after %v", took)
		}
	})
}

// REQ-R14: the replicas of a primary that comes back connect to it again a while later than we do. Samples from between are
// no reason to refuse a read that accepts an unverified answer, until what they lack makes them late.
func TestReplicasConnectAgainLaterThanWeDo(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.primary.fail(errors.New("connection refused"))
		time.Sleep(5 * time.Second)
		c.write(c.position(c.primary) + 100) // it has written, and no replica has that
		c.primary.fail(nil)
		for c.Stats().Primary.Condition != replica.Fit {
			time.Sleep(10 * time.Millisecond)
		}
		accept, back := replica.Requirement{AcceptUnverified: true}, time.Now()
		time.Sleep(300 * time.Millisecond) // they were sampled again
		if got := c.picks(10, accept); got[""] > 0 {
			_, err := c.Pick(accept)
			t.Errorf("%v after it came back: %v", time.Since(back), err)
		}
		if n := c.Eligible(replica.Requirement{}); n > 0 {
			t.Errorf("%d replicas are eligible for reads that want a verified bound", n)
		}
		time.Sleep(3 * time.Second)
		if got := c.picks(10, accept); got[""] < 10 {
			t.Errorf("%v after it came back: got %v, want every read refused: they are late", time.Since(back), got)
		}
	})
}

// REQ-R9, REQ-R2: a primary that comes back has the replicas sampled at once, but for one that does not answer: that is open, and
// is tried by its probes and calm samples alone.
func TestPrimaryComesBackToADeadReplica(t *testing.T) {
	rarely := func(cfg *replica.Config) {
		cfg.Calm, cfg.Fast, cfg.SampleTimeout = 3*time.Minute, 3*time.Minute, time.Second
		cfg.Open = breaker.Backoff{Base: 10 * time.Hour, Max: 10 * time.Hour}
	}
	inBubble(t, 2, rarely, func(c *cluster) {
		c.r[0].fail(errors.New("connection refused"))
		time.Sleep(5 * time.Minute)
		c.primary.fail(errors.New("connection refused"))
		time.Sleep(time.Minute)
		c.primary.fail(nil)
		dead, alive := 0, 0 // samples until just before the primary is seen
		c.waitFor(5*time.Minute, "the primary is seen", func() bool {
			if c.Eligible(replica.Requirement{PrimaryOnly: true}) > 0 {
				return true
			}
			dead, alive = c.samplesOf("r1"), c.samplesOf("r2")
			return false
		})
		time.Sleep(5 * ms) // a sample takes no time here
		c.wantState(0, breaker.Open)
		if dead, alive = c.samplesOf("r1")-dead, c.samplesOf("r2")-alive; dead != 0 || alive == 0 {
			c.t.Errorf("samples once the primary is back: %d of the dead replica, %d of the other; want none, and some", dead, alive)
		}
	})
}

// samplesOf counts what was told of a node so far.
func (c *cluster) samplesOf(name string) (n int) {
	c.told.Lock()
	defer c.told.Unlock()
	for _, s := range c.told.samples {
		if s.Node == name {
			n++
		}
	}
	return n
}
