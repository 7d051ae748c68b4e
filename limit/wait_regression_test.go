package limit

import (
	"context"
	"testing"
	"time"
)

// A caller whose context panics is not left in the queue: the next free slot went to nobody, for good.
func TestAcquireWithinOfAContextThatPanics(t *testing.T) {
	for name, ctx := range map[string]context.Context{"nil": nil, "Done panics": badContext{}} {
		t.Run(name, func(t *testing.T) {
			b := mustBulkhead(t, BulkheadConfig{Limit: 1})
			held, _ := b.Acquire()
			func() {
				defer func() { _ = recover() }()
				_, err := b.AcquireWithin(ctx, time.Hour)
				t.Errorf("got %v, want a panic", err)
			}()
			held.Release()
			if s := b.Stats(); s.Waiting != 0 || s.InFlight != 0 {
				t.Errorf("got %d waiting and %d in flight, want none", s.Waiting, s.InFlight)
			}
			if _, ok := b.Acquire(); !ok {
				t.Error("the slot is lost")
			}
		})
	}
}

type badContext struct{ context.Context }

func (badContext) Done() <-chan struct{} { panic("no Done") }
