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

// TestRetriesDelayNobody is T18 (behaviours-emit 33): what is retried waits in the dead letters, not in a lane.
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

// TestForcedOpen is T20 (behaviours-emit 37): what was emitted while a consumer was switched off is kept, and delivered when it is on again.
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

// TestOrderPerKey is T25 (behaviours-emit 48, 49; REQ-E6).
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

// TestReplayBesideLiveTraffic is T26 (behaviours-emit 52; REQ-E6): replay keeps to its share, and yields when the consumer slows.
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

// TestReplayByFilter is the other half of T26 (behaviours-emit 51): it takes exactly what matches, and goes on where it was broken off.
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

// TestParkedLettersBlockNothing: what the consumer keeps rejecting is parked with its history (REQ-E6).
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
