package replica

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// pickLate chooses among the replicas whose only fault is lag, for a read that accepts that
// (REQ-D5). Such a read takes a place under the node's cap, and no permit: it is no probe, and its
// end closes nothing.
func (s *Set) pickLate(nodes []*node, st *Settings, r *Requirement, now int64) Choice {
	for able := lateNodes(nodes, st, r, now); able != 0; {
		i := better(able, nodes)
		able &^= 1 << i
		n := nodes[i]
		if !n.enter() {
			continue
		}
		if v := n.view.Load(); n.takesLate(v, now, st, r) {
			return Choice{node: n, view: v, now: now, limit: int64(r.AcceptLate), floor: r.Position.LSN, late: true}
		}
		n.reads.Add(-1)
	}
	return Choice{}
}

// lateNodes are those that takesLate, as bits.
func lateNodes(nodes []*node, st *Settings, r *Requirement, now int64) (able uint64) {
	for i, n := range nodes {
		if n.Name != r.Except && n.takesLate(n.view.Load(), now, st, r) {
			able |= 1 << i
		}
	}
	return able
}

// takesLate tells whether the node may take a read that accepts a late replica: it answers, its staleness is
// bounded and within what the read accepts, and nothing but lag keeps it from taking others.
func (n *node) takesLate(v *view, now int64, st *Settings, r *Requirement) bool {
	return r.AcceptLate > 0 && v.condition == Fit && v.asOf != never &&
		now-v.asOf <= int64(r.AcceptLate) && now-v.sampledAt <= int64(st.MaxStaleness) &&
		v.holds(&r.Position) && now >= n.shunned.Load() && n.admitsLate()
}

// admitsLate tells whether the breaker lets reads pass, or does not because of lag alone.
func (n *node) admitsLate() bool {
	if n.admits() {
		return true
	}
	e := n.breaker.Refusal()
	return e == nil || e.Reason.Rule == lagSignal
}

// doneLate takes in how a late read ended. The breaker is not told: it may be open, and a node that is late has
// another way back. A failure of the node brings its next sample forward, which is what opens it, and keeps
// late reads away for the shortest open period, also where the sample succeeds and only the application's pool fails.
func (n *node) doneLate(o breaker.Outcome) {
	if o != breaker.Failure && o != breaker.Fatal {
		return
	}
	n.shunned.Store(n.set.now() + int64(n.set.settings.Load().Open.Base))
	n.demand.nudge()
}

// AdmitsLate is Admits for a read with Requirement.AcceptLate: true also while the breaker of that node does
// not let reads pass because of lag, and of nothing else.
func (s *Set) AdmitsLate(name string) bool {
	n := s.find(name)
	return n != nil && (n.breaker == nil || n.admitsLate())
}

// Late says that the replica may be staler than the read's bound, and was chosen because the read
// accepts that (Requirement.AcceptLate). Staleness tells how stale at most.
func (c *Choice) Late() bool { return c.late }

// eligibleLate is Eligible of a late read.
func (c *Choice) eligibleLate() bool {
	n := c.node
	r := Requirement{AcceptLate: time.Duration(c.limit), Position: c.position()}
	return n.takesLate(n.view.Load(), n.set.now(), n.set.settings.Load(), &r)
}
