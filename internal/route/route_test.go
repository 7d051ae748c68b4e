package route_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
)

type (
	oneDriver   struct{}
	otherDriver struct{}
)

// What a context says to one driver it does not say to another, and a change leaves the rest.
func TestIntentIsOfOneDriver(t *testing.T) {
	req := replica.Requirement{PrimaryOnly: true}
	outer := route.With(t.Context(), oneDriver{}, func(in *route.Intent) { in.Read, in.Req = true, req })
	inner := route.With(outer, oneDriver{}, func(in *route.Intent) { in.Timeout = time.Second })
	if got, want := *route.Of(inner, oneDriver{}), (route.Intent{Read: true, Req: req, Timeout: time.Second}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := *route.Of(outer, oneDriver{}), (route.Intent{Read: true, Req: req}); got != want {
		t.Errorf("the outer one: got %+v, want %+v", got, want)
	}
	if got := *route.Of(inner, otherDriver{}); got != (route.Intent{}) {
		t.Errorf("the other driver: got %+v, want none", got)
	}
}

// Until a second attempt has ended, the attempts are those of the first; each pick tells of its own node,
// or where the info merges of those before it too.
func TestPickedKeepsTheAttempts(t *testing.T) {
	before := time.Now()
	for _, merges := range []bool{false, true} {
		info := replica.ReadInfo{Node: "r1", Late: true, PickedAt: before, Attempts: 1}
		in := route.Intent{Info: &info}
		if merges {
			in.Together = new(sync.Mutex)
		}
		in.Picked(new(replica.Choice))
		if info.Node != "" || info.Attempts != 1 || info.Late != merges {
			t.Errorf("merges %v: got %+v", merges, info)
		}
		in.Attempted(2)
		if info.Attempts != 2 {
			t.Errorf("merges %v: got %d attempts, want 2", merges, info.Attempts)
		}
	}
	none := new(route.Intent)
	none.Picked(new(replica.Choice)) // nobody asks
	none.Attempted(1)
}

// REQ-R12: a read's own position and that of its context are merged; those of two clusters are an error.
func TestRequire(t *testing.T) {
	at := func(system string, lsn uint64) replica.Position {
		return replica.Position{SystemID: system, Timeline: 1, LSN: lsn}
	}
	ctx := replica.WithPosition(t.Context(), at("a", 7))
	for own, want := range map[replica.Position]replica.Position{{}: at("a", 7), at("a", 5): at("a", 7), at("a", 9): at("a", 9)} {
		got, err := route.Require(ctx, replica.Requirement{Position: own, Except: "r1"})
		if err != nil || got.Position != want || got.Except != "r1" {
			t.Errorf("own %v: got %+v, %v; want %v", own, got, err, want)
		}
	}
	if _, err := route.Require(ctx, replica.Requirement{Position: at("b", 1)}); !errors.Is(err, replica.ErrForeignPosition) {
		t.Errorf("of another cluster: got %v, want ErrForeignPosition", err)
	}
}

// stated is a server's error.
type stated string

func (s stated) Error() string    { return "server: " + string(s) }
func (s stated) SQLState() string { return string(s) }

// REQ-B9, REQ-R6: what errors say about a node that no driver has to tell.
func TestClassify(t *testing.T) {
	odd := errors.New("odd")
	lost := func(err error) bool { return errors.Is(err, odd) }
	for _, c := range []struct {
		err  error
		want breaker.Outcome
	}{
		{nil, breaker.Success},
		{route.ErrFenced, breaker.Ignored},
		{fmt.Errorf("%w: %w", io.EOF, route.ErrOtherServer), breaker.Ignored},
		{route.ErrMoved, breaker.Ignored},
		{stated("57P03"), breaker.Fatal},
		{fmt.Errorf("%w: %w", io.EOF, stated("42601")), breaker.Ignored}, // the server answered
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, breaker.Fatal},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, breaker.Failure},
		{io.ErrUnexpectedEOF, breaker.Failure},
		{odd, breaker.Failure},
		{context.DeadlineExceeded, breaker.Ignored},
		{errors.New("unknown"), breaker.Ignored},
	} {
		if got := route.Classify(c.err, lost); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}

func TestSecondTry(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	if err := route.SecondTry(nil, second); err != second { //nolint:errorlint // it is that very one
		t.Errorf("one try: got %v", err)
	}
	if err := route.SecondTry(first, second); !errors.Is(err, first) || !errors.Is(err, second) {
		t.Errorf("two: got %v", err)
	}
	if err := route.Exhausted(first); !errors.Is(err, replica.ErrNoReplica) || !errors.Is(err, first) {
		t.Errorf("exhausted: got %v", err)
	}
}
