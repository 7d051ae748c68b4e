package pgxread_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
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
