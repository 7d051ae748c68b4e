package pgxread_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

func callTimeout(d time.Duration) func(*pgxread.Config) {
	return func(c *pgxread.Config) { c.CallTimeout = d }
}

// onR1 and onR2 are reads that can go to one of r1 and r2 only.
var (
	onR1 = replica.Requirement{Except: "r2"}
	onR2 = replica.Requirement{Except: "r1"}
)

// behaviours-routing 17, REQ-R17: a full pool is saturation. What overflows goes
// elsewhere or is refused at once; the breaker does not count it.
func TestFullPoolIsNotSickness(t *testing.T) {
	small := func(c *pgxread.Config) { c.Replicas[0].DSN += "&pool_max_conns=2" }
	w := open(t, quick(), []string{"r1", "r2"}, small)
	w.usable(t, "r1", "r2")
	var held []pgx.Rows
	for range 2 {
		rows, err := w.Reader(onR1).Query(t.Context(), "SELECT generate_series(1, 100000)") //nolint:sqlclosecheck // closed below
		must(t, err)
		held = append(held, rows)
	}
	_, err := w.port(t.Context(), onR1)
	if !errors.Is(err, replica.ErrSaturated) || !errors.Is(err, replica.ErrNoReplica) {
		t.Errorf("third read on r1: error %v, want ErrSaturated", err)
	}
	if at := w.spread(t, 20); at["r2"] != 20 {
		t.Errorf("reads beyond the pool of r1 by node: %v, want all 20 on r2", at)
	}
	for _, rows := range held {
		rows.Close()
	}
	info, err := w.port(t.Context(), onR1)
	if err != nil || info.Node != "r1" {
		t.Errorf("after the release: read on %q, error %v, want r1, nil", info.Node, err)
	}
	if b := w.stats("r1").Breaker; b.State != breaker.Closed || b.Failures != 0 {
		t.Errorf("r1: breaker %v with %d failures, want closed with 0", b.State, b.Failures)
	}
}

// behaviours-routing 17: who holds the pool's connections past the Set makes reads wait,
// and a wait that ends in a timeout still counts for nobody.
func TestWaitForAHeldPoolIsNotSickness(t *testing.T) {
	small := func(c *pgxread.Config) { c.Replicas[0].DSN += "&pool_max_conns=1" }
	w := open(t, quick(), []string{"r1", "r2"}, small, callTimeout(300*time.Millisecond))
	w.usable(t, "r1", "r2")
	w.spread(t, 20) // both have a connection
	conn, err := w.Pool("r1").Acquire(t.Context())
	must(t, err)
	defer conn.Release()
	for range 4 { // one more than the failures that open it
		_, err := w.port(t.Context(), onR1)
		if !errors.Is(err, pgxread.ErrCallTimeout) {
			t.Fatalf("read on r1: error %v, want ErrCallTimeout", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := w.port(ctx, onR1); !errors.Is(err, context.Canceled) {
		t.Errorf("read whose caller left: error %v, want context.Canceled", err)
	}
	w.spread(t, 10)
	if st := w.stats("r1"); st.Breaker.State != breaker.Closed || st.Breaker.Failures != 0 || st.InFlight != 0 {
		t.Errorf("r1: breaker %v with %d failures, %d in flight, want closed with 0, 0", st.Breaker.State, st.Breaker.Failures, st.InFlight)
	}
}

// REQ-R4: a node that became late while a read waited for its pool does not get the read.
func TestEligibilityIsAskedAfterTheWait(t *testing.T) {
	broken(t)
	s := quick()
	s.Trip, s.Reenter = replica.Never, 0 // no breaker opens, whose guard would refuse it too
	w := open(t, s, []string{"r1", "r2"}, callTimeout(patience), func(c *pgxread.Config) {
		c.Replicas[0].DSN += "&pool_max_conns=1"
	})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	conn, err := w.Pool("r1").Acquire(t.Context())
	must(t, err)
	bound := onR1
	bound.MaxStaleness = 2 * time.Second
	ended := make(chan error, 1)
	go func() {
		_, err := w.port(t.Context(), bound)
		ended <- err
	}()
	eventually(t, "the read waits", func() bool { return w.stats("r1").InFlight == 1 })
	must(t, pg.Pause(t.Context(), "r1"))
	eventually(t, "r1 is over the read's bound", func() bool { return w.stats("r1").Hi > bound.MaxStaleness })
	conn.Release()
	reason(t, <-ended, "r1", replica.Stale)
	w.idle(t, "r1")
}

// REQ-R6, behaviours-routing 20: the query's own fault, by whatever method: no breaker
// counts it, it is not tried again, and the primary is not asked.
func TestSQLErrorsCountForNobody(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	before := w.Pool("primary").Stat().AcquireCount()
	for name, run := range statements {
		for _, sql := range []string{"SELEC 1", "SELECT 1/0", "SELECT * FROM no_such_table"} {
			for range 5 {
				var info pgxread.ReadInfo
				err := run(pgxread.WithInfo(t.Context(), &info), w.Reader(replica.Requirement{}), sql)
				if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
					t.Fatalf("%s of %s: error %v, want a *pgconn.PgError", name, sql, err)
				}
				if info.Attempts != 1 || info.Primary {
					t.Errorf("%s of %s: %d attempts, the last on %s, want 1 on a replica", name, sql, info.Attempts, info.Node)
				}
			}
		}
	}
	if after := w.Pool("primary").Stat().AcquireCount(); after != before {
		t.Errorf("the primary was asked %d times, want 0", after-before)
	}
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.State != breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v with %d failures, want closed with 0", n, b.State, b.Failures)
		}
		w.idle(t, n)
	}
}

// behaviours-routing 45: a killed replica fails no read: what was in its pool is tried
// again elsewhere.
func TestKilledReplicaFailsNoRead(t *testing.T) {
	broken(t)
	w := open(t, blind(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.spread(t, 50)
	must(t, pg.Kill("r1"))
	again := 0
	for range 100 {
		info, err := w.port(t.Context(), replica.Requirement{})
		must(t, err)
		if info.Node != "r2" {
			t.Fatalf("read answered by %s, want r2", info.Node)
		}
		again += info.Attempts - 1
	}
	if again == 0 || again > 3 {
		t.Errorf("%d reads were tried twice, want 1 to 3", again)
	}
	w.idle(t, "r1")
}

// behaviours-breaker 34, REQ-B9: what the end of a call's time says about its node.
func TestWhoseTimeRanOut(t *testing.T) {
	const slow = "SELECT pg_sleep(30)"
	for _, c := range []struct {
		name     string
		slowCall time.Duration
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		want     error
		failures uint64
		attempts int
	}{
		{"caller cancels", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(100*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled, 0, 1},
		{"caller's deadline, call not slow", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded, 0, 1},
		{"caller's deadline, call slow", 50 * time.Millisecond, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded, 1, 1},
		{"call timeout", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return pgxread.WithCallTimeout(ctx, 100*time.Millisecond), func() {}
		}, pgxread.ErrCallTimeout, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t, quick(), []string{"r1", "r2"}, func(cfg *pgxread.Config) { cfg.SlowCall = c.slowCall })
			w.usable(t, "r1", "r2")
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			var info pgxread.ReadInfo
			var void any
			err := w.Reader(replica.Requirement{}).QueryRow(pgxread.WithInfo(ctx, &info), slow).Scan(&void)
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if got := w.stats("r1").Breaker.Failures + w.stats("r2").Breaker.Failures; got != c.failures {
				t.Errorf("%d failures counted, want %d", got, c.failures)
			}
			if info.Attempts != c.attempts {
				t.Errorf("%d attempts, want %d", info.Attempts, c.attempts)
			}
			w.idle(t, "r1")
			w.idle(t, "r2")
		})
	}
}

// REQ-B11: the call timeout bounds the rows too, but a call that ended well is not hurt
// by it; a negative one is none.
func TestCallTimeoutCoversTheRows(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	// Rows that are larger than the server's buffer come one by one.
	const trickle = "SELECT repeat('x', 10000), pg_sleep(0.02) FROM generate_series(1, 50)"
	run := func(d time.Duration) error {
		rows, err := w.Reader(replica.Requirement{}).Query(pgxread.WithCallTimeout(t.Context(), d), trickle)
		if err != nil {
			return err
		}
		defer rows.Close()
		n := 0
		for rows.Next() {
			n++
		}
		if n == 0 {
			t.Error("no row before the end")
		}
		return rows.Err()
	}
	if err := run(200 * time.Millisecond); !errors.Is(err, pgxread.ErrCallTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("200 ms: error %v, want ErrCallTimeout", err)
	}
	must(t, run(-1))
	w.idle(t, "r1")
	w.idle(t, "r2")
}
