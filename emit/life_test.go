package emit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// TestDrain is T19 (behaviours-emit 35, 54): intake is refused, what is under way ends or is stored, and the next process replays it.
func TestDrain(t *testing.T) {
	for _, x := range []struct {
		name     string
		deadline time.Duration
		reason   emit.Reason
		err      error
		live     int // of 4 delivered before the end
	}{
		{"in time", time.Second, "", nil, 4},
		{"cut off", 50 * time.Millisecond, emit.ReasonShutdown, context.DeadlineExceeded, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &target{do: takes(100 * time.Millisecond)}
				store := newRing(t, emit.RingConfig{})
				config := emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: a, Replay: emit.Replay{Manual: true}}}}
				r := newRouter(t, config)
				force(t, r, breaker.ForcedOpen)
				for i := range 100 {
					emitWant(t, r, trigger(fmt.Sprint("queued", i)), emit.Stored, emit.ReasonForcedOpen)
				}
				force(t, r, breaker.Closed)
				results := make(chan emit.Result, 4)
				for i := range 4 {
					go func() {
						receipt, _ := r.Emit(t.Context(), trigger(fmt.Sprint("flies", i)))
						results <- receipt.Of("a")
					}()
				}
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), x.deadline)
				defer cancel()
				drained := make(chan error)
				go func() { drained <- r.Drain(ctx) }()
				synctest.Wait()
				receipt, err := r.Emit(t.Context(), trigger("late"))
				if got := receipt.Of("a"); got.Outcome != emit.Refused || !errors.Is(err, emit.ErrClosed) {
					t.Errorf("Emit while it drains: %+v, %v", got, err)
				}
				if err := <-drained; !errors.Is(err, x.err) {
					t.Errorf("Drain: %v; want %v", err, x.err)
				}
				for range 4 {
					if got := <-results; (got.Outcome == emit.Delivered) != (x.live == 4) || got.Reason != x.reason {
						t.Errorf("one that was under way: %+v", got)
					}
				}
				if s := stats(t, r, "a"); s.Breaker.Failures != 0 || s.Refused != 1 || s.Depth.Letters != 104-x.live {
					t.Errorf("%d failures, %d refused, %d stored", s.Breaker.Failures, s.Refused, s.Depth.Letters)
				}

				a.set(nil)
				config.Consumers[0].Replay.Manual = false
				next := newRouter(t, config)
				settled(t, next, "a", time.Minute)
				if s := stats(t, next, "a"); s.Emitted != uint64(104-x.live) || s.Replayed != s.Emitted { //nolint:gosec // 104 at most
					t.Errorf("after the next start: %+v", s)
				}
				if got := a.taken(); len(got) != 104 {
					t.Errorf("%d delivered in all; want 104", len(got))
				}
			})
		})
	}
}

// TestDrainGivesLettersBack: a replay under way at the end is finished, or given back as it was.
func TestDrainGivesLettersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: hangs}
		store := newRing(t, emit.RingConfig{})
		r := newRouter(t, emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: a, Timeout: time.Minute, Slow: time.Second}}})
		_, _ = r.HandOver(t.Context(), trigger("1"))
		synctest.Wait()
		if a.called() != 1 {
			t.Fatalf("%d calls", a.called())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Drain: %v", err)
		}
		for l := range store.Letters(t.Context(), "a", emit.Filter{}) {
			if l.Reason != emit.ReasonReceived || l.Parked || len(l.Last) != 1 {
				t.Errorf("%+v", l)
			}
		}
		if letters, _ := store.Claim(t.Context(), "a", emit.Filter{}, 1); len(letters) != 1 {
			t.Error("the letter is still claimed")
		}
	})
}

// TestDrainNamesWhoHangs: a Sink that ignores its context keeps Drain no longer than a second.
func TestDrainNamesWhoHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error { time.Sleep(time.Hour); return nil }}
		r := one(t, a)
		go func() { _, _ = r.Emit(t.Context(), trigger("1")) }()
		synctest.Wait()
		began := time.Now()
		err := r.Close()
		if !contains(err, "1 deliveries to a do not end") || time.Since(began) != 1200*time.Millisecond {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		time.Sleep(2 * time.Hour)
	})
}

// TestIntakeIsClosedOnce: every emit beside a Drain is either answered by a consumer or refused, and none comes after it.
func TestIntakeIsClosedOnce(t *testing.T) {
	for range 50 {
		a := &target{}
		r := one(t, a)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for {
					if _, err := r.Emit(t.Context(), trigger("x")); err != nil {
						return
					}
				}
			})
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		calls := a.called()
		all.Wait()
		if s := stats(t, r, "a"); a.called() != calls || s.Refused != 4 || s.Delivered != uint64(calls) { //nolint:gosec // calls
			t.Fatalf("%d calls after Close, %d refused, %d delivered of %d", a.called()-calls, s.Refused, s.Delivered, calls)
		}
	}
}

func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(time.Millisecond)}
		r := one(t, a, func(c *emit.Consumer) { c.Replay.Manual, c.Ordered = true, true })
		began := time.Now()
		for i := range 500 {
			receipt, err := r.HandOver(t.Context(), keyed("k", i))
			if x := receipt.Of("a"); err != nil || x.Outcome != emit.Stored || x.Reason != emit.ReasonReceived {
				t.Fatalf("%+v, %v", x, err)
			}
		}
		if time.Since(began) != 0 {
			t.Errorf("it waited for the consumer: %v", time.Since(began))
		}
		settled(t, r, "a", 10*time.Second)
		for i, id := range a.taken() {
			if id != fmt.Sprint("k#", i) {
				t.Fatalf("the %dth is %s", i, id)
			}
		}
		if s := stats(t, r, "a"); s.Delivered != 500 || s.Reasons[emit.ReasonReceived] != 500 {
			t.Errorf("%+v", s)
		}
	})
}

// TestFailedHandOver: it is tried again, though replay is manual.
func TestFailedHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) { c.Replay.Manual = true })
		_, _ = r.HandOver(t.Context(), trigger("1"))
		time.Sleep(time.Second)
		calls := a.called()
		a.set(nil)
		settled(t, r, "a", time.Minute)
		if got := a.taken(); calls < 2 || len(got) != 1 {
			t.Errorf("%d calls in a second, delivered %v", calls, got)
		}
	})
}

// TestHandOversBesideEmits: hand-overs do not pile up because emits have most of the traffic.
func TestHandOversBesideEmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(time.Millisecond)}
		r := one(t, a)
		for range 1000 {
			_, _ = r.Emit(t.Context(), trigger("live"))
			_, _ = r.HandOver(t.Context(), trigger("handed"))
			time.Sleep(9 * time.Millisecond)
		}
		if s := stats(t, r, "a"); s.Stored > 50 {
			t.Errorf("%d hand-overs wait after 10 s of 100 a second", s.Stored)
		}
	})
}

// A faultyStore fails where it is told to.
type faultyStore struct {
	emit.DeadLetters
	mu                    sync.Mutex
	append, claim, settle error
}

func (s *faultyStore) fail(appends, claims, settles error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append, s.claim, s.settle = appends, claims, settles
}

func (s *faultyStore) fault(which *error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *which
}

func (s *faultyStore) Append(ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
	if err := s.fault(&s.append); err != nil {
		return nil, err
	}
	return s.DeadLetters.Append(ctx, l)
}

func (s *faultyStore) Claim(ctx context.Context, consumer string, f emit.Filter, n int) ([]emit.Letter, error) {
	if err := s.fault(&s.claim); err != nil {
		return nil, err
	}
	return s.DeadLetters.Claim(ctx, consumer, f, n)
}

func (s *faultyStore) Settle(ctx context.Context, consumer string, results []emit.Settlement) error {
	if err := s.fault(&s.settle); err != nil {
		return err
	}
	return s.DeadLetters.Settle(ctx, consumer, results)
}

// TestStoreThatFails: a full disk is back pressure and never a silent drop, and it passes (REQ-E4).
func TestStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := fmt.Errorf("%w: no space left on device", emit.ErrBackPressure)
		store := &faultyStore{DeadLetters: newRing(t, emit.RingConfig{})}
		a := &target{}
		var mu sync.Mutex
		var faults []string
		r := newRouter(t, emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: a}}, Observer: emit.Observer{
			OnFault: func(_ string, err error) { mu.Lock(); defer mu.Unlock(); faults = append(faults, err.Error()) },
		}})
		force(t, r, breaker.ForcedOpen)
		store.fail(full, nil, nil)
		got := emitWant(t, r, trigger("refused"), emit.Refused, emit.ReasonForcedOpen)
		if !errors.Is(got.Err, emit.ErrBackPressure) || !contains(got.Err, "no space") {
			t.Errorf("%v", got.Err)
		}
		store.fail(nil, full, nil)
		emitWant(t, r, trigger("stored"), emit.Stored, emit.ReasonForcedOpen)
		force(t, r, breaker.Closed)
		time.Sleep(time.Second)
		if a.called() > 0 {
			t.Error("an attempt at a letter that could not be claimed")
		}
		store.fail(nil, nil, full)
		time.Sleep(time.Second)
		if s := stats(t, r, "a"); s.Stored != 1 || s.Replayed != 0 || a.called() != 1 {
			t.Errorf("delivered, but not settled: %d stored, %d replayed, %d calls; want 1, 0, 1", s.Stored, s.Replayed, a.called())
		}
		store.fail(nil, nil, nil)
		settled(t, r, "a", time.Second)
		if s := stats(t, r, "a"); s.Replayed != 1 || s.Refused != 1 || a.called() != 1 {
			t.Errorf("%+v", s)
		}
		mu.Lock()
		defer mu.Unlock()
		if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, "claim for a") }) ||
			!slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, "settle for a") }) {
			t.Errorf("faults told: %q", faults)
		}
	})
}

// TestCrashedLetterIsPoison: one at which the process crashed five times in a row is parked without another try (REQ-E7).
func TestCrashedLetterIsPoison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRing(t, emit.RingConfig{})
		crashes := func(id string, n int) {
			l := emit.Letter{Consumer: "a", Priority: 1, Trigger: trigger(id), Attempts: n}
			for range n {
				l.Last = append(l.Last, emit.Attempt{At: time.Now(), Err: emit.AttemptCrashed})
			}
			if _, err := store.Append(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		crashes("four", 4)
		crashes("five", 5)
		a := &target{}
		r := newRouter(t, emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: a}}})
		settled(t, r, "a", time.Minute)
		if got := a.taken(); !slices.Equal(got, []string{"four"}) {
			t.Errorf("tried %v; want only the one that crashed four times", got)
		}
		for l := range r.Letters(t.Context(), "a", emit.Filter{}) {
			if l.Trigger.ID != "five" || !l.Parked || l.Reason != emit.ReasonPoison || l.Attempts != 5 {
				t.Errorf("%+v", l)
			}
		}
		if n, err := r.Replay(t.Context(), "a", emit.Filter{}); n != 1 || err != nil { // a person sends it back
			t.Errorf("Replay of the poison: %d, %v", n, err)
		}
	})
}

func TestMaxAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one(t, &target{do: fails}, func(c *emit.Consumer) { c.Replay.MaxAttempts = 3 })
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
		settled(t, r, "a", time.Minute)
		for l := range r.Letters(t.Context(), "a", emit.Filter{}) {
			if !l.Parked || l.Attempts != 3 || l.Reason != emit.ReasonPoison {
				t.Errorf("%+v", l)
			}
		}
	})
}

// TestOrderSurvivesARestart: the keys of stored letters hold later triggers back from the first emit on.
func TestOrderSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRing(t, emit.RingConfig{})
		a := &target{do: fails}
		config := emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: a, Ordered: true}}}
		r := newRouter(t, config)
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonFailed)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		a.set(nil)
		next := newRouter(t, config)
		emitWant(t, next, keyed("k", 2), emit.Stored, emit.ReasonBehind)
		settled(t, next, "a", time.Minute)
		if got := strings.Join(a.taken(), " "); got != "k#1 k#2" {
			t.Errorf("took %s", got)
		}
	})
}

// TestDiscardFreesTheKey: what was discarded holds nothing back for good, and counts as shed.
func TestDiscardFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonFailed)
		emitWant(t, r, keyed("k", 2), emit.Stored, emit.ReasonBehind)
		n, err := r.Discard(t.Context(), "a", emit.Filter{})
		if n != 2 || err != nil {
			t.Errorf("Discard: %d, %v", n, err)
		}
		a.set(nil)
		time.Sleep(time.Second)
		emitWant(t, r, keyed("k", 3), emit.Delivered, "")
		if s := stats(t, r, "a"); s.Shed != 2 || s.Discarded != 2 || s.Stored != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestUnparkedLetterHoldsItsKey: a letter that a person sent back goes before later ones of its key that have come since.
func TestUnparkedLetterHoldsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error { return emit.ErrRejected }}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonRejected)
		a.set(takes(20 * time.Millisecond))
		emitWant(t, r, keyed("k", 2), emit.Delivered, "") // a parked one holds nothing back
		replayed := make(chan int)
		go func() {
			n, _ := r.Replay(t.Context(), "a", emit.Filter{Key: "k"})
			replayed <- n
		}()
		synctest.Wait()
		emitWant(t, r, keyed("k", 3), emit.Stored, emit.ReasonBehind)
		if n := <-replayed; n != 2 {
			t.Errorf("%d replayed", n)
		}
		if got := strings.Join(a.taken(), " "); got != "k#2 k#1 k#3" {
			t.Errorf("took %s", got)
		}
	})
}

// TestProfileLabels: a goroutine profile names the consumer that a call waits for (REQ-E10).
func TestProfileLabels(t *testing.T) {
	for _, off := range []bool{false, true} {
		release := make(chan struct{})
		a := &target{do: func(context.Context, emit.Trigger) error { <-release; return nil }}
		r := newRouter(t, emit.Config{NoLabels: off, Consumers: []emit.Consumer{{Name: "billing-7", Sink: a, Timeout: time.Minute, Slow: 30 * time.Second}}})
		done := make(chan struct{})
		pprof.Do(t.Context(), pprof.Labels("request", "of the caller"), func(ctx context.Context) {
			go func() {
				defer close(done)
				_, _ = r.Emit(ctx, trigger("1"))
				if !strings.Contains(profile(), "of the caller") {
					t.Error("the caller's labels are gone after the call")
				}
			}()
		})
		for a.called() == 0 {
			select {
			case <-t.Context().Done():
				t.Fatal("no call")
			default:
			}
		}
		if got := strings.Contains(profile(), `"consumer":"billing-7"`); got == off {
			t.Errorf("NoLabels %v: the profile names the consumer: %v", off, got)
		}
		close(release)
		<-done
	}
}

func profile() string {
	var b bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

// TestObserver: a panic in it breaks nothing, and each thing is told once.
func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[string]int{}
		tell := func(what string) { mu.Lock(); told[what]++; mu.Unlock(); panic(what) }
		a := &target{do: fails}
		r := newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: a, DeadLetters: newRing(t, emit.RingConfig{Letters: 1, Bytes: 4096})}},
			Observer: emit.Observer{
				OnTransition: func(breaker.Transition) { tell("transition") },
				OnStored:     func(emit.Letter) { tell("stored") },
				OnShed:       func(emit.Letter, error) { tell("shed") },
				OnReplayed:   func(emit.Letter) { tell("replayed") },
				OnParked:     func(emit.Letter) { tell("parked") },
				OnFault:      func(string, error) { tell("fault") },
			},
		})
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
		emitWant(t, r, trigger("2"), emit.Shed, emit.ReasonFailed)
		force(t, r, breaker.ForcedOpen)
		a.set(nil)
		force(t, r, breaker.Closed)
		settled(t, r, "a", time.Minute)
		a.set(func(context.Context, emit.Trigger) error { return emit.ErrRejected })
		emitWant(t, r, trigger("3"), emit.Stored, emit.ReasonRejected)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for what, want := range map[string]int{"stored": 2, "shed": 1, "replayed": 1, "parked": 1, "transition": 2, "fault": 7} {
			if told[what] != want {
				t.Errorf("%s: told %d times; want %d", what, told[what], want)
			}
		}
	})
}
