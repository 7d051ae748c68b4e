package pgxread

import (
	"context"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Call tells a hook of a connection, a tracer of pgx for one, of the call through a DB that it was called for: one statement on one
// node. Its methods are for the goroutine of the hook, until the hook returns.
type Call struct{ c *call }

// CallOf finds the call whose statement runs under ctx. There is none under the context of a caller of a DB, nor for what is done through a pool itself;
// for Breakwater's own checks IsCheck tells.
func CallOf(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(callKey{}).(*call)
	return Call{c}, ok
}

// Info is where the call was sent. In a transaction it is what was said of its begin. Attempts is 1, or 2 on the second node of a read; of a call that
// is no read only the node is known, and Attempts is 0.
func (k Call) Info() ReadInfo {
	c := k.c.whole()
	if c.choice.Target() == nil {
		return ReadInfo{Node: c.node.name, Primary: c.node == c.node.db.primary}
	}
	info := c.choice.Info()
	info.Attempts = c.tries
	return info
}

// State is that of the node's breaker now; closed for the primary, which has none.
func (k Call) State() breaker.State {
	if b := k.c.node.db.set.Breaker(k.c.node.name); b != nil {
		return b.State()
	}
	return breaker.Closed
}

// Outcome is what the call counts as if it ends in err now.
func (k Call) Outcome(err error) breaker.Outcome { return k.c.outcome(err) }

// whole is the transaction or the batch that c is in, or c itself.
func (c *call) whole() *call {
	for c.up != nil {
		c = c.up
	}
	return c
}
