package pgxread

import (
	"context"
	"errors"
	"time"

	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// errPanicked finishes a call whose statement panicked, or left by runtime.Goexit. It
// says nothing about the node.
var errPanicked = errors.New("pgxread: the statement panicked")

// read runs s on a node that may take it, and once more on another if that failed
// safely (REQ-R6): unless req names a node not to use, which makes it its caller's own
// second try. The call it returns is still open.
func (db *DB) read(ctx context.Context, req replica.Requirement, s statement) (*call, error) {
	in := intentOf(ctx)
	once := req.Except != ""
	in.Attempted(0)
	req, err := route.Require(ctx, req)
	if err != nil {
		return nil, err
	}
	var first error
	for range route.MaxPicks {
		c, err := db.pick(ctx, in, req)
		if err != nil {
			return nil, route.SecondTry(first, err)
		}
		c.tries = route.Tries(first)
		err = c.attempt(s) //nolint:contextcheck // the call is the context
		next := c.next(err, once || first != nil)
		if next == route.Anew {
			c.end(err)
			continue
		}
		in.Attempted(route.Tries(first))
		if next == route.Done {
			return c, nil
		}
		if err = c.finish(err); next == route.GiveUp {
			return nil, route.SecondTry(first, err)
		}
		first, req.Except = err, c.node.name
	}
	return nil, route.Exhausted(first)
}

// pick asks the Set, which answers from memory (REQ-R1).
func (db *DB) pick(ctx context.Context, in *route.Intent, req replica.Requirement) (*call, error) {
	choice, err := route.Choose(ctx, db.set, req, db.cfg.PositionWait)
	if err != nil {
		return nil, err
	}
	in.Picked(&choice)
	n := choice.Target().(*node)
	if choice.Primary() {
		n = db.reads
	}
	c := newCall(ctx, n, in, choice.At())
	c.choice, c.read, c.late = choice, true, choice.Late()
	return c, nil
}

// next decides what follows an attempt that ended in err. It is asked before the call is finished.
func (c *call) next(err error, last bool) route.Verdict {
	switch {
	case err == nil:
		return route.Done
	case c.parent.Err() != nil:
		return route.GiveUp
	case route.Untried(err) || c.conn == nil && c.node.left.Load():
		return route.Anew
	case last || c.choice.Primary():
		return route.GiveUp
	case route.IsBad(c.outcome(err)), stopped(err) && c.timedOut(), postgres.RetrySafe(postgres.SQLState(err)):
		return route.Elsewhere
	}
	return route.GiveUp
}

// direct runs s on the primary as it is, unguarded: a write, or what may be one.
func (db *DB) direct(ctx context.Context, s statement) (*call, error) {
	c := newCall(ctx, db.primary, intentOf(ctx), time.Now())
	if err := c.attempt(s); err != nil { //nolint:contextcheck // the call is the context
		return nil, c.finish(err)
	}
	return c, nil
}
