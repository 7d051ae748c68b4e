package pgxread

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// stage is how far a call got. When its time runs out, that decides whether its node
// was slow or its pool exhausted.
type stage uint32

const (
	stageQueue   stage = iota // waits for a place in the pool
	stageConnect              // a connection is being made for it
	stagePing                 // an idle connection is being tried for it
	stageRun                  // has its connection
)

// call is one statement on one node, from taking a connection to the last row. It is
// the context with which it waits for a connection: the caller's, with the call timeout,
// and with the call in it, so that the pool's hooks find it. One allocation holds all of
// it and its rows.
type call struct {
	node    *node           // immutable
	parent  context.Context // the caller's; immutable
	timeout time.Duration   // 0: none; immutable
	begun   time.Time       // immutable
	tries   int             // of a read, with this one; immutable once it runs
	late    bool            // a read that accepts a late node: it may connect to one; immutable once it has begun to wait
	stage   atomic.Uint32   // a stage; also written by the goroutine that connects
	time    timing

	// Used by the caller's goroutine only.
	conn   *pgxpool.Conn  // nil before and after, and in a transaction, which has it
	choice replica.Choice // zero unless the call is a read that was admitted
	read   bool           // a write is refused, and says so
	up     *call          // the transaction's or batch's, told the outcome
	part   bool           // of a batch, whose time it has
	worst  breaker.Outcome
	done   bool
	rows   rows
}

type callKey struct{}

// Deadline is the earlier one of the caller's and the call's own.
func (c *call) Deadline() (time.Time, bool) {
	d, ok := c.parent.Deadline()
	if own := c.begun.Add(c.timeout); c.timeout > 0 && (!ok || own.Before(d)) {
		return own, true
	}
	return d, ok
}

// Done ends the wait for a connection.
func (c *call) Done() <-chan struct{} {
	if c.timeout == 0 {
		return c.parent.Done()
	}
	return c.node.clock.waiting(c)
}

// Err tells whose time has run out.
func (c *call) Err() error {
	if err := c.parent.Err(); err != nil {
		return err
	}
	if c.timedOut() {
		return context.DeadlineExceeded
	}
	return nil
}

// Value finds the call itself, then what the caller's context holds.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.parent.Value(key)
}

// running is the context with which a call talks to its server. It ends with the caller's;
// the call timeout interrupts the connection, and shows in Err.
type running call

// Deadline is the earlier one of the caller's and the call's own.
func (r *running) Deadline() (time.Time, bool) { return (*call)(r).Deadline() }

// Done is the caller's.
func (r *running) Done() <-chan struct{} { return r.parent.Done() }

// Err tells whose time has run out.
func (r *running) Err() error { return (*call)(r).Err() }

// Value is the call's.
func (r *running) Value(key any) any { return (*call)(r).Value(key) }

// reached notes the stage of the call whose context ctx is, if it is one.
func reached(ctx context.Context, s stage) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.stage.Store(uint32(s))
	}
}

// admitsCall is what tells whether the call whose context ctx is may make a connection to n; any other
// request is judged as a read that wants a fresh node.
func (n *node) admitsCall(ctx context.Context) func() bool {
	if c, ok := ctx.Value(callKey{}).(*call); ok && c.late {
		return n.admitsLate
	}
	return n.admits
}

// newCall starts the clock of a call on n, which began at that instant.
func newCall(parent context.Context, n *node, in *route.Intent, begun time.Time) *call {
	c := &call{
		node: n, parent: parent, begun: begun,
		timeout: max(orDefault(in.Timeout, n.db.cfg.CallTimeout), 0),
	}
	n.clock.start(c)
	return c
}

// statement is what a call does once it has its connection. It returns an error as
// long as nothing was delivered; what it leaves open, finish ends.
type statement interface{ run(c *call) error }

// attempt takes a connection and runs s on it. If s panics the call is finished, and
// the panic goes on.
func (c *call) attempt(s statement) error {
	returned := false
	defer func() {
		if !returned {
			c.end(errPanicked)
		}
	}()
	err := c.acquire()
	if err == nil {
		err = s.run(c)
	}
	returned = true
	return err
}

func (c *call) acquire() error {
	conn, err := c.node.pool.Acquire(c)
	if err != nil {
		return err
	}
	c.conn = conn
	c.stage.Store(uint32(stageRun))
	if c.choice.Target() != nil && !c.choice.Eligible() {
		return route.ErrMoved
	}
	return c.node.clock.attach(c, conn.Conn().PgConn().Conn())
}

// finish ends the call, once. It returns err in the words that the caller is to see.
func (c *call) finish(err error) error {
	if c.done {
		return err
	}
	shown := c.explain(err)
	c.end(err)
	return shown
}

// end releases the connection and reports the outcome, once.
func (c *call) end(err error) {
	if c.done {
		return
	}
	c.done = true
	outcome := c.outcome(err)
	c.untime()
	if c.conn != nil {
		c.conn.Release()
		c.conn = nil
	}
	c.choice.DoneAs(outcome, err)
	if c.up != nil {
		c.up.worst = worse(c.up.worst, outcome)
	}
}

// untime stops the clock of c.
func (c *call) untime() {
	if c.part {
		return
	}
	conn := c.conn
	if conn == nil && c.up != nil {
		conn = c.up.conn
	}
	c.node.clock.stop(c, conn != nil && !conn.Conn().IsClosed())
}

// outcome is what err says about the node. It is asked before the clock is stopped.
func (c *call) outcome(err error) breaker.Outcome {
	own := classify(err)
	if err != nil && stopped(err) && c.Err() != nil {
		own = c.outOfTime()
	}
	if route.IsBad(c.worst) {
		return worse(c.worst, own)
	}
	return own
}

// outOfTime judges a call whose own or caller's time has run out (REQ-B9).
func (c *call) outOfTime() breaker.Outcome {
	switch {
	case stage(c.stage.Load()) == stageQueue: // saturation is not sickness
		return breaker.Ignored
	case c.timedOut():
		return breaker.Failure
	case errors.Is(c.parent.Err(), context.DeadlineExceeded) && time.Since(c.begun) >= c.node.db.cfg.SlowCall:
		return breaker.Failure
	}
	return breaker.Ignored
}

// timedOut tells whether the call timeout ended the call.
func (c *call) timedOut() bool {
	if c.part {
		return c.up.timedOut()
	}
	return c.node.clock.ran(c)
}

// explain puts err into the words that the caller is to see.
func (c *call) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case c.read && postgres.SQLState(err) == postgres.ReadOnlyTransaction:
		return &WriteInReadError{Node: c.node.name, Err: err}
	case route.Untried(err) && c.parent.Err() != nil:
		return fmt.Errorf("%w: %w", c.parent.Err(), err)
	case stopped(err) && c.timedOut():
		return callTimeoutError(c.node.name, c.timeout, err)
	}
	return err
}

// worse is the outcome that says more against the node.
func worse(a, b breaker.Outcome) breaker.Outcome {
	switch {
	case a == breaker.Fatal || b == breaker.Fatal:
		return breaker.Fatal
	case a == breaker.Failure || b == breaker.Failure:
		return breaker.Failure
	}
	return b
}
