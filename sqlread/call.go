package sqlread

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// linger is how long after the call timeout a driver may go on before its connection is
// closed under it.
const linger = time.Second

// stage is how far a call got. When its time runs out, that decides whether its node
// was slow or its pool exhausted.
type stage uint32

const (
	stageQueue   stage = iota // waits for a place in the pool
	stageConnect              // a connection is being made for it, or tried
	stageRun                  // has its connection
)

// call is one statement in a session, from taking a connection to the last row; one that
// begins a transaction lasts until its end, since drivers go on to use the context of BEGIN.
type call struct {
	s       *session
	parent  context.Context // the caller's
	ctx     context.Context // parent, ended by the call timeout
	cancel  context.CancelCauseFunc
	timeout time.Duration // 0: none
	begun   time.Time
	late    bool        // a read that accepts a late node; immutable
	timer   *time.Timer // nil: none
	stage   atomic.Uint32
	// using is the connection that is closed if the driver does not end in time, nil before and after.
	using atomic.Pointer[link]
	done  bool
}

type callKey struct{}

// call begins a call of s.
func (s *session) call(parent context.Context, timeout time.Duration, begun time.Time) *call {
	c := &call{s: s, parent: parent, timeout: max(timeout, 0), begun: begun, late: s.choice.Late()}
	c.ctx, c.cancel = context.WithCancelCause(context.WithValue(parent, callKey{}, c))
	if c.timeout > 0 {
		c.timer = time.AfterFunc(c.timeout, c.expire)
	}
	return c
}

// expire ends the call by its context, and after a while by its connection.
func (c *call) expire() {
	c.cancel(errTimedOut)
	time.AfterFunc(linger, func() {
		if l := c.using.Swap(nil); l != nil {
			_ = l.Close() // it is given up either way
		}
	})
}

// resume begins the time of c anew, for the end of its transaction.
func (c *call) resume() {
	c.using.Store(c.s.link)
	c.begun = time.Now()
	if c.timer != nil {
		c.timer.Reset(c.timeout)
	}
}

// pause stops the time of c without ending it.
func (c *call) pause() {
	c.using.Store(nil)
	if c.timer != nil {
		c.timer.Stop()
	}
}

// reached notes the stage of the call whose context ctx is, if it is one.
func reached(ctx context.Context, s stage) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.stage.Store(uint32(s))
	}
}

// statement is what a call does once it has its connection. It returns an error as
// long as nothing was delivered.
type statement interface{ run(c *call) error }

// attempt takes a connection, unless the session has one, and runs st on it. Connections on which
// the driver says that it sent nothing are replaced, as database/sql does. If st panics the call is
// finished, and the panic goes on.
func (c *call) attempt(st statement) error {
	returned := false
	defer func() {
		if !returned {
			c.panicked()
		}
	}()
	held := c.s.link != nil
	err := c.run(st)
	for range c.s.node.MaxConns {
		if held || !errors.Is(err, driver.ErrBadConn) || c.ctx.Err() != nil {
			break
		}
		c.spoil()
		c.s.drop()
		err = c.run(st)
	}
	returned = true
	return err
}

// panicked finishes a call that a panic of the driver ended.
func (c *call) panicked() {
	c.spoil()
	_ = c.finish(errPanicked) // the panic tells it
}

// spoil has the call's connection not used again by others.
func (c *call) spoil() {
	if c.s.link != nil {
		c.s.link.spoilt = true
	}
}

func (c *call) run(st statement) error {
	if c.s.link == nil {
		c.stage.Store(uint32(stageQueue))
		if err := c.s.take(c.ctx); err != nil {
			return err
		}
		if c.s.read && !c.s.choice.Eligible() {
			return route.ErrMoved
		}
	}
	c.stage.Store(uint32(stageRun))
	c.using.Store(c.s.link)
	return st.run(c)
}

// finish ends the call, once, and tells its session the outcome. It returns err in the words
// that the caller is to see.
func (c *call) finish(err error) error {
	if c.done {
		return err
	}
	c.done = true
	if errors.Is(err, driver.ErrBadConn) {
		c.spoil()
	}
	shown := c.explain(err)
	c.s.note(c.outcome(err), err)
	c.pause()
	c.cancel(nil)
	return shown
}

// outcome is what err says about the node.
func (c *call) outcome(err error) breaker.Outcome {
	if err != nil && c.ctx.Err() != nil && stopped(err) {
		return c.outOfTime()
	}
	return classify(err)
}

// outOfTime judges a call whose own or caller's time has run out (REQ-B9).
func (c *call) outOfTime() breaker.Outcome {
	switch {
	case stage(c.stage.Load()) == stageQueue: // saturation is not sickness
		return breaker.Ignored
	case c.timedOut():
		return breaker.Failure
	case errors.Is(c.parent.Err(), context.DeadlineExceeded) && time.Since(c.begun) >= c.s.node.db.cfg.SlowCall:
		return breaker.Failure
	}
	return breaker.Ignored
}

// timedOut tells whether the call timeout ended the call.
func (c *call) timedOut() bool { return errors.Is(context.Cause(c.ctx), errTimedOut) }

// explain puts err into the words that the caller is to see.
func (c *call) explain(err error) error {
	ended := c.parent.Err()
	switch {
	case err == nil:
		return nil
	case c.s.read && postgres.SQLState(err) == postgres.ReadOnlyTransaction:
		return &WriteInReadError{Node: c.s.node.Name, Err: err}
	case stopped(err) && c.timedOut():
		return timeoutError(c.s.node.Name, c.timeout, err)
	case ended != nil && !errors.Is(err, ended) && (stopped(err) || route.Untried(err)):
		return fmt.Errorf("%w: node %s: %v", ended, c.s.node.Name, err) //nolint:errorlint // may be a driver.ErrBadConn, which database/sql would try again
	case errors.Is(err, driver.ErrBadConn):
		return lostError(c.s.node.Name, err)
	}
	return err
}
