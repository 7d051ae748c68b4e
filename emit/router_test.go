package emit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

func TestEmitDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c, d := &target{}, &target{}, &target{}, &target{}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{
			{Name: "a", Sink: a, Types: []string{"order.paid"}},
			{Name: "b", Sink: b},
			{Name: "c", Sink: c, Types: []string{"ping"}},
			{Name: "d", Sink: d, Types: []string{}}, // as a file with an empty list gives it
		}})
		for _, x := range []emit.Trigger{{Type: "order.paid", ID: "1"}, {Type: "ping", ID: "2"}, {Type: "other", ID: "3"}} {
			if receipt, err := r.Emit(t.Context(), x); err != nil || receipt.ID != x.ID {
				t.Errorf("Emit: %+v, %v", receipt, err)
			}
		}
		for _, x := range []struct {
			got  []string
			want string
		}{{a.taken(), "1"}, {b.taken(), "1 2 3"}, {c.taken(), "2"}, {d.taken(), "1 2 3"}} {
			if got := strings.Join(x.got, " "); got != x.want {
				t.Errorf("took [%s]; want [%s]", got, x.want)
			}
		}
	})
}

// TestDefaultsOfATrigger: an ID above all (REQ-E8).
func TestDefaultsOfATrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got emit.Trigger
		r := one(t, &target{do: func(_ context.Context, x emit.Trigger) error { got = x; return nil }})
		receipt, err := r.Emit(t.Context(), emit.Trigger{Type: "x"})
		if err != nil || len(got.ID) != 32 || got.ID != receipt.ID || got.Source != "breakwater" || got.ContentType != "application/json" || !got.Time.Equal(time.Now()) {
			t.Errorf("%+v, %v", got, err)
		}
		again, _ := r.Emit(t.Context(), emit.Trigger{Type: "x"})
		if again.ID == receipt.ID {
			t.Error("two triggers have one ID")
		}
	})
}

func TestTriggersThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRouter(t, emit.Config{MaxBytes: 10, Consumers: []emit.Consumer{{Name: "a", Sink: &target{}, Types: []string{"x"}}}})
		for _, x := range []struct {
			t    emit.Trigger
			is   error
			text string
		}{
			{emit.Trigger{}, nil, "no Type"},
			{emit.Trigger{Type: "x", Priority: "urgent"}, nil, `priority "urgent"`},
			{emit.Trigger{Type: "x", Data: make([]byte, 11)}, emit.ErrTooLarge, "11 bytes, the Router takes 10"},
			{emit.Trigger{Type: "y"}, emit.ErrNoConsumer, `"y"`},
		} {
			_, err := r.Emit(t.Context(), x.t)
			if !contains(err, x.text) || x.is != nil && !errors.Is(err, x.is) {
				t.Errorf("Emit(%+v): %v; want %q", x.t, err, x.text)
			}
		}
	})
}

func TestConfigFaults(t *testing.T) {
	ok := emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })
	for _, x := range []struct {
		c    emit.Config
		want []string
	}{
		{emit.Config{}, []string{"Consumers is empty"}},
		{emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok}, {Name: "a", Sink: ok}}}, []string{`two named "a"`}},
		{emit.Config{Consumers: []emit.Consumer{{}}}, []string{"Name is empty", "Sink is nil"}},
		{
			emit.Config{MaxBytes: -1, Priorities: []string{"a", "a", ""}, DefaultPriority: "b", Consumers: []emit.Consumer{{Name: "a", Sink: ok, Timeout: -1, Bulkhead: -1}}},
			[]string{"MaxBytes", `Priorities[1] is "a"`, `Priorities[2] is ""`, `DefaultPriority is "b"`, "Timeout is", "Bulkhead"},
		},
		{
			emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok, Replay: emit.Replay{Share: 2, MaxAttempts: -1}, Breaker: breaker.Config{Name: "x"}}}},
			[]string{"Replay.Share is 2", "MaxAttempts is -1", "Name, Classify or Calls"},
		},
		{ // a bulkhead that starves the window rule: 4 calls of 200 ms fill 20 in a second
			emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok, Bulkhead: 4, Breaker: breaker.Config{Rules: []breaker.Rule{breaker.Percentile{MinCalls: 100}}}}}},
			[]string{`consumer "a"`, "100", "4", "200ms"},
		},
		{emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok, Slow: time.Second}}}, []string{`consumer "a"`, "1s", "200ms"}},
		{emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: ok, Slow: -1}}}, []string{"Slow is -1ns"}},
	} {
		_, err := emit.New(x.c)
		for _, want := range x.want {
			if !contains(err, want) {
				t.Errorf("%v; want it to say %q", err, want)
			}
		}
	}
}

// TestDefaultsFit: each sensible bulkhead and timeout gives rules that can decide.
func TestDefaultsFit(t *testing.T) {
	for _, bulkhead := range []int{1, 4, 8, 16, 64, 1000} {
		for _, timeout := range []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second, 30 * time.Second} {
			r, err := emit.New(emit.Config{Consumers: []emit.Consumer{{Name: "a", Sink: &target{}, Bulkhead: bulkhead, Timeout: timeout}}})
			if err != nil {
				t.Errorf("bulkhead %d, timeout %v: %v", bulkhead, timeout, err)
				continue
			}
			_ = r.Close()
		}
	}
}

// TestHangingConsumer is T1 (behaviours-emit 1, 2): the blast radius of a consumer that hangs is that consumer (REQ-E1).
func TestHangingConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &target{do: hangs}, &target{do: takes(5 * time.Millisecond)}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{
			{Name: "a", Sink: a, Types: []string{"a"}, Bulkhead: 4}, {Name: "b", Sink: b, Types: []string{"b"}, Bulkhead: 4},
		}})
		done := make(chan emit.Receipt, 400)
		var longestA, longestB longest
		for i := range 200 {
			for _, name := range []string{"a", "b"} {
				go func() {
					began := time.Now()
					receipt, _ := r.Emit(t.Context(), emit.Trigger{ID: fmt.Sprint(name, i), Type: name})
					if name == "b" {
						longestB.add(time.Since(began))
					} else {
						longestA.add(time.Since(began))
					}
					done <- receipt
				}()
			}
			time.Sleep(2 * time.Millisecond)
		}
		for range 400 {
			receipt := <-done
			if x := receipt.Of("b"); x.Consumer == "b" && receipt.ID[0] == 'b' && x.Outcome != emit.Delivered {
				t.Errorf("%s: %v; want delivered", receipt.ID, x)
			}
		}
		s := stats(t, r, "a")
		diverted := s.Reasons[emit.ReasonBulkhead] + s.Reasons[emit.ReasonOpen]
		if a.max > 4 || diverted < 180 || s.Stored != 200 {
			t.Errorf("a had %d in flight; %d diverted of %d stored: %v", a.max, diverted, s.Stored, s.Reasons)
		}
		if longestA.get() > 200*time.Millisecond || longestB.get() > 5*time.Millisecond {
			t.Errorf("emits took up to %v for a and %v for b; want 200ms and 5ms at most", longestA.get(), longestB.get())
		}
	})
}

// TestFullDeadLetters is T2 (behaviours-emit 3, 17): what does not fit is told as shed, and the others do not notice.
func TestFullDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &target{do: fails}, &target{}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{
			{Name: "a", Sink: a, DeadLetters: newRing(t, emit.RingConfig{Letters: 10, Bytes: 64 << 10, Reserved: -1})}, {Name: "b", Sink: b},
		}})
		shed := 0
		for i := range 200 {
			receipt, err := r.Emit(t.Context(), trigger(strconv.Itoa(i)))
			if x := receipt.Of("b"); x.Outcome != emit.Delivered {
				t.Errorf("b: %+v", x)
			}
			if x := receipt.Of("a"); x.Outcome == emit.Shed {
				shed++
				if !errors.Is(err, emit.ErrShed) || !errors.Is(err, emit.ErrFull) || errors.Is(err, emit.ErrBackPressure) {
					t.Errorf("the error of a shed emit: %v", err)
				}
			}
		}
		if s := stats(t, r, "a"); shed != 190 || s.Shed != 190 || s.Stored != 10 {
			t.Errorf("%d shed, by Stats %d; %d stored; want 190, 190, 10", shed, s.Shed, s.Stored)
		}
	})
}

// TestNoConnection is T3 (behaviours-emit 5): an emit to a consumer that cannot be reached returns within its budget, and is kept (REQ-E3).
func TestNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one(t, &target{do: hangs})
		began := time.Now()
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonTimeout)
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("it took %v; want the lane's 200ms", took)
		}
	})
}

// TestFailingFast is T4 (behaviours-emit 6, 53): errors alone open the breaker (REQ-E2), and then no call is made.
func TestFailingFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		for i := 0; r.Breaker("a").State() == breaker.Closed && i < 100; i++ {
			emitWant(t, r, trigger(strconv.Itoa(i)), emit.Stored, emit.ReasonFailed)
		}
		before, began := a.called(), time.Now()
		got := emitWant(t, r, trigger("next"), emit.Stored, emit.ReasonOpen)
		if a.called() != before || time.Since(began) != 0 || !errors.Is(got.Err, breaker.ErrOpen) {
			t.Errorf("%d calls, %v, %v; want none, at once, and the refusal", a.called()-before, time.Since(began), got.Err)
		}
		if before != 20 {
			t.Errorf("opened after %d failures; want 20", before)
		}
	})
}

// TestBatchAboveTheLimit is T5 (behaviours-emit 7): no wait depends on another limit.
func TestBatchAboveTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: takes(20 * time.Millisecond)}
		r := one(t, a, func(c *emit.Consumer) { c.Bulkhead = 4 })
		outcomes := make(chan emit.Outcome, 100)
		began := time.Now()
		for i := range 100 {
			go func() {
				receipt, _ := r.Emit(t.Context(), trigger(strconv.Itoa(i)))
				outcomes <- receipt.Of("a").Outcome
			}()
		}
		delivered, stored := 0, 0
		for range 100 {
			switch <-outcomes {
			case emit.Delivered:
				delivered++
			case emit.Stored:
				stored++
			default:
			}
		}
		if delivered != 4 || stored != 96 || time.Since(began) != 20*time.Millisecond {
			t.Errorf("%d delivered and %d stored in %v; want 4 and 96 in 20ms", delivered, stored, time.Since(began))
		}
		settled(t, r, "a", time.Minute)
		if got := stats(t, r, "a"); got.Delivered != 100 || a.max > 4 {
			t.Errorf("%d delivered in the end, %d at once; want 100, 4 at most", got.Delivered, a.max)
		}
	})
}

// TestBoundsByPriority is T6 (behaviours-emit 16, 17, 43) through a Router (REQ-E4).
func TestBoundsByPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shed []string
		r := newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: &target{}}}, Priorities: []string{"compliance", "high", "low"},
			DeadLetters: newRing(t, emit.RingConfig{Letters: 10, Bytes: 64 << 10, Reserved: 3}),
			Observer: emit.Observer{OnShed: func(l emit.Letter, why error) {
				if !errors.Is(why, emit.ErrBackPressure) {
					shed = append(shed, l.Trigger.ID)
				}
			}},
		})
		if err := r.Breaker("a").Force(breaker.ForcedOpen, "test"); err != nil {
			t.Fatal(err)
		}
		send := func(priority string, n int) (got []string) {
			for i := range n {
				receipt, _ := r.Emit(t.Context(), emit.Trigger{ID: fmt.Sprint(priority, i), Type: "x", Priority: priority})
				got = append(got, receipt.Of("a").Outcome.String())
			}
			return got
		}
		for _, x := range []struct {
			priority  string
			n         int
			got, shed string
		}{
			{"low", 10, "stored stored stored stored stored stored stored shed shed shed", "low7 low8 low9"},
			{"high", 5, "stored stored stored stored stored", "low0 low1 low2 low3 low4"},
			{"compliance", 8, "stored stored stored stored stored stored stored stored", "low5 low6 high0 high1 high2"},
			{"compliance", 4, "stored stored refused refused", "high3 high4"},
		} {
			shed = nil
			if got := strings.Join(send(x.priority, x.n), " "); got != x.got || strings.Join(shed, " ") != x.shed {
				t.Errorf("%d of %s: %s, shed %v; want %s, shed %s", x.n, x.priority, got, shed, x.got, x.shed)
			}
		}
		_, err := r.Emit(t.Context(), emit.Trigger{Type: "x", Priority: "compliance"})
		if !errors.Is(err, emit.ErrBackPressure) || errors.Is(err, emit.ErrShed) {
			t.Errorf("the error of a refused emit: %v", err)
		}
		if s := stats(t, r, "a"); s.Stored != 10 || s.Shed != 15 || s.Refused != 3 || s.Evicted != 12 || s.Emitted != 28 {
			t.Errorf("%+v", s)
		}
	})
}

// TestRejected is T12 (behaviours-emit 19, 20, 34): rejections, undecodable payloads and panics are kept with their reason and one attempt.
func TestRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{}
		r := one(t, a)
		for id, do := range map[string]func(context.Context, emit.Trigger) error{
			"403":   func(context.Context, emit.Trigger) error { return fmt.Errorf("%w: 403 forbidden", emit.ErrRejected) },
			"panic": func(context.Context, emit.Trigger) error { panic("cannot decode") },
		} {
			a.set(do)
			x := trigger(id)
			x.Data = []byte{0xff, 0xfe}
			why := emit.ReasonFailed
			if id == "403" {
				why = emit.ReasonRejected
			}
			emitWant(t, r, x, emit.Stored, why)
			for l := range r.Letters(t.Context(), "a", emit.Filter{}) {
				if l.Trigger.ID == id && (l.Attempts != 1 || len(l.Last) != 1 || l.Reason != why || l.Parked != (id == "403") || !slices.Equal(l.Trigger.Data, x.Data)) {
					t.Errorf("%+v", l)
				}
			}
			a.set(nil)
			settled(t, r, "a", time.Minute)
		}
		if got := a.taken(); !slices.Equal(got, []string{"panic"}) {
			t.Errorf("delivered %v; want the one that panicked, once the consumer is well", got)
		}
		if s := r.Breaker("a").Stats(); s.Failures != 1 {
			t.Errorf("%d failures; want that of the panic: a rejection is none (REQ-E15)", s.Failures)
		}
		a.set(nil)
		if n, err := r.Replay(t.Context(), "a", emit.Filter{Parked: new(true)}); n != 1 || err != nil {
			t.Errorf("Replay of the parked one: %d, %v", n, err)
		}
		if s := stats(t, r, "a"); s.Delivered != 2 || s.Stored != 0 || s.Parked != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestHangsAreSeenByAge is T14 (behaviours-emit 23, 29): the breaker opens before any of the calls returns (REQ-E2).
func TestHangsAreSeenByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one(t, &target{do: hangs}, func(c *emit.Consumer) { c.Timeout, c.Bulkhead = 10*time.Second, 30 })
		began := time.Now()
		for i := range 20 {
			go func() { _, _ = r.Emit(t.Context(), trigger(strconv.Itoa(i))) }()
		}
		synctest.Wait()
		time.Sleep(60 * time.Millisecond)
		emitWant(t, r, trigger("next"), emit.Stored, emit.ReasonOpen)
		if s := stats(t, r, "a"); time.Since(began) > 70*time.Millisecond || s.Breaker.Reason.Rule != breaker.RuleCUSUM || s.InFlight != 20 {
			t.Errorf("opened by %v with %d in flight after %v", s.Breaker.Reason, s.InFlight, time.Since(began))
		}
	})
}

// TestCallerGoesAway: a caller's cancellation is no failure of the consumer, and the trigger is kept.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one(t, &target{do: hangs})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		receipt, err := r.Emit(ctx, trigger("1"))
		if x := receipt.Of("a"); err != nil || x.Outcome != emit.Stored || x.Reason != emit.ReasonTimeout {
			t.Errorf("%+v, %v", x, err)
		}
		if s := r.Breaker("a").Stats(); s.Failures != 0 || s.Ignored != 1 {
			t.Errorf("failures %d, ignored %d; want 0 and 1", s.Failures, s.Ignored)
		}
	})
}

// TestDegrade: what Degrade takes is delivered, what it does not is kept (REQ-E11).
func TestDegrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []emit.Reason
		answer := errors.New("not this one")
		r := one(t, &target{do: fails}, func(c *emit.Consumer) {
			c.Degrade = func(_ context.Context, x emit.Trigger, reason emit.Reason) error {
				why = append(why, reason)
				switch x.ID {
				case "refuse":
					return answer
				case "panic":
					panic("degrade")
				}
				return nil
			}
		})
		emitWant(t, r, trigger("1"), emit.Delivered, emit.ReasonFailed)
		emitWant(t, r, trigger("refuse"), emit.Stored, emit.ReasonFailed)
		emitWant(t, r, trigger("panic"), emit.Stored, emit.ReasonFailed)
		if s := stats(t, r, "a"); s.Degraded != 1 || s.Delivered != 1 || s.Stored != 2 || len(why) != 3 {
			t.Errorf("%+v, asked for %v", s, why)
		}
	})
}

// TestGoexitInASink: the goroutine ends, and the trigger is kept.
func TestGoexitInASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: func(context.Context, emit.Trigger) error { panicGoexit(); return nil }}
		r := one(t, a, func(c *emit.Consumer) { c.Ordered = true })
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = r.Emit(t.Context(), keyed("k", 1))
		}()
		<-done
		if s := stats(t, r, "a"); s.Stored != 1 || s.InFlight != 0 {
			t.Errorf("%+v", s)
		}
		a.set(nil)
		settled(t, r, "a", time.Minute)
		emitWant(t, r, keyed("k", 2), emit.Delivered, "")
	})
}
