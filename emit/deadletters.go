package emit

import (
	"context"
	"errors"
	"iter"
	"time"
)

// DeadLetters keeps the triggers that could not be delivered. Its methods are called concurrently.
// The suite in emittest says what it must hold to. A Router uses one for all its consumers.
//
// A letter is waiting, claimed or parked. Waiting letters are claimed for an attempt and settled with its result;
// parked ones wait for a person.
type DeadLetters interface {
	// Append stores a letter, waiting or with l.Parked parked, and returns once it is as safe as Durability says. Where there is no room
	// it first evicts letters that are less important than l, the least important first and the oldest first among
	// those, never one of priority 0 nor a claimed one, and returns them. Room that the store reserves is
	// for priority 0 only. An error that matches ErrFull says
	// that l is as little important as what is stored: it is shed, and nothing was evicted. One that matches ErrBackPressure: there is
	// no room for a letter of priority 0, or the store failed; one that matches ErrTooLarge: l could never be stored. Any error means that
	// nothing of l is stored. ctx bounds the wait only, and Append must keep to it, or it holds up its caller: a letter may be stored although ctx has ended, and Append then returns nil.
	// What l holds may change once Append has returned.
	Append(ctx context.Context, l Letter) (evicted []Letter, err error)

	// Claim takes up to n waiting letters of a consumer for an attempt: the most important first, the
	// oldest first among those; with f.InOrder the oldest first. It returns none, and no error, where none matches. Nobody else gets them until they are settled. A claim is as
	// durable as Durability says before it returns: a store that was closed or killed meanwhile gives each claimed letter
	// back, waiting, with an attempt whose Err is AttemptCrashed (REQ-E7).
	Claim(ctx context.Context, consumer string, f Filter, n int) ([]Letter, error)

	// Settle ends the claims of letters of a consumer, all in one step. A Seq that is not claimed is
	// passed over. After an error the letters are still claimed.
	Settle(ctx context.Context, consumer string, results []Settlement) error

	// Discard deletes the letters, waiting or parked and not claimed, that match f, and returns how many.
	Discard(ctx context.Context, consumer string, f Filter) (int, error)

	// Unpark makes parked letters that match f wait again, and returns how many.
	Unpark(ctx context.Context, consumer string, f Filter) (int, error)

	// Letters lists the letters of a consumer that match f, claimed ones too, in the order of Seq, from Filter.After on. It holds up
	// neither Append nor Claim, and may miss or repeat what changes meanwhile.
	Letters(ctx context.Context, consumer string, f Filter) iter.Seq2[Letter, error]

	// Depths counts, from memory, what is stored by consumer.
	Depths() map[string]Depth

	// Durability says how safe a letter is when Append has returned.
	Durability() Durability

	// Close waits for what is under way and ends the store. Calls after it fail with ErrStoreClosed.
	Close() error
}

// Durability is how safe a stored letter is. The zero value is InMemory.
type Durability uint8

const (
	// InMemory survives nothing.
	InMemory Durability = iota
	// Written survives a crash of the process, not one of the machine.
	Written
	// Synced survives a power cut: fsync came before the answer.
	Synced
)

var (
	// ErrFull matches the error of a letter that was shed, since what is stored is as important or more.
	ErrFull = errors.New("emit: dead letters are full")
	// ErrBackPressure matches the error of a letter that could neither be stored nor be shed.
	ErrBackPressure = errors.New("emit: dead letters take no more")
	// ErrStoreClosed matches the error of calls to a closed store.
	ErrStoreClosed = errors.New("emit: dead letters are closed")
	// ErrTooLarge matches the error of a trigger over the size that the Router or the store takes.
	ErrTooLarge = errors.New("emit: trigger too large")
)

// A Letter is a trigger in the dead letters of one consumer.
type Letter struct {
	// Seq orders letters: it grows with each Append of a store. Set by the store.
	Seq uint64
	// Consumer is whose it is.
	Consumer string
	// Priority is that of the trigger as a number: 0 is the most important, which is never shed; below MaxPriorities.
	Priority int
	// Trigger is what to deliver; with an ID and a Time.
	Trigger Trigger
	// Reason is why it was stored, or parked.
	Reason Reason
	// StoredAt is when.
	StoredAt time.Time
	// Attempts is how often delivery was tried, the first time too.
	Attempts int
	// Last is the newest attempts, at most KeptAttempts, oldest first.
	Last []Attempt
	// Parked says that it waits for a person.
	Parked bool
	// NotBefore is before when it is not claimed; the zero time: at once.
	NotBefore time.Time
}

// MaxPriorities is how many priorities there may be.
const MaxPriorities = 64

// KeptAttempts is how many attempts of a letter are remembered.
const KeptAttempts = 5

// AttemptCrashed is the Err of an attempt whose end nobody saw: the process was killed in it. It is no answer of the consumer's.
const AttemptCrashed = "crashed"

// An Attempt is one try to deliver.
type Attempt struct {
	At  time.Time
	Err string // in words, at most 500 bytes
}

// A Reason says why a trigger was stored.
type Reason string

// The reasons. What a Router tells of dead letters is counted by them.
const (
	ReasonOpen       Reason = "open"        // the consumer's breaker is open
	ReasonForcedOpen Reason = "forced_open" // by hand
	ReasonBulkhead   Reason = "bulkhead"    // as many calls as allowed are under way
	ReasonTimeout    Reason = "timeout"     // it did not answer in time
	ReasonFailed     Reason = "failed"      // it failed
	ReasonBehind     Reason = "behind"      // an earlier one of its key is stored or under way
	ReasonShutdown   Reason = "shutdown"    // the Router ended
	ReasonRejected   Reason = "rejected"    // parked: the consumer will not take it
	ReasonPoison     Reason = "poison"      // parked: too many attempts, or it crashed or panicked too often
	ReasonReceived   Reason = "received"    // stored before the first try, for HandOver to a durable store
)

// A Filter selects letters. The zero value selects all.
type Filter struct {
	Types      []string  // of triggers; nil: any
	Priorities []int     // nil: any
	Key        string    // "": any
	Reasons    []Reason  // nil: any
	From, To   time.Time // StoredAt in [From, To); zero: open
	After      uint64    // Seq above it
	Parked     *bool     // nil: both; ignored by Claim, which takes waiting ones only
	// Now is the time by which NotBefore is judged; zero: NotBefore is ignored.
	Now time.Time
	// Skip tells keys that are not to be claimed now, since an earlier trigger of theirs is under way; nil: none. It
	// is asked for keys other than "", must be quick and must not call the store. Claim alone looks at it.
	Skip func(key string) bool
	// InOrder has Claim take the oldest first whatever their priority, and of a key at most the first: a letter is
	// passed over while an earlier one of its key waits (due or not, matching or not) or is claimed. Letters
	// without a key, and parked ones, hold nothing back. Claim alone looks at it.
	InOrder bool
}

// A Settlement is the result of an attempt at a claimed letter.
type Settlement struct {
	Seq uint64
	// Delivered: the letter is gone. Else it waits again, or is parked.
	Delivered bool
	// Attempt is added to Last, and counted, unless it is zero: the letter was not tried and waits again, or with Park is parked, with the
	// NotBefore that it had.
	Attempt   Attempt
	Park      bool      // it waits for a person
	Reason    Reason    // "": as it was
	NotBefore time.Time // zero: at once
}

// A Depth is how much is stored of one consumer.
type Depth struct {
	Letters int   // waiting, claimed and parked
	Parked  int   // of them
	Bytes   int64 // of their payloads and what is stored with them, about
	// ByPriority counts Letters; its index is the priority.
	ByPriority []int
	// Oldest is when the oldest of them was stored; the zero time if there is none.
	Oldest time.Time
}
