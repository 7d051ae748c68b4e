package sqlread

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// classify tells what an error says about the node that it came from (REQ-B9, REQ-R6).
// What is known of neither the server nor the network is the query's own fault.
func classify(err error) breaker.Outcome {
	switch code := sqlstate(err); {
	case err == nil:
		return breaker.Success
	case isAny(err, errFenced, errMoved, errOtherServer):
		return breaker.Ignored
	case code != "": // the server answered, whatever else failed on the way to it
		return postgres.Outcome(code)
	case errors.Is(err, syscall.ECONNREFUSED):
		return breaker.Fatal
	case connectionFailed(err):
		return breaker.Failure
	}
	return breaker.Ignored
}

// connectionFailed knows a connection that could not be made or was lost.
func connectionFailed(err error) bool {
	if isAny(err, errConnect, driver.ErrBadConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed) {
		return true
	}
	_, network := errors.AsType[net.Error](err)
	return network && !isAny(err, context.Canceled, context.DeadlineExceeded) // which are of that type too
}

// stopped tells whether err is how a call ends whose context has ended: as drivers tell
// it, or by the loss of the connection that they then interrupt.
func stopped(err error) bool {
	const queryCanceled = "57014"
	switch sqlstate(err) {
	case "":
		return isAny(err, context.Canceled, context.DeadlineExceeded, errTimedOut) || connectionFailed(err)
	case queryCanceled:
		return true
	}
	return false
}

// sqlstate is the SQLSTATE of a server's error, "" if it is none. The errors of pgx and lib/pq
// have the method.
func sqlstate(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

func isAny(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
