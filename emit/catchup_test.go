package emit_test

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

// TestOrderedLaneCatchesUp: after an outage every key has a letter, so all that comes goes behind; the lane is live again all the same
// (behaviours-emit 48; REQ-E6).
func TestOrderedLaneCatchesUp(t *testing.T) {
	for _, x := range []struct {
		takes, every time.Duration
		keys         int
	}{
		{2 * time.Millisecond, 5 * time.Millisecond, 20},
		{20 * time.Millisecond, 2 * time.Millisecond, 1000}, // 10 calls at once, more than replay's share of the bulkhead
	} {
		t.Run(fmt.Sprintf("keys=%d", x.keys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &target{do: takes(x.takes)}
				r := one(t, a, func(c *emit.Consumer) {
					c.Ordered, c.DeadLetters = true, newRing(t, emit.RingConfig{Letters: 100_000})
				})
				force(t, r, breaker.ForcedOpen)
				emits := func(d time.Duration) {
					for i := range int(d / x.every) {
						go func() { _, _ = r.Emit(t.Context(), keyed(fmt.Sprint("k", i%x.keys), i)) }()
						time.Sleep(x.every)
					}
				}
				emits(10 * time.Second)
				force(t, r, breaker.Closed)
				emits(2 * time.Minute)
				before := stats(t, r, "a")
				emits(10 * time.Second)
				s := stats(t, r, "a")
				if n := s.Replayed - before.Replayed; s.Depth.Letters > 0 || n > 0 || s.Breaker.Openings > 0 {
					t.Errorf("two minutes later %d letters are left, and %d of the next %d triggers went by the letters", s.Depth.Letters, n, s.Emitted-before.Emitted)
				}
			})
		})
	}
}

// TestHandOversOfABusyConsumer: what is handed over has more of the bulkhead than the share of replay, if it needs it.
func TestHandOversOfABusyConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one(t, &target{do: takes(20 * time.Millisecond)}, func(c *emit.Consumer) {
			c.DeadLetters = newRing(t, emit.RingConfig{Letters: 100_000})
		})
		for i := range 30_000 { // 500 a second
			_, _ = r.HandOver(t.Context(), trigger(strconv.Itoa(i)))
			time.Sleep(2 * time.Millisecond)
		}
		if s := stats(t, r, "a"); s.Stored > 500 {
			t.Errorf("%d hand-overs wait after a minute of 500 a second", s.Stored)
		}
	})
}
