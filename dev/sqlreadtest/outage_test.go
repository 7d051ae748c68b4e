package sqlreadtest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// behaviours-routing 45: with each driver a killed replica fails no read: what was in its
// pool is tried again elsewhere.
func TestKilledReplicaFailsNoRead(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			w := open(t, drv, blind())
			w.usable(t, "r1", "r2")
			w.spread(t, 50)
			must(t, pg.Kill("r1"))
			again := 0
			for range 100 {
				info, err := w.port(t.Context(), anywhere)
				must(t, err)
				if info.Node != "r2" {
					t.Fatalf("read answered by %s, want r2", info.Node)
				}
				again += info.Attempts - 1
			}
			if again == 0 || again > 3 {
				t.Errorf("%d reads were tried twice, want 1 to 3", again)
			}
			w.idle(t)
		})
	}
}

// behaviours-routing 24, 33, REQ-R7: requests do not dial an open replica, whose probes do once each
// at most; it comes back by itself, and so does one that was down at the start.
func TestOpenReplicaIsNotDialled(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			must(t, pg.Kill("r1"))
			w := open(t, drv, quick())
			w.usable(t, "r2")
			eventually(t, "half-opens of r1 have failed", func() bool {
				w.spread(t, 20)
				return w.stats("r1").Breaker.Openings > 2
			})
			if got := w.dialled("r1"); got != 0 {
				t.Errorf("%d dials of the pool to r1, want 0: its sampler finds that it is down", got)
			}
			must(t, pg.Restart(t.Context(), "r1"))
			w.usable(t, "r1")
			dials := w.dialled("r1")
			info, err := w.port(t.Context(), onR1)
			if err != nil || info.Node != "r1" {
				t.Errorf("read after the close: on %q, error %v, want r1", info.Node, err)
			}
			if got := w.dialled("r1"); got != dials {
				t.Errorf("%d dials for the first read, want 0: the probe's connection was to be used", got-dials)
			}
			w.idle(t)
		})
	}
}

// behaviours-routing 18, REQ-R7: of many reads at once that meet a dead replica each dials it at
// most once, and its idle connections are closed when it opens.
func TestConcurrentReadersOfADeadReplica(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			const readers = 16
			w := open(t, drv, blind(), func(c *sqlread.Config) {
				c.Replicas[0].MaxConns, c.Replicas[1].MaxConns = readers, 2*readers
				c.ConnectTimeout, c.CallTimeout = patience, patience // of many new sessions at once on a busy machine
			})
			w.usable(t, "r1", "r2")
			w.spread(t, 20)
			before := w.dialled("r1")
			must(t, pg.Kill("r1"))
			var all sync.WaitGroup
			for range readers {
				all.Go(func() {
					for range 20 {
						if _, err := w.port(t.Context(), anywhere); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			if got := w.dialled("r1") - before; got > readers {
				t.Errorf("%d dials to r1, want at most %d", got, readers)
			}
			if w.stats("r1").Breaker.State == breaker.Closed {
				t.Error("r1 is closed, want open")
			}
			eventually(t, "r1 has no connection", func() bool { return w.PoolStats("r1").OpenConnections == 0 })
			w.idle(t)
		})
	}
}

// behaviours-routing 38, REQ-R3: a frozen replica costs each read at most its call timeout, also where the
// driver does not end a call with its context.
func TestFrozenReplica(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			w := open(t, drv, quick(), func(c *sqlread.Config) { c.CallTimeout = 300 * time.Millisecond })
			w.usable(t, "r1", "r2")
			w.spread(t, 20)
			must(t, pg.Freeze("r1"))
			late := 0
			eventually(t, "half-opens of r1 have failed", func() bool {
				info, err := w.port(t.Context(), anywhere)
				must(t, err)
				if info.Attempts > 1 {
					late++
				}
				return w.stats("r1").Breaker.Openings > 1
			})
			if late > 3 {
				t.Errorf("%d reads met the frozen replica one after the other, want at most the 3 that open it", late)
			}
			must(t, pg.Thaw("r1"))
			w.usable(t, "r1")
			_, err := w.port(t.Context(), onR1)
			must(t, err)
			w.idle(t)
		})
	}
}

// behaviours-routing 46: a promoted replica leaves the read set, its connections are closed, and no
// write reaches it.
func TestPromotedReplicaLeaves(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			held, err := w.Reader(onR1).Conn(t.Context())
			must(t, err)
			defer held.Close()
			_, err = portOf(t.Context(), held)
			must(t, err)
			must(t, pg.Promote(t.Context(), "r1"))
			if _, err := held.ExecContext(t.Context(), "INSERT INTO tick VALUES (1)"); !errors.Is(err, sqlread.ErrWriteInRead) {
				t.Errorf("write as a read on the promoted node: error %v, want ErrWriteInRead", err)
			}
			must(t, held.Close())
			eventually(t, "r1 has left", func() bool { return w.stats("r1").Condition == replica.Promoted })
			eventually(t, "r1 has no connection", func() bool { return w.PoolStats("r1").OpenConnections == 0 })
			if at := w.spread(t, 20); at["r2"] != 20 {
				t.Errorf("reads by node %v, want all 20 on r2", at)
			}
			if _, err := w.port(t.Context(), onR1); !errors.Is(err, replica.ErrNoReplica) {
				t.Errorf("read on r1: error %v, want ErrNoReplica", err)
			}
			w.idle(t)
		})
	}
}
