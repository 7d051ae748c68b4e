package sqlread

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
)

type stateError string

func (e stateError) Error() string    { return "state " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// REQ-B9, REQ-R6, behaviours-routing 45: what an error says about the node that it came from, whatever its driver.
func TestClassify(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Err: err} }
	for _, c := range []struct {
		name string
		err  error
		want breaker.Outcome
	}{
		{"nil", nil, breaker.Success},
		{"refused", dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), breaker.Fatal},
		{"reset", dial(os.NewSyscallError("read", syscall.ECONNRESET)), breaker.Failure},
		{"no connection", fmt.Errorf("%w to r1: %w", errConnect, errors.New("odd")), breaker.Failure},
		{"no connection in time", fmt.Errorf("%w to r1: %w", errConnect, context.DeadlineExceeded), breaker.Failure},
		{"refused role", fmt.Errorf("%w to r1: %w", errConnect, stateError("28P01")), breaker.Ignored},
		{"full server", fmt.Errorf("%w to r1: %w", errConnect, stateError("53300")), breaker.Ignored},
		{"starting up", stateError("57P03"), breaker.Fatal},
		{"shutdown", fmt.Errorf("wrapped: %w", stateError("57P01")), breaker.Failure},
		{"connection exception", stateError("08006"), breaker.Failure},
		{"syntax", stateError("42601"), breaker.Ignored},
		{"write", stateError("25006"), breaker.Ignored},
		{"cancelled", stateError("57014"), breaker.Ignored},
		{"bad connection", driver.ErrBadConn, breaker.Failure},
		{"lost", io.ErrUnexpectedEOF, breaker.Failure},
		{"closed", net.ErrClosed, breaker.Failure},
		{"caller left", context.Canceled, breaker.Ignored},
		{"deadline", context.DeadlineExceeded, breaker.Ignored},
		{"fenced", route.ErrFenced, breaker.Ignored},
		{"moved", route.ErrMoved, breaker.Ignored},
		{"other server", route.ErrOtherServer, breaker.Ignored},
		{"panicked", errPanicked, breaker.Ignored},
		{"unknown", errors.New("odd"), breaker.Ignored},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The outcome of a session is the worst of its calls, else the newest.
func TestWorstOutcome(t *testing.T) {
	const s, f, i, x = breaker.Success, breaker.Failure, breaker.Ignored, breaker.Fatal
	for _, c := range []struct {
		calls []breaker.Outcome
		want  breaker.Outcome
	}{
		{[]breaker.Outcome{s, i}, i},
		{[]breaker.Outcome{i, s}, s},
		{[]breaker.Outcome{s, f, s}, f},
		{[]breaker.Outcome{f, x, f, s}, x},
	} {
		var got session
		for _, o := range c.calls {
			got.note(o, nil)
		}
		if got.outcome != c.want {
			t.Errorf("%v: %v, want %v", c.calls, got.outcome, c.want)
		}
	}
}
