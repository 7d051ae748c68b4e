package replica

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Stats is a snapshot of a Set.
type Stats struct {
	Primary  NodeStats
	Replicas []NodeStats
}

// NodeStats is a snapshot of a node. Its parts are read one after the other, not at
// one instant.
type NodeStats struct {
	Name string
	// Condition is Fit if a read of the default limit may be sent there, as far as
	// its samples tell; Detail says why not, in words.
	Condition Condition
	Detail    string
	// Lo and Hi bound the staleness now; Hi is Never if nothing bounds it.
	Lo, Hi time.Duration
	// LastRun is when its last good sample returned; the zero time if there was none.
	LastRun time.Time
	// InFlight counts the reads under way, Reads those that ended, modulo 2^32.
	InFlight int
	Reads    uint32
	// Share is its part of its full share of traffic, 0 to 1: less in a slow start.
	Share float64
	// ReceiverDown, ReplayPaused and InDoubt are flags of the newest sample.
	ReceiverDown, ReplayPaused, InDoubt bool
	// Position is the newest sample's WAL position.
	Position uint64
	// Breaker is the zero value for the primary, which has none.
	Breaker breaker.Stats
}

// Stats returns a snapshot of every node.
func (s *Set) Stats() Stats {
	st := Stats{Primary: s.nodeStats(s.primary)}
	for _, n := range *s.replicas.Load() {
		st.Replicas = append(st.Replicas, s.nodeStats(n))
	}
	return st
}

func (s *Set) nodeStats(n *node) NodeStats {
	v, set, now, none := n.view.Load(), s.settings.Load(), s.now(), Requirement{}
	st := NodeStats{
		Name: n.Name, Condition: v.condition, Detail: v.detail, Lo: time.Duration(v.lo), Hi: time.Duration(sub(now, v.asOf)),
		InFlight: n.inFlight(), Reads: n.finished(), Share: 1,
		ReceiverDown: v.down, ReplayPaused: v.paused, InDoubt: v.doubt, Position: v.position,
	}
	if v.sampledAt != 0 {
		st.LastRun = s.base.Add(time.Duration(v.sampledAt))
	}
	if n.breaker == nil {
		return st
	}
	st.Condition, _ = v.check(now, set, &none, s.primarySeen.Load())
	st.Detail = v.explain(st.Condition, now, set, &none)
	st.Share = n.share(v, set, now)
	st.Breaker = n.breaker.Stats()
	return st
}
