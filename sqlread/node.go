package sqlread

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// readOnlyInstanceSQL asks which server a connection leads to, and makes its session read-only.
const readOnlyInstanceSQL = postgres.InstanceSQL + ", set_config('default_transaction_read_only', 'on', false)"

// role is what a pool is for.
type role int

const (
	writes       role = iota // the primary's own
	readsPrimary             // the primary's for reads
	replicates               // a replica's
)

// node is a server with its pool. It is the Target of its choices, and the connector of
// its pool.
type node struct {
	Node // immutable

	db   *DB
	role role
	pool *sql.DB

	// epoch grows when the node is fenced: connections of an earlier one are not used again.
	epoch atomic.Uint64
	// joined is set once the Set watches the node; until then nothing is known that
	// would forbid to connect.
	joined atomic.Bool
	// left is set when the node was removed: an error of its pool is then nobody's fault.
	left atomic.Bool
}

// newNode makes the pool, which connects to nobody yet.
func (db *DB) newNode(cfg Node, r role) *node {
	cfg.withDefaults()
	n := &node{Node: cfg, db: db, role: r}
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
	if n.role == replicates {
		rn.Probe, rn.Fence = n.probe, n.fence
	}
	return rn
}

// Connect makes a connection of the pool (REQ-R7).
func (n *node) Connect(ctx context.Context) (driver.Conn, error) {
	if !isCheck(ctx) && !n.admits(ctx) {
		return nil, route.ErrFenced
	}
	reached(ctx, stageConnect)
	ctx, cancel := context.WithTimeout(ctx, n.db.cfg.ConnectTimeout)
	defer cancel()
	l, err := within(ctx, n.dial)
	if err != nil && postgres.SQLState(err) == "" && !errors.Is(err, route.ErrOtherServer) {
		err = fmt.Errorf("%w to %s: %w", errConnect, n.Name, err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// dial makes a connection and sees to it that it leads to the right server.
func (n *node) dial(ctx context.Context) (*link, error) {
	epoch := n.epoch.Load()
	l, err := n.open(ctx, n.Connector, epoch)
	if err != nil || n.role == writes {
		return l, err
	}
	if err := n.confirm(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (n *node) open(ctx context.Context, c driver.Connector, epoch uint64) (*link, error) {
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	l, err := newLink(n, epoch, conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return l, nil
}

// Driver is the one of the connector.
func (n *node) Driver() driver.Driver { return n.Connector.Driver() }

// confirm makes the session of a new connection read-only, and lets it into the pool of a replica if it leads to the
// server that the sampler sees: positions that were sampled say nothing about another one.
func (n *node) confirm(ctx context.Context, l *link) error {
	instance, err := l.instance(ctx)
	if err == nil && n.role == replicates && n.joined.Load() && !n.db.set.Confirm(n.Name, instance) {
		return route.ErrOtherServer
	}
	return err
}

// instance asks for the server that the connection leads to.
func (l *link) instance(ctx context.Context) (string, error) {
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

// admits tells whether a request may make a connection to n: while lag keeps it open, a read that
// accepts a late replica.
func (n *node) admits(ctx context.Context) bool {
	if n.role != replicates || !n.joined.Load() {
		return true
	}
	if c, ok := ctx.Value(callKey{}).(*call); ok && c.late {
		return n.db.set.AdmitsLate(n.Name)
	}
	return n.db.set.Admits(n.Name)
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
	err := c.attempt(&pinging{})
	return c.outcome(err), c.finish(err)
}

// within has dial make a connection, and is not held up by a driver that does not end with ctx.
// A panic of the driver is an error, since it is not on the caller's goroutine.
func within(ctx context.Context, dial func(context.Context) (*link, error)) (*link, error) {
	type result struct {
		link *link
		err  error
	}
	made := make(chan result)
	go func() {
		l, err := recovered(ctx, dial)
		select {
		case made <- result{l, err}:
		case <-ctx.Done():
			if l != nil {
				_ = l.Close() // nobody waits for it any more
			}
		}
	}()
	select {
	case r := <-made:
		return r.link, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func recovered(ctx context.Context, dial func(context.Context) (*link, error)) (l *link, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sqlread: the driver panicked when it connected: %v", p)
		}
	}()
	return dial(ctx)
}

type checkKey struct{}

// asCheck marks ctx as Breakwater's own: its connections pass the guard.
func asCheck(ctx context.Context) context.Context {
	return context.WithValue(ctx, checkKey{}, true)
}

func isCheck(ctx context.Context) bool { return ctx.Value(checkKey{}) != nil }
