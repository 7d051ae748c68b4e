// Package simfleet is a simulated fleet: a primary and its replicas that speak
// PostgreSQL's wire protocol on loopback and answer a closed set of statements, so
// that the same library code runs where there is no PostgreSQL. It stores one
// counter and one WAL position a node. It proves nothing about PostgreSQL, and its
// version says so: "simulated".
//
// # Concurrency
//
// All methods of Fleet may be called from any goroutine. Close waits for every
// goroutine of the fleet.
package simfleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/internal/relay"
)

const (
	segmentSize = 16 << 20
	recordSize  = 184             // what one commit of the counter adds to the WAL
	headerSize  = 40              // counted by the insert position at a segment's start
	restartWait = 5 * time.Second // for the port, should another process hold it for a moment
)

// Fleet is a simulated primary with replicas. Make one with Start.
type Fleet struct {
	wg    sync.WaitGroup
	nodes []*node // immutable; the primary first

	mu struct {
		sync.Mutex
		closed bool
		writes state    // what the primary has committed
		past   []commit // the newest of it, oldest first, for replicas that replay late
	}
}

// state is what a node holds: the counter's value and the WAL position.
type state struct {
	n   int64
	pos uint64
}

// commit is what the primary held from an instant on.
type commit struct {
	at time.Time
	state
}

// maxPast bounds what is remembered of the past: 10 minutes of 50 commits a second, and twice that before it is cut.
const maxPast = 30_000

type node struct {
	fleet   *Fleet
	name    string // immutable
	primary bool   // immutable
	addr    string // immutable

	// guarded by fleet.mu
	ln       net.Listener // nil: not running
	started  time.Time
	received state // what came over the link
	replayed state
	paused   bool
	delay    time.Duration // of replay, from the commit on
	link     relay.Mode
	thawed   chan struct{} // not nil while frozen; closed at the thaw
	conns    map[*session]struct{}
}

// Start starts a primary and so many replicas on free ports of 127.0.0.1.
func Start(ctx context.Context, replicas int) (*Fleet, error) {
	f := &Fleet{}
	f.mu.writes.pos = 3 * segmentSize
	for i := range replicas + 1 {
		n := &node{fleet: f, name: fmt.Sprintf("r%d", i), primary: i == 0, addr: "127.0.0.1:0"}
		if n.primary {
			n.name = "primary"
		}
		f.nodes = append(f.nodes, n)
		if err := n.listen(ctx); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		n.addr = n.ln.Addr().String()
	}
	return f, nil
}

// Version is "simulated", wherever a real fleet says "postgres 15.18".
func (f *Fleet) Version() string { return "simulated" }

// Nodes lists the primary, then the replicas.
func (f *Fleet) Nodes() []lab.Node {
	nodes := make([]lab.Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		dsn := "postgres://breakwater@" + n.addr + "/lab?sslmode=disable"
		nodes = append(nodes, lab.Node{Name: n.name, DSN: dsn, AdminDSN: dsn})
	}
	return nodes
}

// Close ends every node and waits for its goroutines. It may be called again.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.mu.closed = true
	for _, n := range f.nodes {
		n.killLocked()
	}
	f.mu.Unlock()
	f.wg.Wait()
	return nil
}

// Pause pauses replay on a replica.
func (f *Fleet) Pause(_ context.Context, name string) error {
	return f.change(name, func(n *node) { n.paused = true })
}

// Resume undoes Pause.
func (f *Fleet) Resume(_ context.Context, name string) error {
	return f.change(name, func(n *node) { n.paused = false })
}

// CutLink cuts a replica from its primary: Refuse ends its receiver, Blackhole
// leaves it waiting for what never comes.
func (f *Fleet) CutLink(name string, mode relay.Mode) error {
	return f.change(name, func(n *node) { n.link = mode })
}

// HealLink undoes CutLink.
func (f *Fleet) HealLink(name string) error {
	return f.CutLink(name, relay.Pass)
}

// Freeze lets a node accept connections and answer nothing.
func (f *Fleet) Freeze(name string) error {
	return f.change(name, func(n *node) {
		if n.thawed == nil {
			n.thawed = make(chan struct{})
		}
	})
}

// Thaw undoes Freeze; what waited is answered.
func (f *Fleet) Thaw(name string) error {
	return f.change(name, (*node).thawLocked)
}

// Kill ends a node: its connections break and new ones are refused.
func (f *Fleet) Kill(name string) error {
	return f.change(name, (*node).killLocked)
}

// SetApplyDelay makes a replica replay each commit so long after it was made, 0 for at once.
func (f *Fleet) SetApplyDelay(_ context.Context, name string, d time.Duration) error {
	return f.change(name, func(n *node) { n.delay = d })
}

// Restart starts a killed node on its port again.
func (f *Fleet) Restart(ctx context.Context, name string) error {
	n, err := f.find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, restartWait)
	defer cancel()
	for {
		if err = n.listen(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// SwitchSegment ends the primary's WAL segment: the insert position then counts a
// header that no record has filled, as PostgreSQL's does.
func (f *Fleet) SwitchSegment(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.writes.pos = (f.mu.writes.pos/segmentSize + 1) * segmentSize
	return nil
}

// Heal undoes every fault.
func (f *Fleet) Heal(ctx context.Context) error {
	var faults []error
	for _, n := range f.nodes {
		faults = append(faults, f.change(n.name, func(n *node) {
			n.paused, n.delay, n.link = false, 0, relay.Pass
			n.thawLocked()
		}), f.Restart(ctx, n.name))
	}
	return errors.Join(faults...)
}

func (f *Fleet) find(name string) (*node, error) {
	for _, n := range f.nodes {
		if n.name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("simfleet: no node %q", name)
}

// change brings a node up to date under its old state, then changes that.
func (f *Fleet) change(name string, do func(*node)) error {
	n, err := f.find(name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.catchUpLocked()
	do(n)
	return nil
}

// catchUpLocked replicates what the node would have got by now: replication takes
// no time while nothing stands in its way.
func (n *node) catchUpLocked() {
	if n.ln == nil || n.thawed != nil {
		return
	}
	if n.link == relay.Pass || n.primary {
		n.received = n.fleet.mu.writes
	}
	if n.paused && !n.primary {
		return
	}
	due := n.received
	if n.delay > 0 {
		due = n.fleet.beforeLocked(time.Now().Add(-n.delay))
	}
	if n.delay == 0 || due.pos > n.replayed.pos { // a delay that has grown takes nothing back
		n.replayed = state{min(due.n, n.received.n), min(due.pos, n.received.pos)}
	}
}

// committedLocked notes what the primary holds from now on.
func (f *Fleet) committedLocked(s state) {
	f.mu.writes = s
	f.mu.past = append(f.mu.past, commit{time.Now(), s})
	if len(f.mu.past) > 2*maxPast {
		f.mu.past = slices.Clone(f.mu.past[maxPast:])
	}
}

// beforeLocked is what the primary held at an instant, as far as it is remembered.
func (f *Fleet) beforeLocked(t time.Time) state {
	i := sort.Search(len(f.mu.past), func(i int) bool { return f.mu.past[i].at.After(t) })
	if i == 0 {
		return state{}
	}
	return f.mu.past[i-1].state
}

func (n *node) thawLocked() {
	if n.thawed != nil {
		close(n.thawed)
		n.thawed = nil
	}
}

func (n *node) killLocked() {
	if n.ln == nil {
		return
	}
	_ = n.ln.Close()
	n.ln, n.paused = nil, false // a pause of replay does not survive the server
	for s := range n.conns {
		s.end()
	}
	n.thawLocked()
}

// listen starts the node unless it runs; its port stays the same for life.
func (n *node) listen(ctx context.Context) error {
	f := n.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if n.ln != nil {
		return nil
	}
	if f.mu.closed {
		return errors.New("simfleet: closed")
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", n.addr)
	if err != nil {
		return fmt.Errorf("simfleet: %s: %w", n.name, err)
	}
	n.ln, n.started, n.conns = ln, time.Now(), map[*session]struct{}{}
	f.wg.Go(func() { n.accept(ln) })
	return nil
}

func (n *node) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		s := newSession(n, conn)
		n.fleet.mu.Lock()
		if n.ln != ln {
			s.end()
		}
		n.conns[s] = struct{}{}
		n.fleet.mu.Unlock()
		n.fleet.wg.Go(s.serve)
	}
}

// receiving tells whether the replica's receiver believes that it streams: a
// swallowed link looks healthy from the replica.
func (n *node) receiving() bool { return n.link != relay.Refuse }
