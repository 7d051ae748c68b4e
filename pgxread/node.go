package pgxread

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// node is a server with its pool. It is the Target of its choices.
type node struct {
	name string
	db   *DB
	pool *pgxpool.Pool
	// clock times the calls on it.
	clock clock
	// joined is set once the Set watches the node; until then nothing is known that
	// would forbid to connect.
	joined atomic.Bool
	// left is set when the node was removed: an error of its pool is then nobody's fault.
	left atomic.Bool
}

// role is what a pool is for.
type role int

const (
	writes       role = iota // the primary's: writes, and what may be one
	readsPrimary             // the primary's, for reads: its sessions cannot write
	replicates               // a replica's
)

// plan is a node whose DSNs have been parsed.
type plan struct {
	node    *node
	role    role
	pool    *pgxpool.Config
	sampler *pgx.ConnConfig // nil: as the pool
}

// parse turns the strings of n into a plan; field is its place in the Config.
func (db *DB) parse(field string, n Node, r role) (*plan, error) {
	pool, err := parsePool(field+".DSN", n.DSN)
	if err != nil {
		return nil, err
	}
	p := &plan{node: &node{name: n.Name, db: db}, role: r, pool: pool}
	p.node.clock.limit = db.cfg.CallTimeout
	if n.SampleDSN != "" {
		if p.sampler, err = parseConn(field+".SampleDSN", n.SampleDSN); err != nil {
			return nil, err
		}
	}
	if r == replicates && several(pool.ConnConfig) {
		return nil, fmt.Errorf("pgxread: %s.DSN names more than one server: give each replica a node of its own, whose staleness can then be known", field)
	}
	if r != writes {
		pool.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	return p, nil
}

// several tells whether a DSN names more than one server.
func several(c *pgx.ConnConfig) bool {
	return slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != c.Host || f.Port != c.Port })
}

// open makes the pool, which connects to nobody yet unless it is told to keep a minimum.
func (p *plan) open(ctx context.Context, cfg *Config) (replica.Node, error) {
	n, c := p.node, p.pool
	c.ConnConfig.ConnectTimeout = cfg.ConnectTimeout
	c.PingTimeout = orDefault(c.PingTimeout, cfg.ConnectTimeout)
	if cfg.Configure != nil {
		cfg.Configure(n.name, c)
	}
	connect := n.connector(p.sampler, c)
	n.hook(c)
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
	if err != nil {
		return replica.Node{}, err
	}
	n.pool = pool
	rn := replica.Node{Name: n.name, Target: n, Connect: connect, MaxInFlight: int(c.MaxConns)}
	if p.role == replicates {
		rn.Probe, rn.Fence = n.probe, pool.Reset
	}
	return rn, nil
}

// hook puts our hooks around those that are set.
func (n *node) hook(c *pgxpool.Config) {
	before, ping := c.BeforeConnect, c.ShouldPing
	c.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
		admits := n.admitsCall(ctx)
		if !IsCheck(ctx) && !admits() {
			return route.ErrFenced
		}
		reached(ctx, stageConnect)
		if before != nil {
			if err := before(ctx, cc); err != nil {
				return err
			}
		}
		guard(ctx, cc, admits)
		return nil
	}
	c.AfterConnect = n.confirmed(c.AfterConnect, c.ConnConfig.ConnectTimeout)
	c.ShouldPing = func(ctx context.Context, p pgxpool.ShouldPingParams) bool {
		should := p.IdleDuration > time.Second
		if ping != nil {
			should = ping(ctx, p)
		}
		if should {
			reached(ctx, stagePing)
		}
		return should
	}
}

// confirmed lets a new connection into the pool if it leads to the server that the
// node's sampler sees: positions that were sampled say nothing about another one that
// was started in its place, or answers at the same address.
func (n *node) confirmed(after func(context.Context, *pgx.Conn) error, limit time.Duration) func(context.Context, *pgx.Conn) error {
	return func(ctx context.Context, conn *pgx.Conn) error {
		if n.joined.Load() {
			if err := n.confirm(ctx, conn, limit); err != nil {
				return err
			}
		}
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}

func (n *node) confirm(ctx context.Context, conn *pgx.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(asCheck(ctx), limit)
	defer cancel()
	var instance string
	err := conn.QueryRow(ctx, postgres.InstanceSQL, pgx.QueryExecModeSimpleProtocol).Scan(&instance)
	switch {
	case ctx.Err() != nil && err != nil: // as a connect that takes too long
		return fmt.Errorf("%w: %w", errNoConfirm, err)
	case err == nil && !n.db.set.Confirm(n.name, instance):
		return route.ErrOtherServer
	}
	return err
}

// admits tells whether a request may make a connection to n.
func (n *node) admits() bool {
	return !n.joined.Load() || n.db.set.Admits(n.name)
}

// admitsLate is admits for a read that accepts a late replica.
func (n *node) admitsLate() bool {
	return !n.joined.Load() || n.db.set.AdmitsLate(n.name)
}

// probe makes the trivial read that re-admits a replica; its connection stays in the
// pool for the reads that follow (REQ-R9). It is judged as any call is: a pool that is
// exhausted says nothing about its node.
func (n *node) probe(ctx context.Context) (breaker.Outcome, error) {
	timeout := n.db.cfg.CallTimeout
	if timeout <= 0 {
		timeout = defaultCallTimeout // a probe never waits for ever
	}
	c := newCall(asCheck(ctx), n, &route.Intent{Timeout: timeout}, time.Now())
	err := c.attempt(&exec{sql: "SELECT 1"}) //nolint:contextcheck // a call is its own context, made of ctx
	outcome := c.outcome(err)
	return outcome, c.finish(err)
}
