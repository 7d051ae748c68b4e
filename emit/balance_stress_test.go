package emit_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// TestBalanceAtEveryMoment: emitted = delivered + stored + shed + refused, whoever looks and whenever, and what the callers were told
// adds up to it (REQ-E14).
func TestBalanceAtEveryMoment(t *testing.T) {
	const callers, each = 8, 400
	var turn atomic.Int64
	a := &target{do: func(context.Context, emit.Trigger) error {
		switch turn.Add(1) % 7 {
		case 0:
			return emit.ErrRejected
		case 1, 2:
			return errors.New("500")
		}
		return nil
	}}
	r := newRouter(t, emit.Config{
		Consumers: []emit.Consumer{{Name: "a", Sink: a}, {Name: "b", Sink: a, Ordered: true}},
		// shared and small: each lane evicts letters of the other
		DeadLetters: newRing(t, emit.RingConfig{Letters: 40, Bytes: 64 << 10, Reserved: 4}),
	})
	var told [2][emit.Refused + 1]atomic.Uint64
	done := make(chan struct{})
	var watching, calling sync.WaitGroup
	watching.Go(func() {
		var last [2]uint64
		for {
			select {
			case <-done:
				return
			default:
			}
			for i, s := range r.Stats().Consumers {
				if s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused || s.Stored > s.Emitted || s.Emitted < last[i] {
					t.Errorf("%s: emitted %d (before %d), delivered %d, stored %d, shed %d, refused %d", s.Name, s.Emitted, last[i], s.Delivered, s.Stored, s.Shed, s.Refused)
					return
				}
				last[i] = s.Emitted
			}
		}
	})
	for n := range callers {
		calling.Go(func() {
			for i := range each {
				x := keyed(strconv.Itoa(i%50), n*each+i)
				x.Priority = []string{"compliance", "normal", "idle-ping"}[i%3]
				receipt, _ := r.Emit(t.Context(), x)
				told[0][receipt.Of("a").Outcome].Add(1)
				told[1][receipt.Of("b").Outcome].Add(1)
				if i%50 == 0 {
					_, _ = r.Discard(t.Context(), "a", emit.Filter{Parked: new(true)})
				}
			}
		})
	}
	calling.Wait()
	close(done)
	watching.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := r.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for i, s := range r.Stats().Consumers {
		of := func(o emit.Outcome) uint64 { return told[i][o].Load() }
		stored := s.Depth.Letters
		if s.Emitted != callers*each || s.Stored != uint64(stored) || //nolint:gosec // 40 at most
			of(emit.Refused) != s.Refused || of(emit.Shed) != s.Shed-s.Evicted-s.Discarded || of(emit.Delivered) != s.Delivered-s.Replayed ||
			of(emit.Stored) != s.Stored+s.Replayed+s.Evicted+s.Discarded {
			t.Errorf("%+v\ntold: %d delivered, %d stored, %d shed, %d refused", s, of(emit.Delivered), of(emit.Stored), of(emit.Shed), of(emit.Refused))
		}
	}
}
