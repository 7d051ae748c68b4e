package emit_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// The Router's own latency is a histogram a consumer, diverts included (REQ-O1).
func TestTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &target{}
		r := one(t, a)
		for _, d := range []time.Duration{0, 12 * time.Millisecond, 12*time.Millisecond + 1, 40 * time.Millisecond} {
			a.set(takes(d))
			emitWant(t, r, trigger("1"), emit.Delivered, "")
		}
		a.set(hangs)
		emitWant(t, r, trigger("2"), emit.Stored, emit.ReasonTimeout)
		if err := r.Breaker("a").Force(breaker.ForcedOpen, "test"); err != nil {
			t.Fatal(err)
		}
		emitWant(t, r, trigger("3"), emit.Stored, emit.ReasonForcedOpen)
		if _, err := r.HandOver(t.Context(), trigger("4")); err != nil {
			t.Fatal(err)
		}
		got := stats(t, r, "a").Took
		want := emit.Histogram{Sum: 264*time.Millisecond + 1}
		for i, b := range emit.LatencyBounds() {
			for _, d := range []time.Duration{0, 0, 0, 12 * time.Millisecond, 12*time.Millisecond + 1, 40 * time.Millisecond, 200 * time.Millisecond} {
				if d <= b {
					want.Counts[i]++
				}
			}
		}
		want.Counts[len(want.Counts)-1] = 7
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
}

// A mute store is one that says it is durable, and answers no Append until its context ends.
type mute struct{ emit.DeadLetters }

func (mute) Durability() emit.Durability { return emit.Synced }

func (mute) Append(ctx context.Context, _ emit.Letter) ([]emit.Letter, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that hangs holds no caller up for good, though its context has no deadline: it gets back pressure, and the fault is told.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told error
		r := newRouter(t, emit.Config{
			Consumers: []emit.Consumer{{Name: "a", Sink: &target{do: fails}, DeadLetters: mute{newRing(t, emit.RingConfig{})}, Ordered: true}},
			Observer:  emit.Observer{OnFault: func(_ string, err error) { told = err }},
		})
		began := time.Now()
		_, err := r.Emit(context.Background(), keyed("k", 1))
		if d := time.Since(began); !errors.Is(err, emit.ErrBackPressure) || d != 5*time.Second {
			t.Errorf("after %v: %v", d, err)
		}
		if !errors.Is(told, emit.ErrBackPressure) || stats(t, r, "a").Refused != 1 {
			t.Errorf("told %v, %+v", told, stats(t, r, "a"))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		told = nil
		if _, err := r.Emit(ctx, keyed("k", 2)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(told, emit.ErrBackPressure) {
			t.Errorf("the caller's own deadline: %v, told %v", err, told)
		}
	})
}

// A dumb store lists nothing until its context ends.
type dumb struct{ emit.DeadLetters }

func (d dumb) Letters(ctx context.Context, _ string, _ emit.Filter) iter.Seq2[emit.Letter, error] {
	return func(yield func(emit.Letter, error) bool) {
		<-ctx.Done()
		yield(emit.Letter{}, ctx.Err())
	}
}

// A store that lists nothing does not hold up a change of settings for good: it fails, and nothing has changed.
func TestStoreThatListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := newRing(t, emit.RingConfig{})
		if _, err := ring.Append(t.Context(), emit.Letter{Consumer: "b", Priority: 1, Trigger: trigger("1")}); err != nil {
			t.Fatal(err)
		}
		r := newRouter(t, emit.Config{DeadLetters: dumb{ring}, Consumers: []emit.Consumer{{Name: "a", Sink: noop}}})
		c := r.Config()
		c.Consumers = append(c.Consumers, emit.Consumer{Name: "b", Sink: noop, Ordered: true})
		began := time.Now()
		if err := r.Reconfigure(c); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 30*time.Second {
			t.Errorf("got %v after %v, want the deadline's error after 30 s", err, time.Since(began))
		}
		if got := r.Stats(); len(got.Consumers) != 1 || got.Absent["b"].Letters != 1 {
			t.Errorf("got %+v, want a alone, and the letter of b", got)
		}
	})
}

// Letters in a shared store of a consumer that is in no Config are seen.
func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRing(t, emit.RingConfig{})
		if _, err := store.Append(t.Context(), emit.Letter{Consumer: "old", Priority: 1, Trigger: trigger("1")}); err != nil {
			t.Fatal(err)
		}
		r := newRouter(t, emit.Config{DeadLetters: store, Consumers: []emit.Consumer{{Name: "a", Sink: noop}}})
		if got := r.Stats().Absent; len(got) != 1 || got["old"].Letters != 1 {
			t.Errorf("absent: %v", got)
		}
		if n, err := r.Discard(t.Context(), "old", emit.Filter{}); n != 1 || err != nil {
			t.Errorf("Discard: %d, %v", n, err)
		}
		if got := r.Stats().Absent; len(got) != 0 {
			t.Errorf("absent after Discard: %v", got)
		}
	})
}
