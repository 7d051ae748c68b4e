package pgxread

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// maxPicks bounds how often one read is routed: nodes that become ineligible between the
// pick and the connection are no attempts, but nobody goes on for ever.
const maxPicks = 8

// errPanicked finishes a call whose statement panicked, or left by runtime.Goexit. It
// says nothing about the node.
var errPanicked = errors.New("pgxread: the statement panicked")

// read runs s on a node that may take it, and once more on another if that failed
// safely (REQ-R6): unless req names a node not to use, which makes it its caller's own
// second try. The call it returns is still open.
func (db *DB) read(ctx context.Context, req replica.Requirement, s statement) (*call, error) {
	in := intentOf(ctx)
	var first, err error
	once := req.Except != ""
	in.attempts(0)
	if req.Position, err = req.Position.Merge(replica.PositionFrom(ctx)); err != nil {
		return nil, err
	}
	for range maxPicks {
		c, err := db.pick(ctx, in, req)
		if err != nil {
			return nil, secondTryError(first, err)
		}
		err = c.attempt(s) //nolint:contextcheck // the call is the context
		next := c.next(err, once || first != nil)
		if next == anew {
			c.end(err)
			continue
		}
		in.attempts(tries(first))
		if next == done {
			return c, nil
		}
		if err = c.finish(err); next == giveUp {
			return nil, secondTryError(first, err)
		}
		first, req.Except = err, c.node.name
	}
	return nil, secondTryError(first, fmt.Errorf("%w: each one picked became ineligible before it could be used", replica.ErrNoReplica))
}

func tries(first error) int {
	if first != nil {
		return 2
	}
	return 1
}

// pick asks the Set, which answers from memory (REQ-R1).
func (db *DB) pick(ctx context.Context, in *intent, req replica.Requirement) (*call, error) {
	choice, err := db.choose(ctx, req)
	if err != nil {
		return nil, err
	}
	in.picked(&choice)
	n := choice.Target().(*node)
	if choice.Primary() {
		n = db.reads
	}
	c := newCall(ctx, n, in, choice.At())
	c.choice, c.read, c.late = choice, true, choice.Late()
	return c, nil
}

// choose picks a node. A read that asks for a position waits for a replica that holds it (REQ-R12).
func (db *DB) choose(ctx context.Context, req replica.Requirement) (replica.Choice, error) {
	if req.Position.IsZero() {
		return db.set.Pick(req)
	}
	return db.set.Await(ctx, req, db.cfg.PositionWait)
}

// verdict is what follows an attempt.
type verdict int

const (
	done      verdict = iota
	giveUp            // the error is the caller's
	elsewhere         // once more, on another node
	anew              // nothing was tried: pick again
)

// next decides what follows an attempt that ended in err. It is asked before the call is finished.
func (c *call) next(err error, last bool) verdict {
	switch {
	case err == nil:
		return done
	case c.parent.Err() != nil:
		return giveUp
	case isAny(err, errFenced, errMoved, errOtherServer) || c.conn == nil && c.node.left.Load():
		return anew
	case last || c.choice.Primary():
		return giveUp
	case isBad(c.outcome(err)), stopped(err) && c.timedOut(), postgres.RetrySafe(sqlstate(err)):
		return elsewhere
	}
	return giveUp
}

// direct runs s on the primary as it is, unguarded: a write, or what may be one.
func (db *DB) direct(ctx context.Context, s statement) (*call, error) {
	c := newCall(ctx, db.primary, intentOf(ctx), time.Now())
	if err := c.attempt(s); err != nil { //nolint:contextcheck // the call is the context
		return nil, c.finish(err)
	}
	return c, nil
}
