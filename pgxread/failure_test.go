package pgxread_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// behaviours-routing 18 and 24, REQ-R7: one refused connection opens; after it no request
// dials the dead replica, however many there are.
func TestRefusedOpensAtOnceAndIsNotDialled(t *testing.T) {
	broken(t)
	s := blind()
	s.Open.Base, s.Open.Max = 100*time.Millisecond, time.Second
	w := open(t, s, []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	must(t, pg.Kill("r1"))
	eventually(t, "three half-opens have failed", func() bool {
		w.spread(t, 20) // none fails
		return w.stats("r1").Breaker.Openings >= 4
	})
	if requests, _ := w.dialled("r1"); requests != 1 {
		t.Errorf("%d request dials to r1, want 1", requests)
	}
	if tr := w.seen("r1")[0]; tr.To != breaker.Open {
		t.Errorf("first transition to %v, want open", tr.To)
	}
}

// behaviours-routing 19, REQ-B6, REQ-R9: with the replica still dead there is one probe a
// back-off step, by the sampler, and each step is longer than the one before.
func TestOneProbeForEachBackOffStep(t *testing.T) {
	broken(t)
	s := blind()
	s.Open.Base, s.Open.Max = 100*time.Millisecond, 5*time.Second
	w := open(t, s, []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	must(t, pg.Kill("r1"))
	eventually(t, "r1 has opened", func() bool { w.spread(t, 1); return len(w.seen("r1")) > 0 })
	_, before := w.dialled("r1")
	eventually(t, "three half-opens have failed", func() bool { return w.stats("r1").Breaker.Openings >= 4 })
	var halfOpens int
	var period time.Duration
	for _, tr := range w.seen("r1") {
		switch tr.To {
		case breaker.HalfOpen:
			halfOpens++
		case breaker.Open:
			if tr.OpenPeriod <= period {
				t.Errorf("open period %v after %v, want longer", tr.OpenPeriod, period)
			}
			period = tr.OpenPeriod
		default:
			t.Errorf("transition to %v while it is dead", tr.To)
		}
	}
	if _, checks := w.dialled("r1"); checks-before > halfOpens {
		t.Errorf("%d dials by probes in %d half-opens, want at most one each", checks-before, halfOpens)
	}
}

// behaviours-routing 20: half-open admits no user's read, and a read with a syntax error
// counts for nobody and is not tried again.
func TestHalfOpenTakesNoRead(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	must(t, pg.SetApplyDelay(t.Context(), "r1", 2*time.Second))
	w.opensBy(t, "r1", "lag")
	must(t, pg.SetApplyDelay(t.Context(), "r1", 350*time.Millisecond)) // between re-entry and trip
	eventually(t, "r1 rests half-open", func() bool { return w.stats("r1").Breaker.ProbeSuccesses > 0 && w.state("r1") == breaker.HalfOpen })
	var wg sync.WaitGroup
	var onOpen, failed atomic.Int64
	reads := w.stats("r1").Reads
	for range 100 {
		wg.Go(func() {
			info, err := w.port(t.Context(), replica.Requirement{})
			if err != nil && !errors.Is(err, replica.ErrSaturated) {
				failed.Add(1)
			}
			if info.Node == "r1" {
				onOpen.Add(1)
			}
		})
	}
	wg.Wait()
	if w.state("r1") != breaker.HalfOpen {
		t.Fatalf("r1 is %v, want half_open all the time", w.state("r1"))
	}
	if onOpen.Load() != 0 || failed.Load() != 0 || w.stats("r1").Reads != reads {
		t.Errorf("%d of 100 reads went to the half-open replica, %d failed, want 0, 0", onOpen.Load(), failed.Load())
	}
}

// REQ-R6, behaviours-routing 20: the query's own fault.
func TestSQLErrorsCountForNobody(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	for _, sql := range []string{"SELEC 1", "SELECT 1/0", "SELECT * FROM no_such_table"} {
		for range 5 {
			var info pgxread.ReadInfo
			var n int
			err := w.Reader(replica.Requirement{}).QueryRow(pgxread.WithInfo(t.Context(), &info), sql).Scan(&n)
			if _, ok := errors.AsType[*pgconn.PgError](err); !ok {
				t.Fatalf("%s: error %v, want a *pgconn.PgError", sql, err)
			}
			if info.Attempts != 1 || info.Primary {
				t.Errorf("%s: %d attempts, the last on %s, want 1 on a replica", sql, info.Attempts, info.Node)
			}
		}
	}
	for _, n := range []string{"r1", "r2"} {
		if b := w.stats(n).Breaker; b.State != breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v with %d failures, want closed with 0", n, b.State, b.Failures)
		}
		w.idle(t, n)
	}
}

// behaviours-routing 33: with a replica down the start succeeds, and it is used
// later without a restart.
func TestStartWithAReplicaDown(t *testing.T) {
	broken(t)
	must(t, pg.Kill("r2"))
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1")
	if at := w.spread(t, 20); at["r1"] != 20 {
		t.Errorf("reads by node %v, want all 20 on r1", at)
	}
	must(t, pg.Restart(t.Context(), "r2"))
	w.usable(t, "r2")
	_, err := w.port(t.Context(), onR2)
	must(t, err)
}

// behaviours-routing 38, REQ-R3, REQ-R7: a frozen replica costs only the reads that were
// there before it opened, and those at most the call timeout. None waits for a check.
func TestFrozenReplicaCostsFewReads(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"}, callTimeout(300*time.Millisecond))
	w.usable(t, "r1", "r2")
	w.spread(t, 50) // both pools have idle connections
	must(t, pg.Freeze("r1"))
	waited := 0
	for range 500 {
		info, err := w.port(t.Context(), replica.Requirement{})
		must(t, err)
		if info.Attempts > 1 {
			waited++
		}
	}
	const failures = 3 // that open a replica
	if waited > failures {
		t.Errorf("%d of 500 reads waited for the frozen replica, want at most %d", waited, failures)
	}
	eventually(t, "r1 is open", func() bool { return w.state("r1") == breaker.Open || w.state("r1") == breaker.HalfOpen })
	must(t, pg.Thaw("r1"))
	w.usable(t, "r1")
	_, err := w.port(t.Context(), onR1) // usable at once
	must(t, err)
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
