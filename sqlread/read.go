package sqlread

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// do runs st where in says, or in the session that c has. The call that it returns is
// still open.
func (c *conn) do(ctx context.Context, in route.Intent, st statement) (*call, error) {
	switch {
	case c.s != nil:
		return c.again(ctx, in, st)
	case in.Read:
		return c.read(ctx, in, st)
	}
	s := &session{node: c.front.db.primary}
	return c.once(s, s.call(ctx, c.front.db.timeout(in), time.Now()), st)
}

// again runs st in the session that c has. Outside of a transaction, what is no read is refused
// in a session of reads: its caller wants the primary.
func (c *conn) again(ctx context.Context, in route.Intent, st statement) (*call, error) {
	if c.s.read && !in.Read && !c.inTx {
		return nil, &WriteInReadError{Node: c.s.node.Name}
	}
	call := c.s.call(ctx, c.front.db.timeout(in), time.Now())
	if err := call.attempt(st); err != nil {
		return nil, call.finish(err)
	}
	return call, nil
}

// once runs st as the first statement of s, which c has from then on.
func (c *conn) once(s *session, call *call, st statement) (*call, error) {
	if err := c.first(s, call, st); err != nil {
		err = call.finish(err)
		s.release()
		return nil, err
	}
	return call, nil
}

// first runs st and gives c the session if it succeeds. If st panics the session is released.
func (c *conn) first(s *session, call *call, st statement) error {
	returned := false
	defer func() {
		if !returned {
			s.release()
		}
	}()
	err := call.attempt(st)
	returned = true
	if err == nil {
		c.s = s
	}
	return err
}

// read runs st on a node that may take it, and once more on another if that failed
// safely (REQ-R6): unless the requirement names a node not to use, which makes it its
// caller's own second try.
func (c *conn) read(ctx context.Context, in route.Intent, st statement) (*call, error) {
	once := in.Req.Except != ""
	in.Attempted(0)
	var first, err error
	if in.Req, err = route.Require(ctx, in.Req); err != nil {
		return nil, err
	}
	for range route.MaxPicks {
		s, call, err := c.pick(ctx, in)
		if err != nil {
			return nil, route.SecondTry(first, err)
		}
		err = c.first(s, call, st)
		next := call.next(err, once || first != nil)
		if next != route.Anew {
			in.Attempted(route.Tries(first))
		}
		if next == route.Done {
			return call, nil
		}
		err = call.finish(err)
		s.release()
		switch next {
		case route.GiveUp:
			return nil, route.SecondTry(first, err)
		case route.Elsewhere:
			first, in.Req.Except = err, s.node.Name
		case route.Anew, route.Done:
		}
	}
	return nil, route.Exhausted(first)
}

// pick asks the Set (REQ-R1, REQ-R12).
func (c *conn) pick(ctx context.Context, in route.Intent) (*session, *call, error) {
	choice, err := route.Choose(ctx, c.front.db.set, in.Req, c.front.db.cfg.PositionWait)
	if err != nil {
		return nil, nil, err
	}
	in.Picked(&choice)
	n := choice.Target().(*node)
	if choice.Primary() {
		n = c.front.db.reads
	}
	s := &session{node: n, read: true, choice: choice}
	call := s.call(ctx, c.front.db.timeout(in), choice.At())
	return s, call, nil
}

// timeout is the call timeout, 0 for none.
func (db *DB) timeout(in route.Intent) time.Duration {
	return max(orDefault(in.Timeout, db.cfg.CallTimeout), 0)
}

// next decides what follows an attempt that ended in err. It is asked before the call is finished.
func (c *call) next(err error, last bool) route.Verdict {
	switch {
	case err == nil:
		return route.Done
	case c.parent.Err() != nil:
		return route.GiveUp
	case route.Untried(err) || c.s.link == nil && c.s.node.left.Load():
		return route.Anew
	case last || c.s.choice.Primary():
		return route.GiveUp
	case route.IsBad(c.outcome(err)), stopped(err) && c.timedOut(), postgres.RetrySafe(postgres.SQLState(err)):
		return route.Elsewhere
	}
	return route.GiveUp
}
