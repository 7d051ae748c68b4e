package breaker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// REQ-O9: three re-openings in five minutes. REQ-E9: the time in which it refused.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{
			Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}},
			Open:  breaker.Backoff{Base: time.Second, Jitter: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		call := func(err error) {
			p, refused := b.Allow()
			if refused != nil {
				t.Fatal(refused)
			}
			p.Done(err)
		}
		down := errors.New("down")
		call(down)
		for range 5 { // it stays down: failed recoveries are no flapping
			time.Sleep(b.Stats().RetryAfter)
			synctest.Wait()
			call(down)
		}
		if got, want := b.Stats().Refusing, (1+2+4+8+16)*time.Second; got != want {
			t.Fatalf("refusing for %v, want %v", got, want)
		}
		for i := range 3 {
			if b.Stats().Flapping {
				t.Fatalf("flapping after %d re-openings", i)
			}
			time.Sleep(b.Stats().RetryAfter)
			synctest.Wait()
			call(nil)
			time.Sleep(time.Minute)
			call(down)
		}
		if !b.Stats().Flapping {
			t.Fatal("not flapping after three re-openings")
		}
		time.Sleep(3 * time.Minute) // the first of them is over five minutes old
		if b.Stats().Flapping {
			t.Fatal("still flapping though only two re-openings are of the last five minutes")
		}
	})
}

// FORCED_OPEN counts as refusing too, FORCED_CLOSED does not.
func TestRefusingCountsForcedOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := breaker.New(breaker.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []breaker.State{breaker.ForcedOpen, breaker.ForcedClosed, breaker.ForcedOpen, breaker.Closed} {
			if err := b.Force(s, "test"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if got := b.Stats().Refusing; got != 2*time.Second {
			t.Fatalf("refusing for %v, want 2s", got)
		}
	})
}
