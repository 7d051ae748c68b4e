package pgxread

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrWriteInRead is matched by a *WriteInReadError: a call that was said to be a
	// read tried to write.
	ErrWriteInRead = errors.New("pgxread: a write was sent as a read")
	// ErrCallTimeout is matched by the error of a call that Config.CallTimeout or
	// WithCallTimeout ended; context.DeadlineExceeded is matched too.
	ErrCallTimeout = errors.New("pgxread: call timeout reached")
)

// errNoConfirm is a new connection on which nobody answers.
var errNoConfirm = errors.New("pgxread: a new connection gave no answer within the connect timeout")

// WriteInReadError tells that a write was sent as a read. Such a call is never tried
// again and never counts against its node.
type WriteInReadError struct {
	// Node refused it; empty if it was refused before a node was chosen.
	Node string
	// Err is the server's *pgconn.PgError, SQLSTATE 25006; nil if no server was asked.
	Err error
}

// Error names the node and the server's words.
func (e *WriteInReadError) Error() string {
	if e.Err == nil {
		return ErrWriteInRead.Error() + ": send it through the DB, not as a read"
	}
	return fmt.Sprintf("%v: node %s: %v", ErrWriteInRead, e.Node, e.Err)
}

// Is matches ErrWriteInRead.
func (e *WriteInReadError) Is(target error) bool { return target == ErrWriteInRead }

// Unwrap returns the server's error.
func (e *WriteInReadError) Unwrap() error { return e.Err }

func callTimeoutError(node string, d time.Duration, err error) error {
	return fmt.Errorf("%w: node %s, after %v: %w", ErrCallTimeout, node, d, err)
}
