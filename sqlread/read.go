package sqlread

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// maxPicks bounds how often one read is routed: nodes that become ineligible between the
// pick and the connection are no attempts, but nobody goes on for ever.
const maxPicks = 8

// do runs st where in says, or in the session that c has. The call that it returns is
// still open.
func (c *conn) do(ctx context.Context, in intent, st statement) (*call, error) {
	switch {
	case c.s != nil:
		return c.again(ctx, in, st)
	case in.read:
		return c.read(ctx, in, st)
	}
	s := &session{node: c.front.db.primary}
	return c.once(s, s.call(ctx, c.front.db.timeout(in), time.Now()), st)
}

// again runs st in the session that c has. Outside of a transaction, what is no read is refused
// in a session of reads: its caller wants the primary.
func (c *conn) again(ctx context.Context, in intent, st statement) (*call, error) {
	if c.s.read && !in.read && !c.inTx {
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
func (c *conn) read(ctx context.Context, in intent, st statement) (*call, error) {
	var first error
	once := in.req.Except != ""
	in.attempts(0)
	for range maxPicks {
		s, call, err := c.pick(ctx, in)
		if err != nil {
			return nil, secondTryError(first, err)
		}
		err = c.first(s, call, st)
		next := call.next(err, once || first != nil)
		if next != anew {
			in.attempts(tries(first))
		}
		if next == done {
			return call, nil
		}
		err = call.finish(err)
		s.release()
		switch next {
		case giveUp:
			return nil, secondTryError(first, err)
		case elsewhere:
			first, in.req.Except = err, s.node.Name
		case anew, done:
		}
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
func (c *conn) pick(ctx context.Context, in intent) (*session, *call, error) {
	choice, err := c.front.db.set.Pick(in.req)
	if err != nil {
		return nil, nil, err
	}
	in.picked(&choice)
	s := &session{node: choice.Target().(*node), read: true, choice: choice}
	call := s.call(ctx, c.front.db.timeout(in), choice.At())
	return s, call, nil
}

// timeout is the call timeout, 0 for none.
func (db *DB) timeout(in intent) time.Duration {
	return max(orDefault(in.timeout, db.cfg.CallTimeout), 0)
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
	case isAny(err, errFenced, errMoved, errOtherServer) || c.s.link == nil && c.s.node.left.Load():
		return anew
	case last || c.s.choice.Primary():
		return giveUp
	case isBad(c.outcome(err)), stopped(err) && c.timedOut(), postgres.RetrySafe(sqlstate(err)):
		return elsewhere
	}
	return giveUp
}
