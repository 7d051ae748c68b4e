package replica

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Choice is a node that a read was admitted to. Exactly one of its copies must be
// told the outcome, by Done or DoneAs. It may be handed between goroutines but not
// used by two at once. The zero Choice, which Pick returns with an error, is of no
// node: its methods return zero values and do nothing.
type Choice struct {
	node       *node
	view       *view  // what was known at the pick; nil on the primary
	now, limit int64  // the instant of the pick, and the bound that Hi was compared with
	floor      uint64 // the LSN that the read asked for, on the timeline of view; 0: none
	permit     breaker.Permit
	unverified bool
	late       bool // limit is Requirement.AcceptLate; there is no permit
	done       bool
}

// Name is the name of the node.
func (c *Choice) Name() string {
	if c.node == nil {
		return ""
	}
	return c.node.Name
}

// Target is the node's Target.
func (c *Choice) Target() any {
	if c.node == nil {
		return nil
	}
	return c.node.Target
}

// Primary tells whether the read goes to the primary.
func (c *Choice) Primary() bool { return c.node != nil && c.view == nil }

// Staleness returns the bounds at the pick: evidence of lag, and the upper bound,
// which is Never if nothing bounds it. Both are 0 on the primary.
func (c *Choice) Staleness() (lo, hi time.Duration) {
	if c.view == nil {
		return 0, 0
	}
	return time.Duration(c.view.lo), time.Duration(sub(c.now, c.view.asOf))
}

// At is the instant of the pick, of which Staleness tells.
func (c *Choice) At() time.Time {
	if c.node == nil {
		return time.Time{}
	}
	return c.node.set.base.Add(time.Duration(c.now))
}

// Unverified says that the primary could not be sampled: the node was within the
// bound when it last could (REQ-R14).
func (c *Choice) Unverified() bool { return c.unverified }

// Done reports how the read ended; Config.Classify says what that means for the
// node. It counts once; later calls do nothing.
func (c *Choice) Done(err error) {
	if c.late {
		c.DoneAs(c.node.breaker.Classify(err), err)
		return
	}
	if c.leave() {
		c.permit.Done(err)
	}
}

// DoneAs is Done with an outcome that the caller has classified.
func (c *Choice) DoneAs(o breaker.Outcome, err error) {
	if !c.leave() {
		return
	}
	if c.late {
		c.node.doneLate(o)
		return
	}
	c.permit.DoneAs(o, err)
}

func (c *Choice) leave() bool {
	if c.done || c.node == nil {
		return false
	}
	c.done = true
	c.node.reads.Add(endRead)
	return true
}

// Eligible asks again whether the node may take the read: after a wait for a
// connection, say. It is memory only; false once Done was called.
func (c *Choice) Eligible() bool {
	n := c.node
	switch {
	case n == nil || c.done:
		return false
	case c.view == nil:
		return n.view.Load().condition != NotPrimary
	case c.late:
		return c.eligibleLate()
	case !n.admits():
		return false
	}
	r := Requirement{MaxStaleness: time.Duration(c.limit), AcceptUnverified: c.unverified, Position: c.position()}
	cond, _ := n.view.Load().check(n.set.now(), n.set.settings.Load(), &r, n.set.primarySeen.Load())
	return cond == Fit
}

// position is what the read asked for, of the timeline that its node was on then.
func (c *Choice) position() Position {
	return Position{SystemID: c.view.system, Timeline: c.view.timeline, LSN: c.floor}
}
