package sqlread

import (
	"context"
	"errors"
	"fmt"
	"time"
)

var (
	// ErrWriteInRead is matched by a *WriteInReadError: a call that was said to be a
	// read tried to write.
	ErrWriteInRead = errors.New("sqlread: a write was sent as a read")
	// ErrCallTimeout is matched by the error of a call that Config.CallTimeout or
	// WithCallTimeout ended; context.DeadlineExceeded is matched too.
	ErrCallTimeout = errors.New("sqlread: call timeout reached")
)

var (
	// errConnect is a connection that could not be made.
	errConnect = errors.New("sqlread: no connection")
	// errLost is a connection that was lost, without the driver.ErrBadConn that said so.
	errLost = errors.New("connection lost")
	// errTimedOut is the cause of a call's end by its timeout.
	errTimedOut = errors.New("sqlread: call timeout")
	// errPanicked finishes a call whose statement panicked, or left by runtime.Goexit. It
	// says nothing about the node.
	errPanicked = errors.New("sqlread: the statement panicked")
)

// WriteInReadError tells that a write was sent as a read. Such a call is never tried
// again and never counts against its node.
type WriteInReadError struct {
	// Node refused it.
	Node string
	// Err is the server's error, SQLSTATE 25006; nil if the server was not asked, since
	// the call was no read and its sql.Conn has its session on a replica.
	Err error
}

// Error names the node and the server's words.
func (e *WriteInReadError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("%v: this connection reads on node %s: take another one for what is no read", ErrWriteInRead, e.Node)
	}
	return fmt.Sprintf("%v: node %s: %v", ErrWriteInRead, e.Node, e.Err)
}

// Is matches ErrWriteInRead.
func (e *WriteInReadError) Is(target error) bool { return target == ErrWriteInRead }

// Unwrap returns the server's error.
func (e *WriteInReadError) Unwrap() error { return e.Err }

// timeoutError is the end of a call by its timeout. What the driver made of it is told and not
// wrapped: a driver.ErrBadConn in it would have database/sql run the statement again.
func timeoutError(node string, d time.Duration, err error) error {
	return fmt.Errorf("%w: node %s, after %v: %w (%v)", ErrCallTimeout, node, d, context.DeadlineExceeded, err) //nolint:errorlint // not to be found by database/sql
}

// lostError hides a driver.ErrBadConn from database/sql, which would run the statement again.
func lostError(node string, err error) error {
	return fmt.Errorf("sqlread: node %s: %w: %v", node, errLost, err) //nolint:errorlint // not to be found by database/sql
}
