package sqlreadtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"sync"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

var (
	anywhere replica.Requirement
	onR1     = replica.Requirement{Except: "r2", MaxStaleness: replica.Never}
)

const patience = fleettest.Patience

// What the tests of a real fleet share.
var (
	must       = fleettest.Must
	eventually = fleettest.Eventually
	quick      = fleettest.Quick
	blind      = fleettest.Blind
)

// broken has the fleet healed after the test.
func broken(t *testing.T) {
	t.Helper()
	fleettest.Broken(t, pg)
}

// watched is a DB with what was seen of it.
type watched struct {
	*sqlread.DB

	mu    sync.Mutex
	dials map[string]int // connections asked for by the pool of a node, the probe's too
}

// counted counts the connections that are asked of a connector.
type counted struct {
	driver.Connector

	w    *watched
	node string
}

func (c counted) Connect(ctx context.Context) (driver.Conn, error) {
	c.w.mu.Lock()
	c.w.dials[c.node]++
	c.w.mu.Unlock()
	return c.Connector.Connect(ctx)
}

func (w *watched) dialled(node string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials[node]
}

func (w *watched) node(t *testing.T, drv, name string) sqlread.Node {
	t.Helper()
	c, err := drivers[drv](dsn(name))
	must(t, err)
	return sqlread.Node{Name: name, Connector: counted{c, w, name}, SampleConnector: c}
}

// open makes a DB over the primary, r1 and r2, closed with the test.
func open(t *testing.T, drv string, s replica.Settings, change ...func(*sqlread.Config)) *watched {
	t.Helper()
	w := &watched{dials: map[string]int{}}
	cfg := sqlread.Config{
		Primary: w.node(t, drv, "primary"), Replicas: []sqlread.Node{w.node(t, drv, "r1"), w.node(t, drv, "r2")},
		Settings: s,
	}
	for _, f := range change {
		f(&cfg)
	}
	db, err := sqlread.Open(t.Context(), cfg)
	must(t, err)
	w.DB = db
	t.Cleanup(func() { must(t, db.Close()) })
	fleettest.Look(t, db.Set())
	return w
}

// usable waits until the named replicas may take reads.
func (w *watched) usable(t *testing.T, names ...string) {
	t.Helper()
	fleettest.Usable(t, w.Set(), names...)
}

func (w *watched) stats(node string) replica.NodeStats { return fleettest.Stats(w.Set(), node) }

// runner is what runs a query: a DB, a Conn or a Tx.
type runner interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// portOf reads the port of the server that answers.
func portOf(ctx context.Context, r runner) (port int, err error) {
	err = r.QueryRowContext(ctx, "SELECT current_setting('port')::int").Scan(&port)
	return port, err
}

// port reads the port of the server that answers, and says where the read went.
func (w *watched) port(ctx context.Context, req replica.Requirement) (sqlread.ReadInfo, error) {
	var info sqlread.ReadInfo
	port, err := portOf(sqlread.WithInfo(ctx, &info), w.Reader(req))
	if err == nil && port != nodeOf(info.Node).Port {
		panic("the read on " + info.Node + " was answered on port " + strconv.Itoa(port))
	}
	return info, err
}

// spread makes n reads and counts them by node; each must succeed.
func (w *watched) spread(t *testing.T, n int) map[string]int {
	t.Helper()
	at := map[string]int{}
	for range n {
		info, err := w.port(t.Context(), anywhere)
		must(t, err)
		at[info.Node]++
	}
	return at
}

// idle checks that no read is in flight and no connection in use.
func (w *watched) idle(t *testing.T) {
	t.Helper()
	for _, n := range []string{"r1", "r2"} {
		if got := w.stats(n).InFlight; got != 0 {
			t.Errorf("%s: %d reads in flight, want 0", n, got)
		}
	}
	for _, n := range []string{"primary", "r1", "r2"} {
		eventually(t, n+" has no connection in use", func() bool { return w.PoolStats(n).InUse == 0 })
	}
}

// unharmed checks that no failure was counted for any replica.
func (w *watched) unharmed(t *testing.T) {
	t.Helper()
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.State != breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v with %d failures, want closed with 0", n, b.State, b.Failures)
		}
	}
}

// all reads rows to their end and counts them.
func all(rows *sql.Rows, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}
