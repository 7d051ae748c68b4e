package pgxread

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
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
// its own context: the caller's, with the call timeout, and with itself in it, so that
// the pool's hooks find it. One allocation holds all of it and its rows.
type call struct {
	context.Context //nolint:containedctx // it is the context, see above

	node    *node
	parent  context.Context // the caller's
	cancel  context.CancelFunc
	timeout time.Duration // 0: none
	begun   time.Time
	stage   atomic.Uint32 // a stage; also written by the goroutine that connects

	// Used by the caller's goroutine only.
	conn   *pgxpool.Conn  // nil: in a transaction, which has it
	choice replica.Choice // zero unless the call is a read that was admitted
	read   bool           // a write is refused, and says so
	up     *call          // the transaction's, told the outcome
	worst  breaker.Outcome
	done   bool
	rows   rows
}

type callKey struct{}

// Value finds the call itself, then what the caller's context holds.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// reached notes the stage of the call whose context ctx is, if it is one.
func reached(ctx context.Context, s stage) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.stage.Store(uint32(s))
	}
}

// newCall starts the clock of a call on n.
func newCall(parent context.Context, n *node, in *intent) *call {
	c := &call{node: n, parent: parent, begun: time.Now()}
	c.timeout = max(orDefault(in.timeout, n.db.cfg.CallTimeout), 0)
	if c.timeout > 0 {
		c.Context, c.cancel = context.WithTimeoutCause(parent, c.timeout, errCallTimeout)
	} else {
		c.Context, c.cancel = parent, func() {}
	}
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
			c.finish(errPanicked)
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
		return errMoved
	}
	return nil
}

// finish releases the connection and reports the outcome, once. It returns err in
// the words that the caller is to see.
func (c *call) finish(err error) error {
	if c.done {
		return err
	}
	c.done = true
	outcome, shown := c.outcome(err), c.explain(err)
	c.cancel()
	if c.conn != nil {
		c.conn.Release()
	}
	c.choice.DoneAs(outcome, err)
	if c.up != nil {
		c.up.worst = worse(c.up.worst, outcome)
	}
	return shown
}

// outcome is what err says about the node. It is asked before the call's context is
// cancelled.
func (c *call) outcome(err error) breaker.Outcome {
	own := classify(err)
	if err != nil && c.Context.Err() != nil && stopped(err) {
		own = c.outOfTime()
	}
	if isBad(c.worst) {
		return worse(c.worst, own)
	}
	return own
}

// outOfTime judges a call whose context has ended (REQ-B9).
func (c *call) outOfTime() breaker.Outcome {
	switch {
	case stage(c.stage.Load()) == stageQueue: // saturation is not sickness
		return breaker.Ignored
	case c.timedOut():
		return breaker.Failure
	case c.parent.Err() == context.DeadlineExceeded && time.Since(c.begun) >= c.node.db.cfg.SlowCall: //nolint:errorlint // Err returns it bare
		return breaker.Failure
	}
	return breaker.Ignored
}

// timedOut tells whether the call timeout ended the call, not its caller.
func (c *call) timedOut() bool {
	return c.Context.Err() != nil && context.Cause(c.Context) == errCallTimeout //nolint:errorlint // our own value
}

// explain puts err into the words that the caller is to see.
func (c *call) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case c.read && sqlstate(err) == postgres.ReadOnlyTransaction:
		return &WriteInReadError{Node: c.node.name, Err: err}
	case c.timedOut() && stopped(err):
		return callTimeoutError(c.node.name, c.timeout, err)
	}
	return err
}

func isBad(o breaker.Outcome) bool { return o == breaker.Failure || o == breaker.Fatal }

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
