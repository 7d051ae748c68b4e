package replica

import (
	"math/rand/v2"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Choice is a node that a read was admitted to. Exactly one of its copies must be
// told the outcome, by Done or DoneAs; the zero Choice ignores both. It may be
// handed between goroutines but not used by two at once.
type Choice struct {
	// Name and Target are the Node's.
	Name   string
	Target any
	// Lo and Hi bound the staleness at the pick; Hi is Never if nothing bounds it. Both 0 on the primary.
	Lo, Hi time.Duration
	// Primary says that the read goes to the primary.
	Primary bool
	// Unverified says that the primary could not be sampled: the node was within the
	// bound when it last could (REQ-R14).
	Unverified bool

	node   *node
	permit breaker.Permit
	asked  Requirement
}

// Pick chooses a node for a read: of the eligible replicas two at random, and of
// these the one with fewer reads in flight. It reads memory only. The error is a
// *NoReplicaError with each node's reason.
func (s *Set) Pick(r Requirement) (Choice, error) {
	if r.PrimaryOnly {
		return s.pickPrimary(r)
	}
	nodes, st, now := *s.replicas.Load(), s.settings.Load(), s.now()
	var c candidates
	s.collect(&c, nodes, st, &r, now)
	for c.more() {
		i := c.better(nodes)
		n := nodes[c.at[i]]
		if choice, ok := s.admit(n, st, &r, now); ok {
			return choice, nil
		}
		c.drop(i)
	}
	return Choice{}, s.refuse(nodes, st, &r, now)
}

// candidates are the indexes of the nodes that may take the read; those that the
// slow start left out this time wait in reserve, for when there is no other.
type candidates struct {
	at, reserve  [maxReplicas]uint8
	n, inReserve int
}

func (s *Set) collect(c *candidates, nodes []*node, st *Settings, r *Requirement, now int64) {
	for i, n := range nodes {
		if n.Name == r.Except || !n.admits() {
			continue
		}
		v := n.view.Load()
		if cond, _ := v.check(now, st, r, s.primarySeen.Load()); cond != Fit {
			n.countDenial(cond, v, st)
			continue
		}
		if share := n.share(v, st, now); share < 1 && rand.Float64() >= share {
			c.reserve[c.inReserve] = uint8(i)
			c.inReserve++
			continue
		}
		c.at[c.n] = uint8(i)
		c.n++
	}
}

// countDenial counts a late sample once per denied read, where that was asked for (REQ-R4).
func (n *node) countDenial(c Condition, v *view, st *Settings) {
	if st.CountRequests && c == Late {
		n.breaker.Observe(lagSignal, time.Duration(v.lo).Seconds())
	}
}

func (c *candidates) more() bool {
	if c.n == 0 && c.inReserve > 0 {
		c.at, c.n, c.inReserve = c.reserve, c.inReserve, 0
	}
	return c.n > 0
}

// better draws two candidates and returns the one with fewer reads in flight.
func (c *candidates) better(nodes []*node) int {
	if c.n == 1 {
		return 0
	}
	x := rand.Uint64()
	i := int(uint64(uint32(x)) * uint64(c.n) >> 32)
	j := int((x >> 32) * uint64(c.n-1) >> 32)
	if j >= i {
		j++
	}
	if nodes[c.at[j]].inFlight.Load() < nodes[c.at[i]].inFlight.Load() {
		return j
	}
	return i
}

func (c *candidates) drop(i int) {
	c.n--
	c.at[i] = c.at[c.n]
}

// admit reserves a place on the node, unless it is at its cap or its breaker
// refuses after all.
func (s *Set) admit(n *node, st *Settings, r *Requirement, now int64) (Choice, bool) {
	if !n.enter() {
		return Choice{}, false
	}
	permit, err := n.breaker.Allow()
	if err != nil {
		n.inFlight.Add(-1)
		return Choice{}, false
	}
	v := n.view.Load()
	cond, unverified := v.check(now, st, r, s.primarySeen.Load())
	if cond != Fit { // a newer sample came since
		permit.DoneAs(breaker.Ignored, nil)
		n.inFlight.Add(-1)
		return Choice{}, false
	}
	return Choice{
		Name: n.Name, Target: n.Target, Lo: time.Duration(v.lo), Hi: time.Duration(sub(now, v.asOf)),
		Unverified: unverified, node: n, permit: permit, asked: *r,
	}, true
}

// enter counts a read in, unless the node is at its cap.
func (n *node) enter() bool {
	if v := n.inFlight.Add(1); n.MaxInFlight > 0 && v > int64(n.MaxInFlight) {
		n.inFlight.Add(-1)
		return false
	}
	return true
}

func (s *Set) pickPrimary(r Requirement) (Choice, error) {
	n := s.primary
	if r.Except == n.Name || !n.enter() {
		return Choice{}, s.refusePrimary(r)
	}
	return Choice{Name: n.Name, Target: n.Target, Primary: true, node: n, asked: r}, nil
}

// Done reports how the read ended; Config.Classify says what that means for the
// node. It counts once; later calls do nothing.
func (c *Choice) Done(err error) {
	if c.leave() {
		c.permit.Done(err)
	}
}

// DoneAs is Done with an outcome that the caller has classified.
func (c *Choice) DoneAs(o breaker.Outcome, err error) {
	if c.leave() {
		c.permit.DoneAs(o, err)
	}
}

func (c *Choice) leave() bool {
	n := c.node
	if n == nil {
		return false
	}
	c.node = nil
	n.inFlight.Add(-1)
	n.finished.Add(1)
	return true
}

// Eligible asks again whether the node may take the read: after a wait for a
// connection, say. It is memory only.
func (c *Choice) Eligible() bool {
	n := c.node
	if n == nil || c.Primary {
		return n != nil
	}
	if !n.admits() {
		return false
	}
	s := n.set
	cond, unverified := n.view.Load().check(s.now(), s.settings.Load(), &c.asked, s.primarySeen.Load())
	return cond == Fit && unverified == c.Unverified
}
