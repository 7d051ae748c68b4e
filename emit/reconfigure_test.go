package emit_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// reconfigure changes the settings in force by f.
func reconfigure(t *testing.T, r *emit.Router, f func(*emit.Config)) {
	t.Helper()
	c := r.Config()
	f(&c)
	if err := r.Reconfigure(c); err != nil {
		t.Fatal(err)
	}
}

func without(name string) func(*emit.Config) {
	return func(c *emit.Config) {
		c.Consumers = slices.DeleteFunc(c.Consumers, func(k emit.Consumer) bool { return k.Name == name })
	}
}

func also(k emit.Consumer) func(*emit.Config) {
	return func(c *emit.Config) { c.Consumers = append(c.Consumers, k) }
}

// A consumer whose name stays keeps breaker, counts and letters, whatever else changes (REQ-B16).
func TestReconfigureKeepsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &target{do: hangs}, &target{}
		r := one(t, first)
		before := r.Breaker("a")
		emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonTimeout)
		if err := before.Force(breaker.ForcedOpen, "test"); err != nil {
			t.Fatal(err)
		}
		emitWant(t, r, trigger("2"), emit.Stored, emit.ReasonForcedOpen)
		reconfigure(t, r, func(c *emit.Config) {
			k := &c.Consumers[0]
			k.Sink, k.Timeout, k.Slow, k.Bulkhead, k.Types = second, time.Second, 300*time.Millisecond, 2, []string{"order.paid"}
		})
		if r.Breaker("a") != before || before.State() != breaker.ForcedOpen {
			t.Errorf("the breaker is another, or %v", before.State())
		}
		s := stats(t, r, "a")
		if s.Emitted != 2 || s.Stored != 2 || s.Reasons[emit.ReasonTimeout] != 1 {
			t.Errorf("counts: %+v", s)
		}
		if err := before.Force(breaker.Closed, "test"); err != nil {
			t.Fatal(err)
		}
		settled(t, r, "a", time.Minute)
		if got := second.taken(); len(got) != 2 {
			t.Errorf("the new sink got %v, want both letters", got)
		}
		if _, err := r.Emit(t.Context(), emit.Trigger{Type: "other"}); !errors.Is(err, emit.ErrNoConsumer) {
			t.Errorf("an emit of another type: %v", err)
		}
		// the new Timeout and Bulkhead
		second.set(takes(600 * time.Millisecond))
		began := time.Now()
		emitWant(t, r, trigger("3"), emit.Delivered, "")
		if d := time.Since(began); d != 600*time.Millisecond {
			t.Errorf("it took %v", d)
		}
		for range 2 {
			go func() { _, _ = r.Emit(context.Background(), trigger("4")) }()
		}
		synctest.Wait()
		emitWant(t, r, trigger("5"), emit.Stored, emit.ReasonBulkhead)
	})
}

// A consumer that goes ends in order: its call under way is stored at its own timeout, its letters stay and are seen, its goroutine ends;
// when it comes back it inherits them.
func TestRemovedConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRing(t, emit.RingConfig{})
		a, b := &target{do: hangs}, &target{}
		ka := emit.Consumer{Name: "a", Sink: a}
		r := newRouter(t, emit.Config{DeadLetters: store, Consumers: []emit.Consumer{ka, {Name: "b", Sink: b}}})
		done := make(chan emit.Result)
		go func() {
			receipt, _ := r.Emit(context.Background(), trigger("1"))
			done <- receipt.Of("a")
		}()
		synctest.Wait()
		reconfigure(t, r, without("a"))
		receipt, err := r.Emit(t.Context(), trigger("2"))
		if got := receipt.Of("a"); err != nil || got.Outcome != 0 || receipt.Of("b").Outcome != emit.Delivered {
			t.Errorf("after a is gone: %v for a, %v", got, err)
		}
		if got := <-done; got.Outcome != emit.Stored || got.Reason != emit.ReasonTimeout {
			t.Errorf("the call under way: %+v", got)
		}
		time.Sleep(time.Minute) // nobody delivers it
		if got := a.called(); got != 1 {
			t.Errorf("a was called %d times, want 1", got)
		}
		s := r.Stats()
		if len(s.Consumers) != 1 || s.Absent["a"].Letters != 1 || len(s.Absent) != 1 {
			t.Errorf("consumers %d, absent %v", len(s.Consumers), s.Absent)
		}
		if _, err := r.Replay(t.Context(), "a", emit.Filter{}); !contains(err, `"a"`) {
			t.Errorf("Replay of one that is gone: %v", err)
		}
		n := 0
		for range r.Letters(t.Context(), "a", emit.Filter{}) {
			n++
		}
		if n != 1 {
			t.Errorf("%d letters are listed of one that is gone, want 1", n)
		}
		a.set(nil)
		reconfigure(t, r, also(ka))
		settled(t, r, "a", time.Minute)
		if got := stats(t, r, "a"); !slices.Equal(a.taken(), []string{"1"}) || got.Emitted != 1 || got.Replayed != 1 || len(r.Stats().Absent) != 0 {
			t.Errorf("back again: %v, %+v", a.taken(), got)
		}
	})
}

// One that comes back before it has ended goes on as if it had stayed.
func TestConsumerBackBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: hangs}
		ka := emit.Consumer{Name: "a", Sink: a}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{ka, {Name: "b", Sink: &target{}}}})
		before := r.Breaker("a")
		go func() { _, _ = r.Emit(context.Background(), trigger("1")) }()
		synctest.Wait()
		reconfigure(t, r, without("a"))
		synctest.Wait() // it does not end while an emit is under way
		a.set(nil)
		reconfigure(t, r, also(ka))
		if r.Breaker("a") != before {
			t.Error("it has another breaker")
		}
		settled(t, r, "a", time.Minute)
		time.Sleep(time.Second)
		if s := stats(t, r, "a"); s.Emitted != 1 || s.Replayed != 1 {
			t.Errorf("%+v", s)
		}
		// a Ring of the Router's is found again
		if err := before.Force(breaker.ForcedOpen, "test"); err != nil {
			t.Fatal(err)
		}
		emitWant(t, r, trigger("2"), emit.Stored, emit.ReasonForcedOpen)
		reconfigure(t, r, without("a"))
		time.Sleep(time.Minute)
		if got := r.Stats().Absent["a"].Letters; got != 1 {
			t.Errorf("%d letters are absent, want 1", got)
		}
		reconfigure(t, r, also(ka))
		if r.Breaker("a") == before {
			t.Error("it has the breaker of a lane that has ended")
		}
		settled(t, r, "a", time.Minute)
		if got := a.taken(); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("it took %v, want 1 and 2", got)
		}
	})
}

// A refused Config changes nothing, and the error has all its faults.
func TestReconfigureRefuses(t *testing.T) {
	r := one(t, &target{})
	before := r.Config()
	c := r.Config()
	c.Priorities, c.DefaultPriority, c.DeadLetters = []string{"x", "y"}, "x", newRing(t, emit.RingConfig{})
	c.Consumers[0].Timeout = -1
	c.Consumers = append(c.Consumers, emit.Consumer{Name: "b"})
	err := r.Reconfigure(c)
	for _, want := range []string{"Priorities is", "DefaultPriority is", "DeadLetters is", "Timeout is", "Sink is nil"} {
		if !contains(err, want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if after := r.Config(); len(after.Consumers) != 1 || after.Consumers[0].Timeout != before.Consumers[0].Timeout || after.DefaultPriority != "normal" {
		t.Errorf("it changed to %+v", after)
	}
	c = r.Config()
	c.Consumers[0].DeadLetters = newRing(t, emit.RingConfig{})
	if err := r.Reconfigure(c); !contains(err, "DeadLetters is another store") {
		t.Errorf("another store: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Reconfigure(r.Config()); !errors.Is(err, emit.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A consumer that becomes ordered keeps the order of what is emitted from then on, behind what is stored.
func TestBecomesOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{do: fails}
		r := one(t, a)
		for i := range 3 {
			emitWant(t, r, keyed("k", i), emit.Stored, emit.ReasonFailed)
		}
		for range 2 { // the second time all keys are known already
			reconfigure(t, r, func(c *emit.Config) { c.Consumers[0].Ordered = true })
			emitWant(t, r, keyed("k", 3), emit.Stored, emit.ReasonBehind)
			reconfigure(t, r, func(c *emit.Config) { c.Consumers[0].Ordered = false })
			emitWant(t, r, keyed("k", 4), emit.Stored, emit.ReasonFailed)
		}
		reconfigure(t, r, func(c *emit.Config) { c.Consumers[0].Ordered = true })
		synctest.Wait() // replay that began while it was not ordered
		a.set(nil)
		emitWant(t, r, keyed("k", 5), emit.Stored, emit.ReasonBehind)
		settled(t, r, "a", 5*time.Minute)
		var want []string
		for _, n := range []int{0, 1, 2, 3, 4, 3, 4, 5} {
			want = append(want, "k#"+strconv.Itoa(n))
		}
		if got := a.taken(); !slices.Equal(got, want) {
			t.Errorf("it took %v, want %v", got, want)
		}
		time.Sleep(time.Second) // the lane forgets what it has counted too often
		emitWant(t, r, keyed("k", 6), emit.Delivered, "")
	})
}

// What an emit stores that began before its consumer became ordered holds its key back as well, once it is stored.
func TestEmitUnderWayWhileItBecomesOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		store := &oddStore{DeadLetters: newRing(t, emit.RingConfig{})}
		store.append = func(d emit.DeadLetters, ctx context.Context, l emit.Letter) ([]emit.Letter, error) {
			<-open
			return d.Append(ctx, l)
		}
		a := &target{do: fails}
		r := one(t, a, with(store))
		go func() { _, _ = r.Emit(context.Background(), keyed("k", 0)) }()
		synctest.Wait()
		reconfigure(t, r, func(c *emit.Config) { c.Consumers[0].Ordered = true })
		a.set(nil)
		close(open)
		synctest.Wait()
		emitWant(t, r, keyed("k", 1), emit.Stored, emit.ReasonBehind)
		settled(t, r, "a", time.Minute)
		if got := a.taken(); !slices.Equal(got, []string{"k#0", "k#1"}) {
			t.Errorf("it took %v", got)
		}
		time.Sleep(time.Second)
		emitWant(t, r, keyed("k", 2), emit.Delivered, "")
	})
}
