package emit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// open emits until the breaker of consumer a is open.
func openBreaker(t *testing.T, r *emit.Router) {
	t.Helper()
	for i := 0; r.Breaker("a").State() == breaker.Closed; i++ {
		if i == 1000 {
			t.Fatal("the breaker does not open")
		}
		_, _ = r.Emit(t.Context(), trigger(fmt.Sprint("opens", i)))
	}
}

// TestOpenPeriods is T16: each failed recovery doubles the open period up to the longest, and a clean time resets it.
func TestOpenPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var periods []time.Duration
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Breaker.Open = breaker.Backoff{Base: 100 * time.Millisecond, Max: 800 * time.Millisecond, Jitter: -1, Sticky: 5 * time.Second}
			c.Breaker.Observer.OnTransition = func(x breaker.Transition) {
				mu.Lock()
				defer mu.Unlock()
				if x.To == breaker.Open {
					periods = append(periods, x.OpenPeriod/(100*time.Millisecond))
				}
			}
		})
		openBreaker(t, r)
		calls := a.called()
		time.Sleep(3 * time.Second) // 1+2+4+8+8 periods and a bit
		mu.Lock()
		if !slices.Equal(periods[:5], []time.Duration{1, 2, 4, 8, 8}) {
			t.Errorf("open periods: %v; want 1 2 4 8 8", periods)
		}
		if probes := a.called() - calls; probes != len(periods)-1 {
			t.Errorf("%d probes for %d failed recoveries; want one each", probes, len(periods)-1)
		}
		mu.Unlock()
		a.set(nil)
		settled(t, r, "a", time.Minute)
		live(t, r, 20*time.Second)
		a.set(fails)
		openBreaker(t, r)
		mu.Lock()
		defer mu.Unlock()
		if last := periods[len(periods)-1]; last != 1 {
			t.Errorf("the next outage begins with %d; want 1", last)
		}
	})
}

// live emits 100 a second for a time and returns how long the slowest took.
func live(t *testing.T, r *emit.Router, d time.Duration) (slowest time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		began := time.Now()
		_, _ = r.Emit(t.Context(), trigger("live"))
		slowest = max(slowest, time.Since(began))
	}
	return slowest
}

// TestLostProbe is T17: a probe that hangs beyond its context, panics or ends its goroutine is a failed recovery.
func TestLostProbe(t *testing.T) {
	for name, do := range map[string]func(context.Context, emit.Trigger) error{
		"hangs":  hangs,
		"panics": func(context.Context, emit.Trigger) error { panic("probe") },
		"goexit": func(context.Context, emit.Trigger) error { panicGoexit(); return nil },
		"ignores its context": func(context.Context, emit.Trigger) error {
			time.Sleep(5 * time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &target{do: fails}
				r := one(t, a, func(c *emit.Consumer) {
					c.Breaker.Open = breaker.Backoff{Base: 100 * time.Millisecond, Max: time.Second, Jitter: -1}
					c.Breaker.Probe = breaker.Probe{Concurrent: 1, Lease: time.Second, Longest: time.Minute}
				})
				openBreaker(t, r)
				a.set(do)
				time.Sleep(150 * time.Millisecond) // the first probe is under way, or over
				time.Sleep(1100 * time.Millisecond)
				if s := r.Breaker("a").Stats(); s.Openings < 2 || s.OpenPeriod < 200*time.Millisecond {
					t.Errorf("after the lease: %v, %d openings, a period of %v", s.State, s.Openings, s.OpenPeriod)
				}
				a.set(nil)
				settled(t, r, "a", time.Minute)
			})
		})
	}
}

// TestRetriesDelayNobody is T18: what is retried waits in the dead letters, not in a lane.
func TestRetriesDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &target{}, &target{}
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.Key == "bad" {
				return errDown
			}
			return nil
		})
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: a, Ordered: true}, {Name: "b", Sink: b}}})
		for i := range 5 {
			_, _ = r.Emit(t.Context(), keyed("bad", i))
		}
		slowest := time.Duration(0)
		for i := range 1000 {
			began := time.Now()
			receipt, err := r.Emit(t.Context(), keyed("good", i))
			slowest = max(slowest, time.Since(began))
			if x := receipt.Of("a"); err != nil || x.Outcome != emit.Delivered || receipt.Of("b").Outcome != emit.Delivered {
				t.Fatalf("%d: %+v, %v", i, x, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if slowest > 0 {
			t.Errorf("emits waited up to %v for retries of others", slowest)
		}
		if got := b.taken(); len(got) != 1005 {
			t.Errorf("b took %d of 1005", len(got))
		}
	})
}

// TestForcedOpen is T20: what was emitted while a consumer was switched off is kept, and delivered when it is on again.
func TestForcedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{}
		r := one(t, a)
		if err := r.Breaker("a").Force(breaker.ForcedOpen, "maintenance"); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			emitWant(t, r, trigger(strconv.Itoa(i)), emit.Stored, emit.ReasonForcedOpen)
		}
		time.Sleep(time.Minute)
		if n := count(t, r, emit.Filter{Reasons: []emit.Reason{emit.ReasonForcedOpen}}); n != 10 || a.called() != 0 {
			t.Errorf("%d letters and %d calls; want 10 and none", n, a.called())
		}
		if err := r.Breaker("a").Force(breaker.Closed, "done"); err != nil {
			t.Fatal(err)
		}
		settled(t, r, "a", 10*time.Second)
		if s := stats(t, r, "a"); s.Replayed != 10 || s.Delivered != 10 {
			t.Errorf("%+v", s)
		}
	})
}

func count(t *testing.T, r *emit.Router, f emit.Filter) (n int) {
	t.Helper()
	for _, err := range r.Letters(t.Context(), "a", f) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// TestOrderPerKey is T25 (REQ-E6).
func TestOrderPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{}
		var healthy bool
		var mu sync.Mutex
		a.set(func(_ context.Context, x emit.Trigger) error {
			mu.Lock()
			defer mu.Unlock()
			if x.Key == "k1" && !healthy {
				return errDown
			}
			return nil
		})
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		emitWant(t, r, keyed("k1", 1), emit.Stored, emit.ReasonFailed)
		x := keyed("k1", 2)
		x.Priority = "compliance" // more important, and behind all the same
		emitWant(t, r, x, emit.Stored, emit.ReasonBehind)
		emitWant(t, r, keyed("k2", 1), emit.Delivered, "")
		mu.Lock()
		healthy = true
		mu.Unlock()
		emitWant(t, r, keyed("k1", 3), emit.Stored, emit.ReasonBehind)
		settled(t, r, "a", time.Minute)
		emitWant(t, r, keyed("k1", 4), emit.Delivered, "")
		if got := strings.Join(a.taken(), " "); got != "k2#1 k1#1 k1#2 k1#3 k1#4" {
			t.Errorf("took %s", got)
		}
	})
}

// TestOrderOfConcurrentEmits: a trigger whose key is under way waits for that call, and goes behind it if it fails.
func TestOrderOfConcurrentEmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: hangs}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { _, _ = r.Emit(t.Context(), keyed("k", i)) })
			synctest.Wait() // each has come before the next
		}
		began := time.Now()
		all.Wait()
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("it took %v; want the 200ms of one call", took)
		}
		a.set(nil)
		settled(t, r, "a", time.Minute)
		if got := strings.Join(a.taken(), " "); got != "k#0 k#1 k#2 k#3 k#4" {
			t.Errorf("took %s", got)
		}
	})
}

// TestReplayBesideLiveTraffic is T26: replay keeps to its share, and yields when the consumer slows.
func TestReplayBesideLiveTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(5 * time.Millisecond)}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{
			Name: "a", Sink: a, DeadLetters: newRing(t, emit.RingConfig{Letters: 12000, Bytes: 8 << 20}),
		}}})
		force(t, r, breaker.ForcedOpen)
		for i := range 10_000 {
			_, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i)))
		}
		stop := make(chan struct{})
		var slowest longest
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					go func() {
						began := time.Now()
						_, _ = r.Emit(t.Context(), trigger("live"))
						slowest.add(time.Since(began))
					}()
				}
			}
		}()
		time.Sleep(2 * time.Second)
		force(t, r, breaker.Closed)
		time.Sleep(2 * time.Second)
		before := stats(t, r, "a").Replayed
		time.Sleep(10 * time.Second)
		s := stats(t, r, "a")
		if n := s.Replayed - before; n < 200 || n > 260 { // a fifth of all traffic: 25/s beside 100/s
			t.Errorf("%d replayed in 10 s beside 100/s; want 250 or a few less", n)
		}
		if slowest.get() != 5*time.Millisecond || s.Breaker.Openings != 0 {
			t.Errorf("live emits took up to %v, %d openings; want 5ms and none", slowest.get(), s.Breaker.Openings)
		}
		a.set(takes(120 * time.Millisecond))
		time.Sleep(time.Second)
		if s := stats(t, r, "a"); s.Breaker.Openings == 0 {
			t.Error("a consumer that slows under replay does not open the breaker")
		}
		before = stats(t, r, "a").Replayed
		time.Sleep(5 * time.Second)
		if n := stats(t, r, "a").Replayed - before; n > 0 {
			t.Errorf("%d replayed to a consumer that is slow", n)
		}
		a.set(takes(5 * time.Millisecond))
		close(stop)
		<-done
		settled(t, r, "a", 10*time.Minute)
		if s := stats(t, r, "a"); s.Stored != 0 || s.Shed != 0 || s.Refused != 0 || s.Delivered != s.Emitted {
			t.Errorf("%+v", s)
		}
	})
}

func force(t *testing.T, r *emit.Router, s breaker.State) {
	t.Helper()
	if err := r.Breaker("a").Force(s, "test"); err != nil {
		t.Fatal(err)
	}
}

// TestReplayByFilter: it takes exactly what matches, and goes on where it was broken off.
func TestReplayByFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: a, Replay: emit.Replay{Manual: true}}}})
		force(t, r, breaker.ForcedOpen)
		began := time.Now()
		var want []string
		for i := range 60 {
			x := keyed(fmt.Sprint("k", i%3), i)
			x.Type = []string{"order.paid", "ping"}[i%2]
			x.Priority = []string{"compliance", "idle-ping"}[i%2]
			_, _ = r.Emit(t.Context(), x)
			if i%2 == 0 && i%3 == 1 && i >= 20 && i < 50 {
				want = append(want, x.ID)
			}
			time.Sleep(time.Second)
		}
		force(t, r, breaker.Closed)
		time.Sleep(time.Minute)
		if a.called() > 0 {
			t.Fatalf("%d calls without a Replay, which is manual", a.called())
		}
		f := emit.Filter{Types: []string{"order.paid"}, Key: "k1", From: began.Add(20 * time.Second), To: began.Add(50 * time.Second)}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		n, err := r.Replay(ctx, "a", f)
		if n == 0 || n >= len(want) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a Replay that was broken off: %d, %v", n, err)
		}
		m, err := r.Replay(t.Context(), "a", f)
		if got := a.taken(); !slices.Equal(got, want) || n+m != len(want) || err != nil {
			t.Errorf("%d and %d replayed, %v: %v; want %v", n, m, err, got, want)
		}
		if s := stats(t, r, "a"); s.Depth.Letters != 60-len(want) {
			t.Errorf("%d letters left; want %d", s.Depth.Letters, 60-len(want))
		}
	})
}

// TestParkedLettersBlockNothing: what the consumer keeps rejecting is parked with its history.
func TestParkedLettersBlockNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		var parked []string
		r := newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: a}},
			Observer:  emit.Observer{OnParked: func(l emit.Letter) { parked = append(parked, l.Trigger.ID) }},
		})
		for i := range 10 {
			emitWant(t, r, trigger(strconv.Itoa(i)), emit.Stored, emit.ReasonFailed)
		}
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.ID == "0" {
				return fmt.Errorf("%w: 422", emit.ErrRejected)
			}
			return nil
		})
		settled(t, r, "a", time.Minute)
		if got := len(a.taken()); got != 9 || !slices.Equal(parked, []string{"0"}) {
			t.Errorf("%d delivered, parked %v; want 9 and the one that is rejected", got, parked)
		}
		for l := range r.Letters(t.Context(), "a", emit.Filter{}) {
			if !l.Parked || l.Reason != emit.ReasonRejected || l.Attempts != 2 || len(l.Last) != 2 || l.Last[0].Err != "500" || !strings.Contains(l.Last[1].Err, "422") {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestPoison: a letter that panics five times is parked, and one that only fails is not.
func TestPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(_ context.Context, x emit.Trigger) error {
			if x.ID == "poison" {
				panic("poison")
			}
			return errDown
		}}
		r := one(t, a)
		emitWant(t, r, trigger("poison"), emit.Stored, emit.ReasonFailed)
		emitWant(t, r, trigger("fails"), emit.Stored, emit.ReasonFailed)
		time.Sleep(2 * time.Minute)
		for l := range r.Letters(t.Context(), "a", emit.Filter{}) {
			if l.Parked != (l.Trigger.ID == "poison") || l.Parked && (l.Attempts != 5 || l.Reason != emit.ReasonPoison) || !l.Parked && l.Attempts < 10 {
				t.Errorf("%s: parked %v by %s after %d attempts", l.Trigger.ID, l.Parked, l.Reason, l.Attempts)
			}
		}
	})
}

// TestPoisonDoesNotHoldUpRecovery: the probes go round, so that one bad letter at the head decides nothing for long.
func TestPoisonDoesNotHoldUpRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		openBreaker(t, r)
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.ID == "opens0" {
				return errDown
			}
			return nil
		})
		time.Sleep(20 * time.Second)
		if s := stats(t, r, "a"); s.Breaker.State != breaker.Closed || s.Depth.Letters != 1 {
			t.Errorf("after 20 s the breaker is %v and %d letters are left; want closed and the bad one", s.Breaker.State, s.Depth.Letters)
		}
	})
}

// TestPoisonLeavesTheProbesToOthers: where the only letters left wait after a failure, live triggers bring the verdict.
func TestPoisonLeavesTheProbesToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Degrade = func(_ context.Context, x emit.Trigger, _ emit.Reason) error {
				if x.ID == "live" {
					return nil // so that none of them is stored
				}
				return errDown
			}
		})
		openBreaker(t, r)
		a.set(func(_ context.Context, x emit.Trigger) error {
			if x.ID == "opens0" {
				return errDown
			}
			return nil
		})
		for i := 0; r.Breaker("a").State() != breaker.Closed; i++ {
			if i == 6000 {
				t.Fatalf("the breaker is %v after 6 s of 1,000 triggers a second", r.Breaker("a").State())
			}
			_, _ = r.Emit(t.Context(), trigger("live"))
			time.Sleep(time.Millisecond)
		}
	})
}

// TestProbesComeFromTheLetters: no live trigger pays for a probe as long as there are letters.
func TestProbesComeFromTheLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		openBreaker(t, r)
		stored := int(stats(t, r, "a").Stored) //nolint:gosec // a few
		a.set(hangs)
		slowest := live(t, r, 5*time.Second)
		if slowest != 0 {
			t.Errorf("a live emit waited %v", slowest)
		}
		if s := stats(t, r, "a"); int(s.Stored) < stored+490 { //nolint:gosec // a few
			t.Errorf("%d stored", s.Stored)
		}
		if probes := a.called() - stored; probes < 3 {
			t.Errorf("%d probes in 5 s", probes)
		}
	})
}

// TestLiveProbesWithoutLetters: where nothing is stored a live trigger is the probe.
func TestLiveProbesWithoutLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) {
			c.Degrade = func(context.Context, emit.Trigger, emit.Reason) error { return nil } // so that nothing is stored
		})
		openBreaker(t, r)
		a.set(nil)
		time.Sleep(time.Second)
		if s := r.Breaker("a").State(); s != breaker.HalfOpen {
			t.Fatalf("the breaker is %v; want half_open", s)
		}
		live(t, r, 15*time.Second)
		if s := r.Breaker("a").State(); s != breaker.Closed {
			t.Errorf("the breaker is %v after live probes; want closed", s)
		}
	})
}

// TestVerdictSeesTwoPercent: a consumer that is slow in a fiftieth of its calls does not pass for a healthy one.
func TestVerdictSeesTwoPercent(t *testing.T) {
	for _, x := range []struct {
		slowEvery int
		closed    bool
	}{{50, false}, {200, true}} {
		synctest.Test(t, func(t *testing.T) {
			a := &target{}
			var mu sync.Mutex
			n := 0
			r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{
				Name: "a", Sink: a, DeadLetters: newRing(t, emit.RingConfig{Letters: 5000, Bytes: 4 << 20}),
			}}})
			a.set(fails)
			openBreaker(t, r)
			for i := range 2000 {
				_, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i)))
			}
			a.set(func(ctx context.Context, x2 emit.Trigger) error {
				mu.Lock()
				n++
				slow := n%x.slowEvery == x.slowEvery/2
				mu.Unlock()
				if slow {
					return takes(100*time.Millisecond)(ctx, x2)
				}
				return takes(2*time.Millisecond)(ctx, x2)
			})
			for range 300 {
				time.Sleep(10 * time.Millisecond)
				if r.Breaker("a").State() == breaker.Closed {
					break
				}
			}
			if closed := r.Breaker("a").State() == breaker.Closed; closed != x.closed {
				t.Errorf("slow every %d: closed %v; want %v", x.slowEvery, closed, x.closed)
			}
		})
	}
}

// TestLater: a consumer that asks to be left alone is, and is asked again afterwards (REQ-E15).
func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error {
			return fmt.Errorf("429: %w", &emit.LaterError{After: 30 * time.Second, Err: errors.New("slow down")})
		}}
		r := one(t, a)
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
		a.set(nil)
		emitWant(t, r, trigger("2"), emit.Stored, emit.ReasonOpen)
		time.Sleep(29 * time.Second)
		emitWant(t, r, trigger("3"), emit.Stored, emit.ReasonOpen)
		if a.called() != 1 {
			t.Errorf("%d calls in the time in which it wants none", a.called()-1)
		}
		time.Sleep(4 * time.Second) // and a ramp of one
		if got := len(a.taken()); got != 3 {
			t.Errorf("%d delivered afterwards; want 3", got)
		}
	})
}
