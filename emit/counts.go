package emit

import (
	"sync/atomic"

	"github.com/breakwater-go/breakwater/breaker"
)

// counts is what became of a lane's triggers. What is stored is not counted but follows: it was diverted, and did not leave.
type counts struct {
	arrived   atomic.Uint64 // emits that had their turn, for the pace
	received  atomic.Uint64 // the same of hand-overs, and of emits that went behind another of their key
	delivered atomic.Uint64 // live
	degraded  atomic.Uint64
	diverted  atomic.Uint64 // to the store, before it answers; and what was found in it
	shed      atomic.Uint64 // by the store at once
	unstored  atomic.Uint64 // what it refused
	refused   atomic.Uint64 // not taken in
	evicted   atomic.Uint64
	discarded atomic.Uint64
	replayed  atomic.Uint64
	parked    atomic.Uint64
	reasons   [reasonCount]atomic.Uint64
}

const reasonCount = 10

// reasons are those that are counted.
func reasons() [reasonCount]Reason {
	return [...]Reason{
		ReasonOpen, ReasonForcedOpen, ReasonBulkhead, ReasonTimeout, ReasonFailed,
		ReasonBehind, ReasonShutdown, ReasonRejected, ReasonPoison, ReasonReceived,
	}
}

func (c *counts) by(why Reason) *atomic.Uint64 {
	for i, r := range reasons() {
		if r == why {
			return &c.reasons[i]
		}
	}
	return new(atomic.Uint64)
}

// Stats is a snapshot of a Router.
type Stats struct {
	// Consumers are in the order of Config.Consumers.
	Consumers []ConsumerStats
	// Absent are the letters of consumers that are in no Config, by name: nobody delivers them until one of that name is added. Those that
	// are just ending are among them. Router.Letters and Router.Discard know them too. Stores that no Config of this Router named are not looked into.
	Absent map[string]Depth
}

// ConsumerStats is a snapshot of a lane. Emitted = Delivered + Stored + Shed + Refused in each of them (REQ-E14):
// a letter that is evicted or discarded moves from Stored to Shed, one that is replayed to Delivered. A trigger is
// counted once its outcome is known; one that is on its way into the store as Stored, until the store refuses it. The counters are read one after the
// other, so that under traffic Stored may be ahead of Depth by what went meanwhile. But for Stored, counters only grow, from New on; what a durable store held then is in Emitted and in Stored.
type ConsumerStats struct {
	Name      string
	Emitted   uint64
	Delivered uint64 // live, degraded and replayed
	Stored    uint64
	Shed      uint64 // at once, evicted and discarded
	Refused   uint64

	Degraded  uint64 // of Delivered
	Replayed  uint64 // of Delivered
	Evicted   uint64 // of Shed
	Discarded uint64 // of Shed
	Parked    uint64 // so far; Depth.Parked are those that still are
	// Reasons counts triggers that were stored, by why.
	Reasons map[Reason]uint64

	// Took is how long Emit and HandOver took for this consumer, deliveries and diverts alike.
	Took Histogram

	InFlight int           // deliveries, replays too
	Breaker  breaker.Stats // its Openings are the lane's trips
	Depth    Depth         // of the store
}

// stats reads what leaves the store before what enters it, so that Stored is never below what it is.
func (s *state) stats() ConsumerStats {
	c := &s.count
	x := ConsumerStats{
		Name: s.name, Replayed: c.replayed.Load(), Evicted: c.evicted.Load(), Discarded: c.discarded.Load(), Parked: c.parked.Load(),
		Took: s.took.read(), Degraded: c.degraded.Load(), Reasons: map[Reason]uint64{},
		InFlight: s.bulkhead.Stats().InFlight, Breaker: s.breaker.Stats(), Depth: s.store.Depths()[s.name],
	}
	shed, unstored := c.shed.Load(), c.unstored.Load()
	left := shed + unstored + x.Evicted + x.Discarded + x.Replayed // more than was diverted if a store failed and stored all the same
	x.Stored = max(left, c.diverted.Load()) - left
	x.Shed = shed + x.Evicted + x.Discarded
	x.Refused = unstored + c.refused.Load()
	x.Delivered = c.delivered.Load() + x.Degraded + x.Replayed
	x.Emitted = x.Delivered + x.Stored + x.Shed + x.Refused
	for i, why := range reasons() {
		if n := c.reasons[i].Load(); n > 0 {
			x.Reasons[why] = n
		}
	}
	return x
}
