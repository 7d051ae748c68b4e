// Package fleet starts a real PostgreSQL primary with streaming replicas on
// loopback, breaks them in the ways that matter to a read path, and leaves
// neither process nor directory behind: not after Close, and not after a crash,
// which the kernel and the next Start clean up after.
//
// It needs only initdb and postgres, and imports no driver: statements are run
// by a function of the caller's. docs/adr/0004-local-fleet.md says why it is
// built as it is.
//
// # Faults
//
// A fault lasts until its opposite, Heal, or Close. All are idempotent. Replay
// stops (Pause, Resume) or is late (SetApplyDelay); a replica's link to its
// upstream breaks (CutLink, HealLink) or is slow (SetLinkDelay); a server
// freezes (Freeze, Thaw), dies (Kill, Restart), is stopped in order (Stop,
// Restart) or is promoted (Promote).
//
// # Concurrency
//
// Every method may be called from any goroutine. Operations on one node wait
// for each other, operations on different nodes do not; those on links never
// wait. Close ends running operations, which then return ErrClosed.
package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	host      = "127.0.0.1"
	firstPort = 20000
	lastPort  = 32000

	appRole   = "breakwater"
	adminRole = "postgres"
	adminDB   = "postgres"
	appDB     = "lab"
)

// ErrClosed is returned by operations on a fleet that is, or is being, closed.
var ErrClosed = errors.New("fleet: closed")

// Fleet is a running primary with its replicas. Make one with Start.
type Fleet struct {
	cfg     Config   // immutable
	bin     Binaries // immutable
	account *account // immutable; nil: servers run as ourselves
	home    *home    // immutable
	nodes   []*node  // immutable: the primary, then r1, r2, …
	spawner *spawner // immutable

	adminPassword, appPassword string // immutable, made anew by every Start

	ctx    context.Context    // ends as Close begins
	cancel context.CancelFunc // immutable

	mark atomic.Int64 // the newest mark written by CatchUp

	ports struct {
		sync.Mutex
		taken map[int]bool // every port ever given to a node of ours
	}
	closing struct {
		once sync.Once
		err  error // result of Close, written by once
	}
}

// Version returns the server's version: "postgres 15.18".
func (f *Fleet) Version() string { return f.bin.Version }

// Nodes returns the primary and then the replicas, whatever state they are in.
func (f *Fleet) Nodes() []Node {
	nodes := make([]Node, 0, len(f.nodes))
	for _, n := range f.nodes {
		nodes = append(nodes, Node{
			Name: n.name, Host: host, Port: n.port, Log: n.log,
			DSN:      n.dsn(appRole, f.appPassword, appDB),
			AdminDSN: f.adminDSN(n),
		})
	}
	return nodes
}

func (f *Fleet) adminDSN(n *node) string { return n.dsn(adminRole, f.adminPassword, adminDB) }

func (f *Fleet) primary() *node { return f.nodes[0] }

func (f *Fleet) replicas() []*node { return f.nodes[1:] }

func (f *Fleet) find(name string) *node {
	i := slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == name })
	if i < 0 {
		return nil
	}
	return f.nodes[i]
}

func (f *Fleet) names(nodes []*node) string {
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.name)
	}
	return strings.Join(names, ", ")
}

// Close stops every server, whatever was done to it, waits for all processes
// and goroutines, and removes the directory. It takes bounded time and may be
// called again, also at the same time: all calls return the one result.
func (f *Fleet) Close() error {
	f.closing.once.Do(func() { f.closing.err = f.close() })
	return f.closing.err
}

func (f *Fleet) close() error {
	begin := time.Now()
	f.cancel()
	var faults faultList
	var stops sync.WaitGroup
	for _, n := range f.nodes {
		stops.Go(func() { faults.add(n.shut()) })
	}
	stops.Wait()
	f.spawner.close()
	faults.add(endServers(f.home.path)) // initdb of a start that was given up, backends whose postmaster someone else killed
	faults.add(freeSharedMemory(f.home.path))
	faults.add(f.home.remove())
	f.cfg.Log("fleet: stopped in %v", time.Since(begin).Round(time.Millisecond))
	return faults.join()
}

// shut waits for a running operation, which Close has told to end.
func (n *node) shut() error {
	n.op.Lock()
	defer n.op.Unlock()
	var faults []error
	if n.op.proc != nil {
		faults = append(faults, n.op.proc.quit())
	}
	if n.relay != nil {
		faults = append(faults, n.relay.Close())
	}
	return errors.Join(faults...)
}

// faultList gathers errors from several goroutines.
type faultList struct {
	sync.Mutex
	all []error
}

func (l *faultList) add(err error) {
	l.Lock()
	defer l.Unlock()
	l.all = append(l.all, err)
}

func (l *faultList) join() error {
	l.Lock()
	defer l.Unlock()
	return errors.Join(l.all...)
}
