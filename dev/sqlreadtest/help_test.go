package sqlreadtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

var (
	anywhere replica.Requirement
	onR1     = replica.Requirement{Except: "r2", MaxStaleness: replica.Never}
)

// eventually waits until cond holds: servers, not timers, decide when.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// broken has the fleet healed after the test.
func broken(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := pg.Heal(context.Background()); err != nil {
			t.Errorf("heal: %v", err)
		}
	})
}

// quick samples often, so that tests wait little. There is no slow start and no jitter.
func quick() replica.Settings {
	return replica.Settings{
		Trip: 500 * time.Millisecond, Reenter: 200 * time.Millisecond,
		Calm: 600 * time.Millisecond, Fast: 50 * time.Millisecond, PrimaryInterval: 100 * time.Millisecond,
		SampleTimeout: 500 * time.Millisecond, Ramp: -1,
		Open: breaker.Backoff{Base: 300 * time.Millisecond, Max: 2 * time.Second, Jitter: -1},
	}
}

// blind samples once a minute, so that only reads can find out what is wrong.
func blind() replica.Settings {
	s := quick()
	s.Calm, s.Fast, s.SampleTimeout = time.Minute, time.Minute, time.Second
	return s
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
	if s.Calm >= time.Minute { // where the first sample came before the primary's, the next one would be that far away
		must(t, db.Set().Refresh(t.Context()))
	}
	return w
}

// usable waits until the named replicas may take reads.
func (w *watched) usable(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		eventually(t, n+" is fit", func() bool {
			st := w.stats(n)
			fit := st.Condition == replica.Fit && st.Breaker.State == breaker.Closed
			if !fit && w.Set().Settings().Calm >= time.Minute { // its next sample is that far away
				must(t, w.Set().Refresh(t.Context()))
			}
			return fit
		})
	}
}

func (w *watched) stats(node string) replica.NodeStats {
	all := w.Set().Stats().Replicas
	for i := range all {
		if all[i].Name == node {
			return all[i]
		}
	}
	return replica.NodeStats{}
}

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
