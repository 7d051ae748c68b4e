package sqlread

import (
	"context"
	"database/sql/driver"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// classify tells what an error says about the node that it came from (REQ-B9, REQ-R6).
func classify(err error) breaker.Outcome { return route.Classify(err, connectionFailed) }

// connectionFailed knows database/sql's errors, and our own, of connections that could not be made or were lost.
func connectionFailed(err error) bool { return route.IsAny(err, errConnect, driver.ErrBadConn) }

// stopped tells whether err is how a call ends whose context has ended: as drivers tell
// it, or by the loss of the connection that they then interrupt.
func stopped(err error) bool {
	switch postgres.SQLState(err) {
	case "":
		return route.IsAny(err, context.Canceled, context.DeadlineExceeded, errTimedOut) || connectionFailed(err) || route.Lost(err)
	case postgres.QueryCanceled:
		return true
	}
	return false
}
