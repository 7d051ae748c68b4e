package sqlread

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// DB is a primary with its replicas: a [sql.DB] whose calls go to the primary, unless
// their context comes from WithRead. Open makes one. Its methods are safe for concurrent use.
//
// Its pool's connections are routed ones, which hold nothing while they are idle: limits of
// servers' connections are [Node.MaxConns] and not SetMaxOpenConns.
type DB struct {
	*sql.DB // what sqlx, gorm and ent are given

	cfg     Config       // immutable after Open
	set     *replica.Set // immutable after Open
	primary *node        // immutable after Open
	reads   *node        // the primary's pool for reads, whose sessions cannot write; immutable after Open

	mu struct {
		sync.Mutex

		nodes   map[string]*node // by name, the primary's too
		readers map[replica.Requirement]*sql.DB
		closed  bool
	}
}

// Open makes the pools and starts the samplers, and waits until each node was sampled
// once or failed to be, which takes at most two sample timeouts: the primary's sample,
// then the replicas' at once. It succeeds with any number of nodes down, the primary too:
// what needs a server to be seen is its node's condition, in replica.ErrNoReplica and in
// Set().Stats(). Its error names every fault of cfg, or is ctx's own.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg.Replicas = slices.Clone(cfg.Replicas)
	cfg.withDefaults()
	if err := cfg.faults(); err != nil {
		return nil, err
	}
	db := &DB{cfg: cfg}
	db.primary = db.newNode(cfg.Primary, writes)
	reads := cfg.Primary
	reads.Connector = cfg.PrimaryReads
	db.reads = db.newNode(reads, readsPrimary)
	db.mu.nodes = map[string]*node{db.primary.Name: db.primary}
	db.mu.readers = make(map[replica.Requirement]*sql.DB)
	rc := replica.Config{Primary: db.primary.watch(), Settings: cfg.Settings, Classify: classify, Observer: cfg.Observer}
	for _, r := range cfg.Replicas {
		n := db.newNode(r, replicates)
		db.mu.nodes[r.Name] = n
		rc.Replicas = append(rc.Replicas, n.watch())
	}
	var err error
	if db.set, err = replica.NewSet(rc); err != nil { //nolint:contextcheck // a Set outlives the call that makes it
		db.closePools()
		return nil, err
	}
	for _, n := range db.mu.nodes {
		n.joined.Store(true)
	}
	db.DB = (&front{db: db, closed: db.shutDown}).open()
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	return db, nil
}

// ready waits for the first samples; a Set that was not ready in time shows that itself.
func (db *DB) ready(ctx context.Context) error {
	const slack = 500 * time.Millisecond
	bounded, cancel := context.WithTimeout(ctx, 2*db.set.Settings().SampleTimeout+slack)
	defer cancel()
	if db.set.Ready(bounded) != nil && ctx.Err() != nil {
		return errors.Join(ctx.Err(), db.Close())
	}
	return nil
}

// Reader returns a pool whose calls are reads that ask req of their node. Its transactions
// are read-only; a write in it fails with ErrWriteInRead. It is one pool for each
// requirement, made at the first call and closed with the DB: where requirements vary, WithRead
// costs less, and a position is best in the context (replica.WithPosition), since no two are alike. Once the DB is closed its calls fail with replica.ErrClosed.
//
// With req.PrimaryOnly its calls run in the primary's pool for reads (Config.PrimaryReads).
func (db *DB) Reader(req replica.Requirement) *sql.DB {
	db.mu.Lock()
	defer db.mu.Unlock()
	if r := db.mu.readers[req]; r != nil {
		return r
	}
	r := (&front{db: db, reader: true, req: req, closed: func() { db.forget(req) }}).open()
	db.mu.readers[req] = r
	return r
}

func (db *DB) forget(req replica.Requirement) {
	db.mu.Lock()
	defer db.mu.Unlock()
	delete(db.mu.readers, req)
}

// shutDown follows the close of the DB's own pool, by whoever has it.
func (db *DB) shutDown() {
	for _, r := range db.closing() {
		_ = r.Close() // routed connections cannot fail to close
	}
	db.set.Close()
	db.closePools()
}

func (db *DB) closing() []*sql.DB {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.mu.closed = true
	return slices.Collect(maps.Values(db.mu.readers))
}

func (db *DB) closePools() {
	var wg sync.WaitGroup
	pools := []*node{db.reads}
	for _, n := range db.snapshot() {
		pools = append(pools, n)
	}
	for _, n := range pools {
		wg.Go(func() { _ = n.pool.Close() }) // what a driver's goodbye meets is nobody's concern any more
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

// PoolStats are those of the pool of the node called name; the zero value if there is none.
func (db *DB) PoolStats(name string) sql.DBStats {
	db.mu.Lock()
	defer db.mu.Unlock()
	if n := db.mu.nodes[name]; n != nil {
		return n.pool.Stats()
	}
	return sql.DBStats{}
}

// AddReplica adds a replica while running. It takes reads once it has been sampled.
// Its errors are those of Open.
func (db *DB) AddReplica(r Node) error {
	if err := r.fault("replica " + r.Name); err != nil {
		return err
	}
	n := db.newNode(r, replicates)
	if err := db.join(n); err != nil {
		return errors.Join(err, n.pool.Close())
	}
	return nil
}

// join has the Set watch n, if its name is free.
func (db *DB) join(n *node) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.mu.closed:
		return replica.ErrClosed
	case db.mu.nodes[n.Name] != nil:
		return fmt.Errorf("sqlread: there is a node called %q already: give every node a name of its own", n.Name)
	}
	if err := db.set.Add(n.watch()); err != nil {
		return err
	}
	n.joined.Store(true)
	db.mu.nodes[n.Name] = n
	return nil
}

// RemoveReplica takes a replica out: no read is sent to it any more; those in flight,
// transactions too, end as they would have.
func (db *DB) RemoveReplica(name string) error {
	n, err := db.detach(name)
	if err != nil {
		return err
	}
	n.left.Store(true)
	return errors.Join(db.set.Remove(name), n.pool.Close())
}

func (db *DB) detach(name string) (*node, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	n := db.mu.nodes[name]
	if n == nil || n == db.primary {
		return nil, fmt.Errorf("sqlread: there is no replica called %q", name)
	}
	delete(db.mu.nodes, name)
	return n, nil
}
