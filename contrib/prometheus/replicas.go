package prombreakwater

import (
	"maps"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

type replicaFamilies struct {
	staleness, lastRun, condition, reads, inFlight, share *family

	numbered, trips, polled *family // published
}

func newReplicaFamilies(k *catalogue, published bool) replicaFamilies {
	f := replicaFamilies{
		staleness: k.gauge("breakwater_replica_staleness_seconds", "Bounds on how stale the replica is: lo is evidence of lag, hi an upper bound that grows with the age of the samples. hi is +Inf where nothing bounds it; lo is absent where the samples tell no lag.", "replica", "bound"),
		lastRun:   k.gauge("breakwater_poller_last_run_timestamp_seconds", "When the newest good sample of the node came, as Unix time. Absent until the first one.", "node"),
		condition: k.gauge("breakwater_node_condition", "Whether the node's samples tell this of it, 0 or 1. Every condition is told; ok is the good one.", "node", "condition"),
		reads:     k.counter("breakwater_replica_reads_total", "Reads that ended on the node.", "node"),
		inFlight:  k.gauge("breakwater_replica_reads_in_flight", "Reads under way on the node.", "node"),
		share:     k.gauge("breakwater_replica_share", "Part of its full share of reads that the replica gets, 0 to 1: less in a slow start.", "replica"),
	}
	if published {
		f.numbered = k.gauge("replica_breaker_state", "State of the replica's breaker as a number: 0 closed, 1 open, 2 half-open. A forced or disabled one shows as what it does. breakwater_breaker_state needs no numbers.", "replica")
		f.trips = k.counter("replica_breaker_trips_total", "How often the replica's breaker opened, failed recoveries too, by the rule that opened it.", "replica", "reason")
		f.polled = k.gauge("poller_last_run_timestamp", "When the newest good sample of the replica came, as Unix time in seconds. The same as breakwater_poller_last_run_timestamp_seconds.", "replica")
	}
	return f
}

// conditions are what samples can tell of a node.
func conditions() []replica.Condition {
	var all []replica.Condition
	for c := replica.Fit; c <= replica.NotPrimary; c++ {
		all = append(all, c)
	}
	return all
}

// usualTrips are the rules that open a replica's breaker, told from the start so that the first opening is seen as an increase.
func usualTrips() []string {
	return []string{"lag", "unreachable", breaker.RuleConsecutiveFailures, breaker.RuleProbeFailure}
}

func (c *Collector) readReplicas(r *report, set *replica.Set) {
	s := set.Stats()
	c.readNode(r, set, &s.Primary)
	present := map[string]bool{s.Primary.Name: true}
	for i := range s.Replicas {
		n := &s.Replicas[i]
		present[n.Name] = true
		c.readReplica(r, set, n)
	}
	c.ledger.keep(ScopeReplica, present)
	maps.DeleteFunc(r.seen, func(node string, _ int64) bool { return !present[node] })
}

// readNode tells what is known of the primary too.
func (c *Collector) readNode(r *report, owner any, n *replica.NodeStats) {
	f, name := &c.replicas, r.label.name(n.Name)
	for _, condition := range conditions() {
		r.add(f.condition, number(n.Condition == condition), name, condition.String())
	}
	r.add(f.inFlight, float64(n.InFlight), name)
	r.add(f.reads, r.countModulo(f.reads.key([]string{name}), owner, n.Reads), name)
	if at, ok := r.newest(n); ok {
		r.add(f.lastRun, at, name)
	}
}

func (c *Collector) readReplica(r *report, set *replica.Set, n *replica.NodeStats) {
	owner := set.Breaker(n.Name)
	if owner == nil { // it was removed meanwhile
		return
	}
	f, name := &c.replicas, r.label.name(n.Name)
	c.readNode(r, owner, n)
	c.readBreaker(r, ScopeReplica, owner, n.Breaker)
	if tellsLag(n) {
		r.add(f.staleness, n.Lo.Seconds(), name, "lo")
	}
	r.add(f.staleness, seconds(n.Hi), name, "hi")
	r.add(f.share, n.Share, name)
	r.add(f.numbered, published().of(n.Breaker.State), name)
	if at, ok := r.newest(n); ok {
		r.add(f.polled, at, name)
	}
	c.readTrips(r, n.Name)
}

func (c *Collector) readTrips(r *report, name string) {
	all, watched := c.ledger.transitions(ScopeReplica, name)
	if !watched {
		return
	}
	trips := map[string]uint64{}
	for _, rule := range usualTrips() {
		trips[rule] = 0
	}
	for t, n := range all {
		if t.to == breaker.Open {
			trips[t.reason] += n
		}
	}
	for rule, n := range trips {
		r.add(c.replicas.trips, float64(n), r.label.name(name), rule)
	}
}

// tellsLag tells whether Lo is a measurement: the samples are of a replica of this primary.
func tellsLag(n *replica.NodeStats) bool {
	switch n.Condition {
	case replica.Fit, replica.Late, replica.Stale, replica.UnknownPrimary:
		return true
	default:
		return false
	}
}

// newest is when the newest good sample of a node came, which a failed one after it does not undo.
func (r *report) newest(n *replica.NodeStats) (unix float64, ok bool) {
	if !n.LastRun.IsZero() {
		r.seen[n.Name] = max(r.seen[n.Name], n.LastRun.UnixNano())
	}
	at, ok := r.seen[n.Name]
	return float64(at) / float64(time.Second), ok
}
