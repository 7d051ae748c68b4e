package emit_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// TestReconfigureUnderLoad: while settings change and a consumer comes and goes, each emit has one outcome for each consumer, that is
// counted once, and what was delivered or stored is with the consumer or in the store (REQ-B16, REQ-E14).
func TestReconfigureUnderLoad(t *testing.T) {
	const callers, each = 4, 600
	var turn atomic.Int64
	sick := func(context.Context, emit.Trigger) error {
		switch turn.Add(1) % 7 {
		case 0:
			return emit.ErrRejected
		case 1, 2:
			return errors.New("500")
		}
		return nil
	}
	a, b := &target{do: sick}, &target{do: sick}
	ka := emit.Consumer{Name: "a", Sink: a}
	kb := emit.Consumer{Name: "b", Sink: b, Types: []string{"order.paid"}}
	r := newRouter(t, emit.Config{Consumers: []emit.Consumer{ka, kb}, DeadLetters: newRing(t, emit.RingConfig{Letters: 2 * callers * each, Bytes: 16 << 20})})
	var told [emit.Refused + 1]atomic.Uint64 // for a
	var mu sync.Mutex
	safe := map[string][]string{} // by consumer, IDs
	var calling, changing sync.WaitGroup
	done := make(chan struct{})
	changing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			for _, s := range r.Stats().Consumers {
				if s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused {
					t.Errorf("%+v", s)
				}
			}
			c := r.Config()
			c.Consumers = []emit.Consumer{ka, kb}[:1+n%2]
			c.Consumers[0].Timeout, c.Consumers[0].Ordered = time.Duration(100+n%3)*time.Millisecond, n/3%2 == 0
			c.Consumers[0].Bulkhead = 8 + n%9
			if err := r.Reconfigure(c); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for n := range callers {
		calling.Go(func() {
			for i := range each {
				x := keyed(strconv.Itoa(i%20), n*each+i)
				emitted := r.Emit
				if i%10 == 0 {
					emitted = r.HandOver
				}
				receipt, err := emitted(t.Context(), x)
				if err != nil {
					t.Error(err)
				}
				told[receipt.Of("a").Outcome].Add(1)
				mu.Lock()
				for x := range receipt.Results() {
					safe[x.Consumer] = append(safe[x.Consumer], receipt.ID)
				}
				mu.Unlock()
			}
		})
	}
	calling.Wait()
	close(done)
	changing.Wait()
	if err := r.Reconfigure(emit.Config{DeadLetters: r.Config().DeadLetters, Consumers: []emit.Consumer{ka, kb}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	s := stats(t, r, "a")
	of := func(o emit.Outcome) uint64 { return told[o].Load() }
	if s.Emitted != callers*each || of(emit.Delivered) != s.Delivered-s.Replayed || of(emit.Stored) != s.Stored+s.Replayed || int(s.Stored) != s.Depth.Letters || //nolint:gosec // small
		s.Took.Counts[len(s.Took.Counts)-1] != s.Emitted {
		t.Errorf("%+v\ntold: %d delivered, %d stored", s, of(emit.Delivered), of(emit.Stored))
	}
	sb := stats(t, r, "b")
	if int(sb.Stored) != sb.Depth.Letters { //nolint:gosec // small
		t.Errorf("b: %d stored, %d in the store", sb.Stored, sb.Depth.Letters)
	}
	for name, c := range map[string]*target{"a": a, "b": b} {
		has := c.taken()
		for l, err := range r.Letters(t.Context(), name, emit.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			has = append(has, l.Trigger.ID)
		}
		slices.Sort(has)
		slices.Sort(safe[name])
		if has = slices.Compact(has); !slices.Equal(has, safe[name]) {
			t.Errorf("%s: %d triggers are with it or in the store, %d were told to be", name, len(has), len(safe[name]))
		}
	}
}

// Drain ends all, whatever settings are changed meanwhile.
func TestReconfigureWhileItEnds(t *testing.T) {
	for n := range 50 {
		a := &target{}
		ka := emit.Consumer{Name: "a", Sink: a, Ordered: n%2 == 0}
		r := newRouter(t, emit.Config{Consumers: []emit.Consumer{{Name: "b", Sink: a}}})
		var all sync.WaitGroup
		all.Go(func() {
			for {
				if _, err := r.Emit(t.Context(), keyed("k", n)); errors.Is(err, emit.ErrClosed) {
					return
				}
			}
		})
		all.Go(func() {
			for i := 0; ; i++ {
				c := r.Config()
				if c.Consumers = append(c.Consumers[:1], ka)[:1+i%2]; r.Reconfigure(c) != nil {
					return
				}
			}
		})
		if err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if err := r.Reconfigure(r.Config()); !errors.Is(err, emit.ErrClosed) {
			t.Errorf("after Drain: %v", err)
		}
		stats(t, r, "b")
	}
}
