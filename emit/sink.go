package emit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Sink delivers triggers to one consumer. Its methods are called concurrently. The suite in
// emittest says what it must hold to.
type Sink interface {
	// Deliver hands the trigger over and returns nil once the consumer has taken it. It must
	// return soon after ctx has ended. Data and Attributes belong to the caller: they must not be changed, nor kept.
	// It must not emit a trigger of the same Key to the same consumer, if that is Ordered: it would wait for itself.
	//
	// An error that matches ErrRejected says that the consumer will not take this trigger: it
	// is parked (REQ-E15). One that is a *LaterError says from when on another attempt makes sense. Any
	// other error, and a panic, is a failure of the consumer: the trigger is stored and replayed.
	Deliver(ctx context.Context, t Trigger) error
}

// A SinkFunc is a Sink.
type SinkFunc func(ctx context.Context, t Trigger) error

// Deliver calls f.
func (f SinkFunc) Deliver(ctx context.Context, t Trigger) error { return f(ctx, t) }

// ErrRejected matches the error of a trigger that its consumer will never take: no failure of
// the consumer's health.
var ErrRejected = errors.New("emit: rejected by the consumer")

// A LaterError is a failure after which the consumer has asked to be left alone for a time (REQ-E15).
type LaterError struct {
	After time.Duration // from now on, above 0
	Err   error         // what it answered
}

// Error names both.
func (e *LaterError) Error() string { return fmt.Sprintf("emit: not before %v: %v", e.After, e.Err) }

// Unwrap returns what the consumer answered.
func (e *LaterError) Unwrap() error { return e.Err }
