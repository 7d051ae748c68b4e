package pgxread_test

import (
	"context"
	"errors"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// behaviours-routing 30, 31; REQ-D4, REQ-D6, REQ-D8: replay is paused on every replica. Critical reads go
// to the primary, within its budget and in sessions that cannot write; sheddable ones never; and the
// replicas come back, first for the critical reads.
func TestPathDegradesAndRecovers(t *testing.T) {
	broken(t)
	s := quick()
	s.Reenter = s.Trip
	w := open(t, s, []string{"r1", "r2"}, conns(16))
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	const burst = 5
	router, err := readpath.New(readpath.Config{
		Backend:   w.Backend(),
		Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}, "related": {Class: readpath.Sheddable}},
		Budget:    readpath.Budget{Rate: 0.001, Burst: burst},
		Recovery:  readpath.Recovery{Sustain: 500 * time.Millisecond},
	})
	must(t, err)
	t.Cleanup(router.Close)
	get := func(endpoint, sql string) (readpath.Result[int], error) {
		return readpath.Get(t.Context(), router, readpath.Call{Endpoint: endpoint}, func(ctx context.Context) (n int, err error) {
			err = w.QueryRow(ctx, sql).Scan(&n)
			return n, err
		})
	}
	if res, err := get("balance", "SELECT 1"); err != nil || res.Source != readpath.FromReplica || res.Age <= 0 || res.Stale {
		t.Errorf("normal: got %+v, %v; want a replica, with the bound of its age", res, err)
	}

	for _, name := range []string{"r1", "r2"} {
		must(t, pg.Pause(t.Context(), name))
	}
	eventually(t, "the path is degraded", func() bool { return router.Mode() == readpath.Degraded })
	res, err := get("balance", "SELECT 2")
	if err != nil || res.Source != readpath.FromPrimary || res.Node != "primary" || res.Stale {
		t.Errorf("degraded, critical: got %+v, %v; want the primary", res, err)
	}
	if _, err := get("balance", hide("degraded")); !errors.Is(err, pgxread.ErrWriteInRead) {
		t.Errorf("a write in it: got %v, want ErrWriteInRead", err)
	}
	if _, err := get("related", "SELECT 3"); !errors.Is(err, readpath.ErrShed) {
		t.Errorf("degraded, sheddable: got %v, want ErrShed", err)
	}
	for range 3 * burst {
		_, err = get("balance", "SELECT 4")
	}
	if !errors.Is(err, readpath.ErrDegraded) {
		t.Errorf("beyond the budget: got %v, want ErrDegraded", err)
	}
	if got := router.Stats().Reads[readpath.Critical][readpath.FromPrimary]; got > burst {
		t.Errorf("answers of the primary: %d, want at most %d", got, burst)
	}

	for _, name := range []string{"r1", "r2"} {
		must(t, pg.Resume(t.Context(), name))
	}
	eventually(t, "critical reads are back", func() bool { return router.Mode() == readpath.Recovering })
	if got := router.Stats().Withheld; len(got) == 0 || got[0] == readpath.Critical {
		t.Errorf("withheld: %v, want no critical ones", got)
	}
	eventually(t, "all reads are back", func() bool { return router.Mode() == readpath.Normal })
	if res, err := get("related", "SELECT 5"); err != nil || res.Source != readpath.FromReplica {
		t.Errorf("recovered, sheddable: got %+v, %v", res, err)
	}
}

// REQ-R17: one replica is left. What overflows its pool is answered by its class; the path stays normal and the
// breaker closed, and the next read is the replica's again.
func TestOverflowOfTheLastReplica(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"}, conns(2))
	w.usable(t, "r1", "r2")
	must(t, w.Set().Breaker("r2").Force(breaker.ForcedOpen, "drill"))
	const burst = 6
	router, err := readpath.New(readpath.Config{
		Backend: w.Backend(),
		Endpoints: map[string]readpath.Endpoint{
			"balance": {Class: readpath.Critical},
			"product": {Class: readpath.Degradable, Default: -1},
			"related": {Class: readpath.Sheddable},
		},
		Budget:     readpath.Budget{Rate: 0.001, Burst: burst},
		Degradable: readpath.DegradablePolicy{LateReplicas: time.Minute},
		Cache:      &oneEntry{},
	})
	must(t, err)
	t.Cleanup(router.Close)
	get := func(endpoint, key string) (readpath.Result[int], error) {
		return readpath.Get(t.Context(), router, readpath.Call{Endpoint: endpoint, Key: key}, func(ctx context.Context) (n int, err error) {
			err = w.QueryRow(ctx, "SELECT 7").Scan(&n)
			return n, err
		})
	}
	want := func(endpoint, key string, source readpath.Source, stale bool) {
		t.Helper()
		if res, err := get(endpoint, key); err != nil || res.Source != source || res.Stale != stale {
			t.Errorf("%s: got %+v, %v; want %v, stale: %v", endpoint, res, err, source, stale)
		}
	}
	want("product", "cached", readpath.FromReplica, false)
	var held []pgx.Tx
	for range 2 {
		tx, err := w.Reader(replica.Requirement{}).Begin(t.Context())
		must(t, err)
		held = append(held, tx)
	}
	for range burst / 2 {
		want("product", "cached", readpath.FromCache, true)
		want("product", "", readpath.FromPrimary, false)
	}
	want("product", "", readpath.FromDefault, true) // the rest is kept
	for range burst / 2 {
		want("balance", "", readpath.FromPrimary, false)
	}
	if _, err := get("balance", ""); !errors.Is(err, readpath.ErrDegraded) {
		t.Errorf("critical, beyond the budget: got %v, want ErrDegraded", err)
	}
	if _, err := get("related", ""); !errors.Is(err, readpath.ErrShed) {
		t.Errorf("sheddable: got %v, want ErrShed", err)
	}
	if s := router.Stats(); s.Mode != readpath.Normal || s.DegradedFor != 0 {
		t.Errorf("mode %v, degraded for %v; want normal, never", s.Mode, s.DegradedFor)
	}
	if b := w.stats("r1").Breaker; b.State != breaker.Closed || b.Failures != 0 || b.Openings != 0 {
		t.Errorf("r1: breaker %v, %d failures, %d openings; want closed with none", b.State, b.Failures, b.Openings)
	}
	for _, tx := range held {
		must(t, tx.Rollback(t.Context()))
	}
	want("related", "", readpath.FromReplica, false)
	want("balance", "", readpath.FromReplica, false)
}

// oneEntry is a Cache of one answer, for a test that reads from one goroutine.
type oneEntry struct {
	key   readpath.CacheKey
	entry readpath.Entry
}

func (c *oneEntry) Get(k readpath.CacheKey) (readpath.Entry, bool) { return c.entry, c.key == k }
func (c *oneEntry) Set(k readpath.CacheKey, e readpath.Entry)      { c.key, c.entry = k, e }

// REQ-D3, REQ-D10: the role of the primary's reads has a connection limit, the last line of defence. Reads that it
// turns away are answered by their class.
func TestConnectionLimitOfThePrimaryReads(t *testing.T) {
	admin := nodeOf("primary").AdminDSN
	must(t, runSQL(t.Context(), admin, "CREATE ROLE few LOGIN PASSWORD 'few' CONNECTION LIMIT 1"))
	t.Cleanup(func() { must(t, runSQL(context.Background(), admin, "DROP ROLE few")) })
	w := open(t, quick(), nil, conns(4), func(c *pgxread.Config) {
		u, err := url.Parse(c.Primary.DSN)
		must(t, err)
		u.User = url.UserPassword("few", "few")
		c.PrimaryReadsDSN = u.String()
	})
	router, err := readpath.New(readpath.Config{
		Backend: w.Backend(), Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}, "product": {Class: readpath.Degradable, Default: -1}},
	})
	must(t, err)
	t.Cleanup(router.Close)
	get := func(endpoint string) (readpath.Result[int], error) {
		return readpath.Get(t.Context(), router, readpath.Call{Endpoint: endpoint}, func(ctx context.Context) (n int, err error) {
			err = w.QueryRow(ctx, "SELECT 7").Scan(&n)
			return n, err
		})
	}
	eventually(t, "the primary answers", func() bool { res, err := get("balance"); return err == nil && res.Value == 7 })
	tx, err := w.Reader(replica.Requirement{PrimaryOnly: true}).Begin(t.Context()) // has the one connection
	must(t, err)
	if _, err := get("balance"); !errors.Is(err, readpath.ErrDegraded) {
		t.Errorf("critical: got %v, want ErrDegraded", err)
	}
	if res, err := get("product"); err != nil || res.Source != readpath.FromDefault {
		t.Errorf("degradable: got %+v, %v; want the default", res, err)
	}
	must(t, tx.Rollback(t.Context()))
	if res, err := get("balance"); err != nil || res.Value != 7 {
		t.Errorf("afterwards: got %+v, %v; want an answer", res, err)
	}
}

// REQ-D7: a load may make its statements at once; what is told is true of all of them.
func TestStatementsAtOnceInOneLoad(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"}, conns(8))
	w.usable(t, "r1", "r2")
	var info readpath.ReadInfo
	ctx := w.Backend().WithRead(t.Context(), replica.Requirement{}, &info)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if _, err := w.Exec(ctx, "SELECT 1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if info.Attempts != 1 || info.PickedAt.IsZero() || info.Primary {
		t.Errorf("got %+v, want what is true of reads of replicas", info)
	}
}
