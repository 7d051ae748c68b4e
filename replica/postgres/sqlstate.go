package postgres

import (
	"errors"

	"github.com/breakwater-go/breakwater/breaker"
)

// SQLState is the SQLSTATE of a server's error, "" if err is none: errors with a method SQLState() string
// have one, those of pgx and lib/pq among them.
func SQLState(err error) string {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState()
	}
	return ""
}

// Outcome tells what an SQLSTATE says about the node that sent it (REQ-B9, REQ-R6).
// Only what means "this server is not serving" counts against it. An error that is
// the query's own fault, a cancellation, a conflict with recovery, or a full server
// (53300) is ignored.
func Outcome(sqlstate string) breaker.Outcome {
	switch {
	case sqlstate == "57P03": // cannot_connect_now: starting up or shutting down
		return breaker.Fatal
	case sqlstate == "57P01", sqlstate == "57P02": // admin_shutdown, crash_shutdown
		return breaker.Failure
	case len(sqlstate) == 5 && sqlstate[:2] == "08": // connection exceptions
		return breaker.Failure
	}
	return breaker.Ignored
}

// RetrySafe tells whether a read that failed with this SQLSTATE, before a row was
// delivered, may be tried on another node: the server was going away (57P01, 57P02,
// 57P03, 57P05, 08xxx), is full (53300), or had to cancel it to go on with recovery (40001 on a replica).
// Nothing else is, least of all 25006, a write sent to a read-only node.
func RetrySafe(sqlstate string) bool {
	switch sqlstate {
	case "57P01", "57P02", "57P03", "57P05", "53300", "40001":
		return true
	}
	return len(sqlstate) == 5 && sqlstate[:2] == "08"
}

const (
	// ReadOnlyTransaction is the SQLSTATE of a write on a replica or in a read-only transaction.
	ReadOnlyTransaction = "25006"
	// QueryCanceled is that of a statement that was cancelled: by its caller, by a timeout of the server.
	QueryCanceled = "57014"
)
