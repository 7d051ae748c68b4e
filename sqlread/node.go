package sqlread

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// readOnlyInstanceSQL asks which server a connection leads to, and makes its session read-only.
const readOnlyInstanceSQL = postgres.InstanceSQL + ", set_config('default_transaction_read_only', 'on', false)"

// node is a server with its pool. It is the Target of its choices, and the connector of
// its pool.
type node struct {
	Node // immutable

	db      *DB
	primary bool
	pool    *sql.DB

	// epoch grows when the node is fenced: connections of an earlier one are not used again.
	epoch atomic.Uint64
	// joined is set once the Set watches the node; until then nothing is known that
	// would forbid to connect.
	joined atomic.Bool
	// left is set when the node was removed: an error of its pool is then nobody's fault.
	left atomic.Bool
}

// newNode makes the pool, which connects to nobody yet.
func (db *DB) newNode(cfg Node, primary bool) *node {
	cfg.withDefaults()
	n := &node{Node: cfg, db: db, primary: primary}
	n.pool = sql.OpenDB(n)
	n.pool.SetMaxOpenConns(n.MaxConns)
	n.pool.SetMaxIdleConns(n.MaxConns)
	n.pool.SetConnMaxLifetime(max(db.cfg.MaxConnLifetime, 0))
	n.pool.SetConnMaxIdleTime(max(db.cfg.MaxConnIdleTime, 0))
	return n
}

// watch is how the Set sees the node.
func (n *node) watch() replica.Node {
	rn := replica.Node{Name: n.Name, Target: n, Connect: n.sample, MaxInFlight: n.MaxConns}
	if !n.primary {
		rn.Probe, rn.Fence = n.probe, n.fence
	}
	return rn
}

// Connect makes a connection of the pool (REQ-R7).
func (n *node) Connect(ctx context.Context) (driver.Conn, error) {
	if !isCheck(ctx) && !n.admits() {
		return nil, errFenced
	}
	reached(ctx, stageConnect)
	ctx, cancel := context.WithTimeout(ctx, n.db.cfg.ConnectTimeout)
	defer cancel()
	epoch := n.epoch.Load()
	c, err := connect(ctx, n.Connector)
	if err != nil {
		return nil, fmt.Errorf("%w to %s: %w", errConnect, n.Name, err)
	}
	l, err := newLink(n, epoch, c)
	if err == nil && !n.primary {
		err = n.confirm(ctx, l)
	}
	if err != nil {
		_ = c.Close() // the error says more
		return nil, err
	}
	return l, nil
}

// Driver is the one of the connector.
func (n *node) Driver() driver.Driver { return n.Connector.Driver() }

// confirm lets a new connection into the pool of a replica if it leads to the server that the
// sampler sees: positions that were sampled say nothing about another one.
func (n *node) confirm(ctx context.Context, l *link) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // for a driver that does not look at ctx
	instance, err := n.instance(ctx, l)
	switch {
	case !stop() && err != nil:
		return fmt.Errorf("%w to %s: no answer within %v: %w", errConnect, n.Name, n.db.cfg.ConnectTimeout, err)
	case err != nil:
		return err
	case n.joined.Load() && !n.db.set.Confirm(n.Name, instance):
		return errOtherServer
	}
	return nil
}

func (*node) instance(ctx context.Context, l *link) (string, error) {
	rows, err := l.query(ctx, text{sql: readOnlyInstanceSQL})
	if err != nil {
		return "", err
	}
	row := make([]driver.Value, len(rows.Columns()))
	err = rows.Next(row)
	if e := rows.Close(); err == nil {
		err = e
	}
	switch v := row[0].(type) {
	case string:
		return v, err
	case []byte:
		return string(v), err
	}
	return "", err
}

// admits tells whether a request may make a connection to n.
func (n *node) admits() bool {
	return n.primary || !n.joined.Load() || n.db.set.Admits(n.Name)
}

// fence closes the idle connections, in a goroutine of its own since drivers may wait for
// their server to hear it, and has those in use closed when they come back.
func (n *node) fence() {
	n.epoch.Add(1)
	go func() {
		n.pool.SetMaxIdleConns(-1)
		n.pool.SetMaxIdleConns(n.MaxConns)
	}()
}

// probe makes the trivial read that re-admits a replica; its connection stays in the
// pool for the reads that follow (REQ-R9). It is judged as any call is: a pool that is
// exhausted says nothing about its node.
func (n *node) probe(ctx context.Context) (breaker.Outcome, error) {
	timeout := n.db.cfg.CallTimeout
	if timeout <= 0 {
		timeout = defaultCallTimeout // a probe never waits for ever
	}
	s := &session{node: n}
	defer s.release()
	c := s.call(asCheck(ctx), timeout, time.Now())
	err := c.attempt(&pinging{}) //nolint:contextcheck // the call has ctx
	return c.outcome(err), c.finish(err)
}

// connect has the driver connect, and is not held up by one that does not end with ctx.
func connect(ctx context.Context, connector driver.Connector) (driver.Conn, error) {
	type result struct {
		conn driver.Conn
		err  error
	}
	made := make(chan result)
	go func() {
		r := result{err: errPanicked}
		defer func() {
			select {
			case made <- r:
			case <-ctx.Done():
				if r.conn != nil {
					_ = r.conn.Close() // nobody waits for it any more
				}
			}
		}()
		r.conn, r.err = connector.Connect(ctx)
	}()
	select {
	case r := <-made:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type checkKey struct{}

// asCheck marks ctx as Breakwater's own: its connections pass the guard.
func asCheck(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkKey{}, true)
}

func isCheck(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }
