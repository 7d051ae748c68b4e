package replica

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Pick chooses a node for a read: of the eligible replicas two at random, and of
// these the one with fewer reads in flight (the power of two choices, Mitzenmacher
// 2001). It reads memory only. The error is a *NoReplicaError with each node's
// reason, which matches ErrSaturated too if all that is eligible is at its cap, and
// ErrBehind if Await may help; or a *PositionError for a position that no node can hold.
func (s *Set) Pick(r Requirement) (Choice, error) {
	if r.PrimaryOnly {
		return s.pickPrimary(r)
	}
	nodes, st, now := *s.replicas.Load(), s.settings.Load(), s.now()
	limit := st.limit(&r)
	if n := drawFit(nodes, st, now, limit); n != nil && n.Name != r.Except {
		if c := s.admit(n, st, &r, now, limit); c.node != nil {
			return c, nil
		}
	}
	return s.pickAmong(nodes, st, &r, now, limit)
}

// drawFit is the common case: two replicas drawn at random, or the only one, are fit for
// any read with this limit, and the one with fewer reads in flight is the choice. Else nil.
func drawFit(nodes []*node, st *Settings, now, limit int64) *node {
	var a, b *node
	switch len(nodes) {
	case 0:
		return nil
	case 1:
		a, b = nodes[0], nodes[0]
	default:
		i, j := drawTwo(mix(now, nodes), uint64(len(nodes)))
		a, b = nodes[i], nodes[j]
	}
	switch {
	case !a.fit(st, now, limit), !b.fit(st, now, limit):
		return nil
	case b.inFlight() < a.inFlight():
		return b
	}
	return a
}

// fit: nothing at all speaks against a read here.
func (n *node) fit(st *Settings, now, limit int64) bool {
	v := n.view.Load()
	return v.fresh(now, st, limit) && !v.down && n.ramp.Load() == 0 && n.admits()
}

// mix makes random bits from what a pick has at hand anyway: the nanoseconds of the
// clock and the counts of reads, one of which each pick changes, through the
// finalizer of SplitMix64 (Steele, Lea, Flood 2014). It costs half of
// math/rand/v2, which a pick would feel.
func mix(now int64, nodes []*node) uint64 {
	x := uint64(now)
	for _, n := range nodes {
		x += uint64(n.reads.Load())
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// drawTwo turns 64 random bits into two different indexes below count, which is at least 2.
func drawTwo(x, count uint64) (i, j uint64) {
	i = x & math.MaxUint32 * count >> 32
	j = x >> 32 * (count - 1) >> 32
	if j >= i {
		j++
	}
	return i, j
}

// admit reserves a place on a node that is fit for any read, unless it is at its
// cap, its breaker refuses after all, it does not hold the read's position, or a newer
// sample bars it. Else the zero Choice.
func (s *Set) admit(n *node, st *Settings, r *Requirement, now, limit int64) Choice {
	permit, ok := n.allow()
	if !ok {
		return Choice{}
	}
	v := n.view.Load()
	if !v.fresh(now, st, limit) || !v.holds(&r.Position) {
		n.giveBack(&permit)
		return Choice{}
	}
	return Choice{node: n, view: v, now: now, limit: limit, floor: r.Position.LSN, permit: permit}
}

// enter counts a read in, unless the node is at its cap.
func (n *node) enter() bool {
	if v := n.reads.Add(1); n.MaxInFlight > 0 && int(int32(v)) > n.MaxInFlight {
		n.reads.Add(-1)
		return false
	}
	return true
}

// allow is enter, and asks the breaker.
func (n *node) allow() (permit breaker.Permit, ok bool) {
	if !n.enter() {
		return permit, false
	}
	permit, err := n.breaker.Allow()
	if err != nil {
		n.reads.Add(-1)
		return permit, false
	}
	return permit, true
}

// giveBack undoes allow.
func (n *node) giveBack(permit *breaker.Permit) {
	permit.DoneAs(breaker.Ignored, nil)
	n.reads.Add(-1)
}

// pickAmong looks at every replica: some are not fit, or their share is reduced.
func (s *Set) pickAmong(nodes []*node, st *Settings, r *Requirement, now, limit int64) (Choice, error) {
	eligible, reserve := s.collect(nodes, st, r, now)
	for eligible|reserve != 0 {
		if eligible == 0 {
			eligible, reserve = reserve, 0
		}
		i := better(eligible, nodes)
		eligible &^= 1 << i
		n := nodes[i]
		if c := s.admit(n, st, r, now, limit); c.node != nil {
			return c, nil
		}
		if c := s.admitUnverified(n, st, r, now, limit); c.node != nil {
			return c, nil
		}
	}
	if c := s.pickLate(nodes, st, r, now); c.node != nil {
		return c, nil
	}
	return Choice{}, s.refuse(nodes, st, r, now)
}

// collect returns the nodes that may take the read as bits, and apart from them
// those that the slow start left out this time, for when there is no other.
func (s *Set) collect(nodes []*node, st *Settings, r *Requirement, now int64) (eligible, reserve uint64) {
	for i, n := range nodes {
		if n.Name == r.Except || !n.admits() {
			continue
		}
		v := n.view.Load()
		c, _ := v.check(now, st, r, s.primarySeen.Load())
		switch {
		case c != Fit:
			n.countDenial(c, v, st)
		case (n.ramp.Load() != 0 || v.down) && rand.Float64() >= n.share(v, st, now):
			reserve |= 1 << i
		default:
			eligible |= 1 << i
		}
	}
	return eligible, reserve
}

// countDenial counts a late sample once per denied read, where that was asked for (REQ-R4).
func (n *node) countDenial(c Condition, v *view, st *Settings) {
	if st.CountRequests && c == Late {
		n.breaker.Observe(lagSignal, time.Duration(v.lo).Seconds())
	}
}

// better draws two of the nodes at random and returns the one with fewer reads in flight.
func better(eligible uint64, nodes []*node) int {
	count := uint64(bits.OnesCount64(eligible))
	if count == 1 {
		return bits.TrailingZeros64(eligible)
	}
	i, j := drawTwo(rand.Uint64(), count)
	a, b := nth(eligible, i), nth(eligible, j)
	if nodes[b].inFlight() < nodes[a].inFlight() {
		return b
	}
	return a
}

// nth returns the index of the n-th set bit, counted from 0.
func nth(set, n uint64) int {
	for ; n > 0; n-- {
		set &= set - 1
	}
	return bits.TrailingZeros64(set)
}

// admitUnverified is admit for a read that accepts a node which was fresh when the primary was last seen.
func (s *Set) admitUnverified(n *node, st *Settings, r *Requirement, now, limit int64) Choice {
	permit, ok := n.allow()
	if !ok {
		return Choice{}
	}
	v := n.view.Load()
	if c, unverified := v.check(now, st, r, s.primarySeen.Load()); c == Fit && unverified {
		return Choice{node: n, view: v, now: now, limit: limit, floor: r.Position.LSN, permit: permit, unverified: true}
	}
	n.giveBack(&permit)
	return Choice{}
}

func (s *Set) pickPrimary(r Requirement) (Choice, error) {
	n := s.primary
	if err := s.primaryLacks(&r.Position); err != nil && s.ctx.Err() == nil {
		return Choice{}, err
	}
	if s.ctx.Err() != nil || r.Except == n.Name || n.view.Load().condition == NotPrimary || !n.enter() {
		return Choice{}, s.refusePrimary(r)
	}
	return Choice{node: n, now: s.now()}, nil
}
