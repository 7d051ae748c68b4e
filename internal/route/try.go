package route

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// MaxPicks bounds how often one read is routed: nodes that become ineligible between the
// pick and the connection are no attempts, but nobody goes on for ever.
const MaxPicks = 8

// Verdict is what follows an attempt of a read on a node.
type Verdict int

// The verdicts.
const (
	Done      Verdict = iota
	GiveUp            // the error is the caller's
	Elsewhere         // once more, on another node
	Anew              // nothing was tried: pick again
)

// Tries is how many nodes a statement was tried on, where first is the error of the first of two, nil for one.
func Tries(first error) int {
	if first != nil {
		return 2
	}
	return 1
}

// SecondTry keeps both errors of a read that was tried twice, or that found no second node.
func SecondTry(first, second error) error {
	if first == nil {
		return second
	}
	return fmt.Errorf("%w (before that: %w)", second, first)
}

// Exhausted is the error of a read that was routed MaxPicks times. It matches replica.ErrNoReplica.
func Exhausted(first error) error {
	return SecondTry(first, fmt.Errorf("%w: each one picked became ineligible before it could be used", replica.ErrNoReplica))
}

// Require is req with the position that ctx carries, if there is one (REQ-R12). The error is that of Position.Merge.
func Require(ctx context.Context, req replica.Requirement) (replica.Requirement, error) {
	var err error
	req.Position, err = req.Position.Merge(replica.PositionFrom(ctx))
	return req, err
}

// Choose asks the Set, which answers from memory (REQ-R1). A read that asks for a position waits for a replica that
// holds it, for so long as replica.Set.Await says of the limit wait (REQ-R12).
func Choose(ctx context.Context, set *replica.Set, req replica.Requirement, wait time.Duration) (replica.Choice, error) {
	if req.Position.IsZero() {
		return set.Pick(req)
	}
	return set.Await(ctx, req, wait)
}
