package sqlreadtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// behaviours-routing 30, 31; REQ-D3, REQ-D4, REQ-D6, REQ-D8, REQ-R12: the read path over database/sql, with each driver. Replay is
// paused on every replica: critical reads go to the primary, within its budget and in sessions that cannot write, and see what was
// written before; sheddable ones never; and the replicas come back.
func TestPathDegradesAndRecovers(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			s := quick()
			s.Reenter = s.Trip
			w := open(t, drv, s)
			w.usable(t, "r1", "r2")
			router, err := readpath.New(readpath.Config{
				Backend:   w.Backend(),
				Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}, "related": {Class: readpath.Sheddable}},
				Budget:    readpath.Budget{Rate: 0.001, Burst: 6},
				Recovery:  readpath.Recovery{Sustain: 500 * time.Millisecond},
			})
			must(t, err)
			t.Cleanup(router.Close)
			get := func(ctx context.Context, endpoint, sql string) (readpath.Result[int], error) {
				return readpath.Get(ctx, router, readpath.Call{Endpoint: endpoint}, func(ctx context.Context) (n int, err error) {
					err = w.QueryRowContext(ctx, sql).Scan(&n)
					return n, err
				})
			}
			if res, err := get(t.Context(), "balance", "SELECT 1"); err != nil || res.Source != readpath.FromReplica || res.Stale {
				t.Errorf("normal: got %+v, %v; want a replica", res, err)
			}
			for _, name := range []string{"r1", "r2"} {
				must(t, pg.Pause(t.Context(), name))
			}
			eventually(t, "the path is degraded", func() bool {
				_, err := w.ExecContext(t.Context(), "INSERT INTO tick VALUES (1)")
				must(t, err)
				return router.Mode() == readpath.Degraded
			})
			pos, err := w.Position(t.Context())
			must(t, err)
			res, err := get(replica.WithPosition(t.Context(), pos), "balance", "SELECT count(*) FROM tick")
			if err != nil || res.Source != readpath.FromPrimary || res.Node != "primary" || res.Value == 0 {
				t.Errorf("degraded, critical, with a position: got %+v, %v; want the primary", res, err)
			}
			if _, err := get(t.Context(), "balance", "WITH w AS (INSERT INTO tick VALUES (2) RETURNING 1) SELECT 1 FROM w"); !errors.Is(err, sqlread.ErrWriteInRead) {
				t.Errorf("a write in it: got %v, want ErrWriteInRead", err)
			}
			if _, err := get(t.Context(), "related", "SELECT 3"); !errors.Is(err, readpath.ErrShed) {
				t.Errorf("degraded, sheddable: got %v, want ErrShed", err)
			}
			for range 10 {
				_, err = get(t.Context(), "balance", "SELECT 4")
			}
			if !errors.Is(err, readpath.ErrDegraded) {
				t.Errorf("beyond the budget: got %v, want ErrDegraded", err)
			}
			for _, name := range []string{"r1", "r2"} {
				must(t, pg.Resume(t.Context(), name))
			}
			eventually(t, "all reads are back", func() bool { return router.Mode() == readpath.Normal })
			if res, err := get(t.Context(), "related", "SELECT 5"); err != nil || res.Source != readpath.FromReplica {
				t.Errorf("recovered, sheddable: got %+v, %v", res, err)
			}
			w.idle(t)
		})
	}
}
