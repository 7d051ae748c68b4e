package route

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// What keeps a call from a node, and says nothing of the node.
var (
	// ErrFenced refuses a connection to a node whose breaker does not admit reads.
	ErrFenced = errors.New("breakwater: not connecting: the breaker of this replica is not closed")
	// ErrOtherServer refuses a connection that leads to another server than the node's sampler sees.
	ErrOtherServer = errors.New("breakwater: a connection led to another server than the one that was sampled")
	// ErrMoved gives back a connection whose node became ineligible while the read waited for it.
	ErrMoved = errors.New("breakwater: the replica became ineligible while the read waited for a connection")
)

// Untried tells whether err is one of these: the statement was not sent.
func Untried(err error) bool { return IsAny(err, ErrFenced, ErrMoved, ErrOtherServer) }

// IsAny tells whether err is one of the targets.
func IsAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}

// Classify tells what an error says about the node that it came from (REQ-B9, REQ-R6); lost knows
// the driver's own errors of connections that could not be made or were lost. What is known of neither the server
// nor the network is the query's own fault.
func Classify(err error, lost func(error) bool) breaker.Outcome {
	switch code := postgres.SQLState(err); {
	case err == nil:
		return breaker.Success
	case Untried(err):
		return breaker.Ignored
	case code != "": // the server answered, whatever else failed on the way to it
		return postgres.Outcome(code)
	case errors.Is(err, syscall.ECONNREFUSED):
		return breaker.Fatal
	case lost(err) || Lost(err):
		return breaker.Failure
	}
	return breaker.Ignored
}

// Lost knows a connection that could not be made or was lost, by the errors of the standard library.
func Lost(err error) bool {
	if IsAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed) {
		return true
	}
	_, network := errors.AsType[net.Error](err)
	return network && !IsAny(err, context.Canceled, context.DeadlineExceeded) // which are of that type too
}

// IsBad tells whether an outcome counts against a node.
func IsBad(o breaker.Outcome) bool { return o == breaker.Failure || o == breaker.Fatal }
