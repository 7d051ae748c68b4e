package replica

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// node is a server with its sampler's state.
type node struct {
	Node // immutable

	set     *Set             // immutable
	breaker *breaker.Breaker // immutable; nil for the primary: no lag rule ever opens it

	view  atomic.Pointer[view] // written under set.looks; read by picks
	reads atomic.Int64         // bits 0–31: reads admitted and not done; 32–63: reads done, modulo 2^32
	ramp  atomic.Int64         // when the slow start began, 0: none
	// shunned is the instant before which no late read is sent here.
	shunned atomic.Int64

	demand  demand
	first   chan struct{}      // closed after the first sample or its failure
	cancel  context.CancelFunc // ends the sampler
	stopped chan struct{}      // closed when the sampler has ended

	last lastLook // guarded by set.looks

	// Used by the sampler only.
	conn      Conn
	failures  int       // failed samples in a row
	announced Condition // the condition last told to the observer
	asked     int64     // of the primary: when it was last asked to flush

	// Used by the primary's sampler only, for this node.
	stall struct {
		busy     bool
		finished uint32
	}
}

// lastLook is a node's newest sample.
type lastLook struct {
	looked
	ok        bool // a look has succeeded and nothing has voided it
	err       error
	timeline  uint32  // last one that a receiver told, for this Instance
	pace      float64 // bytes replayed in a nanosecond between the two newest looks
	caughtUp  int     // samples in a row that were not behind
	doubt     bool
	elsewhere bool // a connection led to another Instance since
	unproven  bool // the primary's position went back since it was last compared
	diverged  bool // it held more than the primary did later
}

// looked is a look with the instants between which it was taken.
type looked struct {
	Look
	sent, recv int64
}

// endRead turns a read in flight into one done, in one addition to node.reads.
const endRead = 1<<32 - 1

func (n *node) inFlight() int { return int(int32(n.reads.Load())) }

func (n *node) finished() uint32 { return uint32(n.reads.Load() >> 32) }

func newNode(s *Set, n Node) *node {
	return &node{
		Node: n, set: s, first: make(chan struct{}), stopped: make(chan struct{}),
		demand: demand{wake: make(chan struct{}, 1)}, announced: NoSample, asked: never,
	}
}

// onTransition keeps the node in step with its breaker.
func (n *node) onTransition(t breaker.Transition) {
	switch t.To {
	case breaker.Open, breaker.ForcedOpen:
		n.fence()
	case breaker.HalfOpen:
		n.ramp.Store(math.MaxInt64) // no read slips in at a full share before the ramp begins
		n.demand.nudge()
	case breaker.Closed, breaker.ForcedClosed, breaker.Disabled:
		n.ramp.Store(n.set.now() + 1)
	}
	tell(n, "OnTransition", n.set.observer.OnTransition, t)
}

func (n *node) fence() {
	if n.Fence != nil {
		tell(n, "Fence", func(*node) { n.Fence() }, n)
	}
}

// admits tells whether the breaker lets reads pass now.
func (n *node) admits() bool {
	if n.breaker == nil {
		return true
	}
	switch n.breaker.State() {
	case breaker.Closed, breaker.ForcedClosed, breaker.Disabled:
		return true
	case breaker.Open, breaker.HalfOpen, breaker.ForcedOpen:
	}
	return false
}

// share is the node's part of its full share of traffic: less in a slow start, and
// while its WAL receiver is down, since the next commit will make it late.
func (n *node) share(v *view, s *Settings, now int64) float64 {
	share := 1.0
	if since := n.ramp.Load(); since != 0 {
		if share = s.weight(since, now); share == 1 {
			n.ramp.CompareAndSwap(since, 0)
		}
	}
	if v.down {
		share = min(share, s.RampFrom)
	}
	return share
}

// panicked reports a panic in a part that is not the caller's read, and returns it as an error.
func (n *node) panicked(part string, p any) error {
	if f := n.set.observer.OnFault; f != nil {
		defer func() { _ = recover() }() // who panics on a report cannot be told of it
		f(breaker.Fault{Name: n.Name, At: time.Now(), Part: part, Panic: p})
	}
	return fmt.Errorf("replica: %s of %q panicked: %v", part, n.Name, p)
}

// tell calls an observer function; a panic in it is reported and harms nothing (REQ-B18).
func tell[E any](n *node, part string, f func(E), event E) {
	if f == nil || n.set.ctx.Err() != nil { // timers of breakers outlive a closed Set
		return
	}
	defer func() {
		if p := recover(); p != nil {
			_ = n.panicked(part, p)
		}
	}()
	f(event)
}

// spread varies an interval, so that samplers do not keep step.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 - jitter + 2*jitter*rand.Float64()))
}
