package pgxread

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// classify tells what an error says about the node that it came from (REQ-B9, REQ-R6).
func classify(err error) breaker.Outcome {
	if errors.Is(err, errNoConfirm) {
		return breaker.Failure
	}
	return route.Classify(err, connectionFailed)
}

// connectionFailed knows pgx's errors of connections that could not be made or were lost.
func connectionFailed(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return connecting || errors.Is(err, pgconn.ErrConnClosed)
}

// stopped tells whether err is how a call ends whose context has ended.
func stopped(err error) bool {
	return route.IsAny(err, context.Canceled, context.DeadlineExceeded) || pgconn.Timeout(err) || postgres.SQLState(err) == postgres.QueryCanceled
}
