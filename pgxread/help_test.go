package pgxread_test

import (
	"context"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
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
	*pgxread.DB

	mu         sync.Mutex
	counts     map[string]count // by node
	changes    []change
	samples    []replica.Sample
	conditions []replica.ConditionChange
}

// count is what was done on a node.
type count struct {
	requests, checks int // dials: for requests; for probes and samplers
	samples          int // looks of its sampler, of which a probe of a dead or late replica is one
	probes           int // trivial reads through the pool by which a replica is re-admitted
}

// change is a transition, when it was told (the state holds from then on), and what had
// been done by then.
type change struct {
	breaker.Transition

	told time.Time
	count
}

// open makes a DB over the primary and the named replicas, closed with the test.
func open(t *testing.T, s replica.Settings, names []string, change ...func(*pgxread.Config)) *watched {
	t.Helper()
	w := &watched{counts: map[string]count{}}
	cfg := pgxread.Config{
		Primary: pgxread.Node{DSN: dsn("primary")}, Settings: s, Configure: w.countAll,
		Observer: replica.Observer{OnTransition: w.saw, OnSample: w.sampled, OnCondition: w.conditioned},
	}
	for _, n := range names {
		cfg.Replicas = append(cfg.Replicas, pgxread.Node{Name: n, DSN: dsn(n)})
	}
	for _, f := range change {
		f(&cfg)
	}
	db, err := pgxread.Open(t.Context(), cfg)
	must(t, err)
	w.DB = db
	t.Cleanup(db.Close)
	fleettest.Look(t, db.Set())
	return w
}

// usable waits until the named replicas may take reads.
func (w *watched) usable(t *testing.T, names ...string) {
	t.Helper()
	fleettest.Usable(t, w.Set(), names...)
}

func (w *watched) countAll(node string, c *pgxpool.Config) {
	dial := c.ConnConfig.DialFunc
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if pgxread.IsCheck(ctx) {
			w.add(node, count{checks: 1})
		} else {
			w.add(node, count{requests: 1})
			dialledFor(ctx, node)
		}
		return dial(ctx, network, addr)
	}
	c.PrepareConn = func(ctx context.Context, _ *pgx.Conn) (bool, error) {
		if pgxread.IsCheck(ctx) {
			w.add(node, count{probes: 1})
		}
		return true, nil
	}
}

func (w *watched) add(node string, d count) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counts[node]
	w.counts[node] = count{c.requests + d.requests, c.checks + d.checks, c.samples + d.samples, c.probes + d.probes}
}

func (w *watched) count(node string) count {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[node]
}

func (w *watched) saw(tr breaker.Transition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes = append(w.changes, change{tr, time.Now(), w.counts[tr.Name]})
}

func (w *watched) sampled(s replica.Sample) {
	w.add(s.Node, count{samples: 1})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

func (w *watched) conditioned(c replica.ConditionChange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conditions = append(w.conditions, c)
}

// seen returns the transitions of a node so far.
func (w *watched) seen(node string) []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	return of(w.changes, func(c change) bool { return c.Name == node })
}

// samplesOf returns the samples of a node so far.
func (w *watched) samplesOf(node string) []replica.Sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return of(w.samples, func(s replica.Sample) bool { return s.Node == node })
}

// became returns when a node's condition first became c, the zero time if it did not.
func (w *watched) became(node string, c replica.Condition) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, change := range w.conditions {
		if change.Node == node && change.To == c {
			return change.At
		}
	}
	return time.Time{}
}

func of[E any](all []E, want func(E) bool) (some []E) {
	for _, e := range all {
		if want(e) {
			some = append(some, e)
		}
	}
	return some
}

func (w *watched) stats(node string) replica.NodeStats { return fleettest.Stats(w.Set(), node) }

func (w *watched) state(node string) breaker.State { return w.stats(node).Breaker.State }

// port reads the port of the server that answers, and says where the read went.
func (w *watched) port(ctx context.Context, req replica.Requirement) (pgxread.ReadInfo, error) {
	var info pgxread.ReadInfo
	var port int
	err := w.Reader(req).QueryRow(pgxread.WithInfo(ctx, &info), "SELECT current_setting('port')::int").Scan(&port)
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
		info, err := w.port(t.Context(), replica.Requirement{})
		must(t, err)
		at[info.Node]++
	}
	return at
}

// idle checks that the node has no read in flight and no connection in use.
func (w *watched) idle(t *testing.T, node string) {
	t.Helper()
	if got := w.stats(node).InFlight; got != 0 {
		t.Errorf("%s: %d reads in flight, want 0", node, got)
	}
	eventually(t, node+" has no connection in use", func() bool { return w.Pool(node).Stat().AcquiredConns() == 0 })
}

// write commits about perSecond rows a second on the primary until the test ends or
// stop is called.
func (w *watched) write(t *testing.T, perSecond int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if _, err := w.Exec(ctx, "INSERT INTO tick VALUES ($1)", n); err != nil && ctx.Err() == nil {
				t.Errorf("write: %v", err)
				return
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}
