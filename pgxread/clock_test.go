package pgxread

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/internal/route"
)

const limit = 2 * time.Second

// timedCalls makes calls on a node whose usual timeout is limit.
func timedCalls(t *testing.T) func(context.Context, time.Duration) *call {
	t.Helper()
	n := &node{db: &DB{cfg: Config{CallTimeout: limit}}}
	n.clock.limit = limit
	return func(ctx context.Context, own time.Duration) *call {
		return newCall(ctx, n, &route.Intent{Timeout: own}, time.Now())
	}
}

// A call is ended when it has lasted for its timeout, not before, whatever ends before or
// beside it.
func TestClockEndsCallsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := timedCalls(t)
		begin := time.Now()
		calls := map[string]*call{"first": begun(t.Context(), 0), "gone": begun(t.Context(), 0)}
		time.Sleep(500 * time.Millisecond)
		calls["second"], calls["short"] = begun(t.Context(), 0), begun(t.Context(), time.Second)
		calls["ended"], calls["none"] = begun(t.Context(), 0), begun(t.Context(), -1)
		calls["gone"].untime()
		at := map[string]time.Duration{}
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			if time.Since(begin) == time.Second {
				calls["ended"].untime()
			}
			for name, c := range calls {
				if _, seen := at[name]; c.timedOut() && !seen {
					at[name] = time.Since(begin)
				}
			}
		}
		want := map[string]time.Duration{"first": 2 * time.Second, "second": 2500 * time.Millisecond, "short": 1500 * time.Millisecond}
		for name := range calls {
			if d := at[name] - want[name]; d < 0 || d > 50*time.Millisecond {
				t.Errorf("%s: ended at %v, want %v", name, at[name], want[name])
			}
			calls[name].untime()
		}
	})
}

// A call that waits is woken by its own time and by its caller's end.
func TestClockWakesTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := timedCalls(t)
		own := begun(t.Context(), 0)
		begin := time.Now()
		<-own.Done()
		if got := time.Since(begin); got != limit || !errors.Is(own.Err(), context.DeadlineExceeded) {
			t.Errorf("woken after %v by %v, want %v, DeadlineExceeded", got, own.Err(), limit)
		}
		ctx, cancel := context.WithCancel(t.Context())
		called := begun(ctx, 0)
		time.AfterFunc(time.Second, cancel)
		<-called.Done()
		if got := time.Since(begin); got != limit+time.Second || !errors.Is(called.Err(), context.Canceled) {
			t.Errorf("woken after %v by %v, want %v, Canceled", got, called.Err(), limit+time.Second)
		}
		if called.timedOut() {
			t.Error("a caller's end is told as a timeout")
		}
		if err := own.node.clock.attach(own, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a connection that came too late: %v, want DeadlineExceeded", err)
		}
		unheard, cancel := context.WithCancel(t.Context())
		defer cancel()
		quiet := begun(unheard, 0)
		quiet.Done()
		for _, c := range []*call{own, called, quiet} {
			c.untime() // else the bubble would find what is left
		}
	})
}

// The connection of a call whose time ran out is interrupted, and if the call ended well
// all the same, it is not any more.
func TestClockInterruptsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := timedCalls(t)
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		c := begun(t.Context(), 0)
		if err := c.node.clock.attach(c, client); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if _, err := client.Read([]byte{0}); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != limit {
			t.Errorf("read ended by %v after %v, want a deadline after %v", err, time.Since(begin), limit)
		}
		c.node.clock.stop(c, true)
		go server.Write([]byte{1})
		if _, err := client.Read([]byte{0}); err != nil {
			t.Errorf("read after the call: %v, want nil", err)
		}
	})
}
