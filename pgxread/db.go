package pgxread

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/replica"
)

// DB is a primary with its replicas. Open makes one. Its methods are safe for
// concurrent use.
type DB struct {
	cfg     Config       // immutable after Open
	set     *replica.Set // immutable after Open
	primary *node        // immutable after Open
	reads   *node        // the primary's pool for reads, whose sessions cannot write; immutable after Open

	mu struct {
		sync.Mutex

		nodes  map[string]*node // by name, the primary's too
		closed bool
	}
}

// Open makes the pools and starts the samplers, and waits until each node was sampled
// once or failed to be, which takes at most two sample timeouts: the primary's sample,
// then the replicas' at once. It succeeds with any
// number of nodes down, the primary too: what needs a server to be seen is its
// node's condition, in replica.ErrNoReplica and in Set().Stats(). Its error names every
// fault of cfg, or is ctx's own. No error holds a DSN.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.withDefaults()
	db := &DB{cfg: cfg}
	db.mu.nodes = make(map[string]*node)
	plans, err := db.plans()
	if err != nil {
		return nil, err
	}
	nodes, err := db.openPools(ctx, plans)
	if err == nil {
		db.set, err = replica.NewSet(replica.Config{ //nolint:contextcheck // a Set outlives the call that makes it
			Primary: nodes[0], Replicas: nodes[1:], Settings: cfg.Settings,
			Classify: classify, Observer: cfg.Observer,
		})
	}
	if err != nil {
		db.closePools()
		return nil, err
	}
	for _, n := range db.mu.nodes {
		n.joined.Store(true)
	}
	db.reads.joined.Store(true)
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return db, nil
}

// plans parses every DSN and collects all faults, those of the settings too.
func (db *DB) plans() ([]*plan, error) {
	faults := db.cfg.faults()
	plans := make([]*plan, 0, 2+len(db.cfg.Replicas))
	add := func(field string, n Node, r role) {
		p, err := db.parse(field, n, r)
		if err != nil {
			faults = append(faults, err)
		}
		plans = append(plans, p)
	}
	add("Primary", db.cfg.Primary, writes)
	for i, n := range db.cfg.Replicas {
		add(fmt.Sprintf("Replicas[%d] (%s)", i, n.Name), n, replicates)
	}
	field, reads := "Primary", Node{Name: db.cfg.Primary.Name, DSN: db.cfg.Primary.DSN}
	if db.cfg.PrimaryReadsDSN != "" {
		field, reads.DSN = "PrimaryReadsDSN", db.cfg.PrimaryReadsDSN
	}
	if db.cfg.PrimaryReadsDSN != "" || len(faults) == 0 {
		add(field, reads, readsPrimary)
	}
	if p := plans[len(plans)-1]; db.cfg.PrimaryReadsDSN == "" && len(faults) == 0 {
		p.pool.MinConns, p.pool.MinIdleConns = 0, 0 // asked for the other pool
	}
	err := errors.Join(append(faults, replica.CheckSettings(db.cfg.Settings, len(db.cfg.Replicas)))...)
	return plans, err
}

func (db *DB) openPools(ctx context.Context, plans []*plan) ([]replica.Node, error) {
	last := len(plans) - 1
	nodes := make([]replica.Node, last)
	db.primary, db.reads = plans[0].node, plans[last].node
	for i, p := range plans {
		rn, err := p.open(ctx, &db.cfg)
		if err != nil {
			return nil, fmt.Errorf("pgxread: pool of %s: %w", p.node.name, err)
		}
		if i < last {
			nodes[i], db.mu.nodes[p.node.name] = rn, p.node
		}
	}
	nodes[0].MaxInFlight = int(plans[last].pool.MaxConns) // its reads run in that pool
	return nodes, nil
}

// ready waits for the first samples; a Set that was not ready in time shows that itself.
func (db *DB) ready(ctx context.Context) error {
	const slack = 500 * time.Millisecond
	wait := 2*db.set.Settings().SampleTimeout + slack
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if db.set.Ready(bounded) != nil && ctx.Err() != nil {
		db.Close()
		return ctx.Err()
	}
	return nil
}

// Close stops the samplers and closes the pools, and waits for the connections that
// are still in use, as pgxpool does. Calls made after it fail.
func (db *DB) Close() {
	db.mu.Lock()
	db.mu.closed = true
	db.mu.Unlock()
	db.set.Close()
	db.closePools()
}

func (db *DB) closePools() {
	var wg sync.WaitGroup
	for _, n := range db.snapshot() {
		wg.Go(n.pool.Close)
	}
	if db.reads != nil && db.reads.pool != nil {
		wg.Go(db.reads.pool.Close)
	}
	wg.Wait()
}

func (db *DB) snapshot() map[string]*node {
	db.mu.Lock()
	defer db.mu.Unlock()
	return maps.Clone(db.mu.nodes)
}

// Set is what watches the replicas: for its Stats, to force a breaker, to change
// settings.
func (db *DB) Set() *replica.Set { return db.set }

// Pool is the pool of the node called name, nil if there is none. What is done
// through it is not watched: its failures count for nobody, its timeouts are its caller's. A
// replica's pool still refuses to connect for it while the replica's breaker is not closed.
func (db *DB) Pool(name string) *pgxpool.Pool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if n := db.mu.nodes[name]; n != nil {
		return n.pool
	}
	return nil
}

// AddReplica adds a replica while running. It takes reads once it has been sampled.
// Its errors are those of Open.
func (db *DB) AddReplica(n Node) error {
	p, err := db.parse("replica "+n.Name, n, replicates)
	if n.Name == "" {
		err = errors.Join(errors.New("pgxread: the replica's Name is empty: give every replica a name of its own"), err)
	}
	if err != nil {
		return err
	}
	rn, err := p.open(context.Background(), &db.cfg)
	if err != nil {
		return fmt.Errorf("pgxread: pool of %s: %w", n.Name, err)
	}
	if err := db.join(p.node, rn); err != nil {
		p.node.pool.Close()
		return err
	}
	return nil
}

// join has the Set watch n, if its name is free.
func (db *DB) join(n *node, rn replica.Node) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.mu.closed:
		return replica.ErrClosed
	case db.mu.nodes[n.name] != nil:
		return fmt.Errorf("pgxread: there is a node called %q already: give every node a name of its own", n.name)
	}
	if err := db.set.Add(rn); err != nil {
		return err
	}
	n.joined.Store(true)
	db.mu.nodes[n.name] = n
	return nil
}

// RemoveReplica takes a replica out: no read is sent to it any more, and those in
// flight are waited for, transactions too.
func (db *DB) RemoveReplica(name string) error {
	db.mu.Lock()
	n := db.mu.nodes[name]
	if n == nil || n == db.primary {
		db.mu.Unlock()
		return fmt.Errorf("pgxread: there is no replica called %q", name)
	}
	delete(db.mu.nodes, name)
	db.mu.Unlock()
	n.left.Store(true)
	err := db.set.Remove(name)
	n.pool.Close()
	return err
}
