package emit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// An errorThatPanics is what a nil pointer of an error type is.
type errorThatPanics struct{}

func (*errorThatPanics) Error() string { panic("nil error") }

// An error whose methods panic is a failure like a panic, live and at a replay.
func TestErrorsThatPanic(t *testing.T) {
	for name, err := range map[string]error{
		"a nil LaterError": (*emit.LaterError)(nil),
		"Error":            &errorThatPanics{},
		"an Err of it":     &emit.LaterError{After: time.Second, Err: &errorThatPanics{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &target{do: func(context.Context, emit.Trigger) error { return err }}
				r := one(t, c)
				emitWant(t, r, trigger("1"), emit.Stored, emit.ReasonFailed)
				<-time.After(500 * time.Millisecond)
				c.set(nil)
				settled(t, r, "a", time.Minute)
				if n := stats(t, r, "a").Replayed; n != 1 {
					t.Errorf("replayed %d", n)
				}
			})
		})
	}
}
