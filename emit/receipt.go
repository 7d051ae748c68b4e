package emit

import (
	"errors"
	"fmt"
	"iter"
	"strings"
)

// An Outcome is what became of a trigger for one consumer. The zero value is none.
type Outcome uint8

const (
	// Delivered says that the consumer has taken it, or Degrade has done in its place.
	Delivered Outcome = iota + 1
	// Stored says that it is in the dead letters, as safe as their Durability says, and will be replayed.
	Stored
	// Shed says that it was dropped, since what is stored is as important or more.
	Shed
	// Refused says that it was neither delivered nor stored; the caller still has it and should try again later.
	Refused
)

// String returns the outcome as one lower-case word.
func (o Outcome) String() string {
	switch o {
	case Delivered:
		return "delivered"
	case Stored:
		return "stored"
	case Shed:
		return "shed"
	case Refused:
		return "refused"
	}
	return "none"
}

// MarshalText returns the word of Outcome.String. It never fails.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// A Result is what became of a trigger for one consumer.
type Result struct {
	Consumer string
	Outcome  Outcome
	// Reason is why it was not delivered; "" if it was by the consumer itself.
	Reason Reason
	// Err is why: what the delivery failed with, or of a Shed or Refused one the store's error.
	Err error
}

// A Receipt is what became of a trigger, by consumer.
type Receipt struct {
	// ID is the trigger's.
	ID   string
	one  Result
	more []Result // in place of one
}

// Results yields the results in the order of Config.Consumers.
func (r *Receipt) Results() iter.Seq[Result] {
	return func(yield func(Result) bool) {
		if r.more == nil && r.one.Outcome != 0 {
			yield(r.one)
		}
		for _, x := range r.more {
			if !yield(x) {
				return
			}
		}
	}
}

// Of returns the result for a consumer, with a zero Outcome if the trigger was none of its.
func (r *Receipt) Of(consumer string) Result {
	for x := range r.Results() {
		if x.Consumer == consumer {
			return x
		}
	}
	return Result{Consumer: consumer}
}

var (
	// ErrShed matches the error of an emit that was shed for some consumer.
	ErrShed = errors.New("emit: shed")
	// ErrClosed matches the error of an emit to a Router that ends. It is refused.
	ErrClosed = errors.New("emit: router is closed")
	// ErrNoConsumer matches the error of a trigger whose Type no consumer takes.
	ErrNoConsumer = errors.New("emit: no consumer takes that type")
)

// An Error tells that a trigger was neither delivered nor stored for some consumer. It matches ErrShed if one has it Shed,
// and what the store said of a Refused one: ErrBackPressure, ErrTooLarge or ErrClosed.
type Error struct {
	Receipt Receipt
}

// Error names the consumers that lack the trigger.
func (e *Error) Error() string {
	var parts []string
	for x := range e.Receipt.Results() {
		if x.Outcome == Shed || x.Outcome == Refused {
			parts = append(parts, fmt.Sprintf("%s for %s (%v)", x.Outcome, x.Consumer, x.Err))
		}
	}
	return "emit: " + strings.Join(parts, ", ")
}

// Is reports whether target is ErrShed, or matches the error of a Shed or Refused result.
func (e *Error) Is(target error) bool {
	for x := range e.Receipt.Results() {
		if x.Outcome == Shed && target == ErrShed || (x.Outcome == Shed || x.Outcome == Refused) && errors.Is(x.Err, target) {
			return true
		}
	}
	return false
}

// err is nil if every consumer has the trigger or will get it.
func (r *Receipt) err() error {
	for x := range r.Results() {
		if x.Outcome != Delivered && x.Outcome != Stored {
			return &Error{Receipt: *r}
		}
	}
	return nil
}
