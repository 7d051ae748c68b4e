package pgxread_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// acks are commits of 1, 2, 3 … into table age, and when each was acknowledged.
type acks struct {
	mu   sync.Mutex
	at   []time.Time // of n at n-1
	stop func()
}

// acknowledge commits every 20 ms until the test ends.
func (w *watched) acknowledge(t *testing.T) *acks {
	t.Helper()
	must(t, runSQL(t.Context(), dsn("primary"), "DROP TABLE IF EXISTS age; CREATE TABLE age (n bigint NOT NULL); INSERT INTO age VALUES (0)"))
	must(t, pg.CatchUp(t.Context()))
	a := new(acks)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := 1; ctx.Err() == nil; n++ {
			if _, err := w.Exec(ctx, "UPDATE age SET n = $1", n); err != nil {
				if ctx.Err() == nil {
					t.Errorf("write: %v", err)
				}
				return
			}
			a.mu.Lock()
			a.at = append(a.at, time.Now())
			a.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	a.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(a.stop)
	return a
}

// age is for how long at least an answer n is out of date at that moment.
func (a *acks) age(n int, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n >= len(a.at) {
		return 0
	}
	return now.Sub(a.at[n]) // n+1 was acknowledged then
}

// late pauses the replay of r1 and r2 and waits until their breakers are open because of it.
func (w *watched) late(t *testing.T) {
	t.Helper()
	for _, name := range []string{"r1", "r2"} {
		must(t, pg.Pause(t.Context(), name))
	}
	for _, name := range []string{"r1", "r2"} {
		w.opensBy(t, name, "lag")
	}
}

// REQ-D5, REQ-D7, REQ-D4: replay is paused on every replica, the cache is empty and the budget spent. A degradable read is a late
// replica's, flagged with an age that is no less than the true one; a critical one never is.
func TestLateReplicaAnswersDegradableReads(t *testing.T) {
	broken(t)
	s := quick()
	s.Reenter = s.Trip
	w := open(t, s, []string{"r1", "r2"}, conns(16))
	w.usable(t, "r1", "r2")
	written := w.acknowledge(t)
	router, err := readpath.New(readpath.Config{
		Backend:    w.Backend(),
		Endpoints:  map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}, "product": {Class: readpath.Degradable}},
		Budget:     readpath.Budget{Rate: 0.001, Burst: 1},
		Degradable: readpath.DegradablePolicy{LateReplicas: time.Minute},
		Recovery:   readpath.Recovery{Sustain: 300 * time.Millisecond},
	})
	must(t, err)
	t.Cleanup(router.Close)
	get := func(endpoint string) (readpath.Result[int], error) {
		return readpath.Get(t.Context(), router, readpath.Call{Endpoint: endpoint}, func(ctx context.Context) (n int, err error) {
			err = w.QueryRow(ctx, "SELECT n FROM age").Scan(&n)
			return n, err
		})
	}
	w.late(t)
	eventually(t, "the path is degraded", func() bool { return router.Mode() == readpath.Degraded })
	if res, err := get("balance"); err != nil || res.Source != readpath.FromPrimary { // takes the one token
		t.Errorf("critical: got %+v, %v; want the primary", res, err)
	}
	nodes, states := map[string]int{}, map[breaker.State]int{}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		asked := time.Now()
		res, err := get("product")
		if err != nil || res.Source != readpath.FromReplica || !res.Stale || res.Node == "primary" {
			t.Fatalf("degradable: got %+v, %v; want a replica, flagged", res, err)
		}
		if age := written.age(res.Value, asked); res.Age < age || age == 0 || res.Age > age+time.Second {
			t.Fatalf("age: told %v, it is %v", res.Age, age)
		}
		nodes[res.Node]++
		states[w.state(res.Node)]++
		if _, err := get("balance"); !errors.Is(err, readpath.ErrDegraded) {
			t.Fatalf("critical, without budget: got %v, want ErrDegraded", err)
		}
	}
	if nodes["r1"] == 0 || nodes["r2"] == 0 || states[breaker.Open] == 0 {
		t.Errorf("late reads by node %v and state %v; want some on each, and of open ones", nodes, states)
	}
	for _, name := range []string{"r1", "r2"} {
		if b := w.stats(name).Breaker; b.State == breaker.Closed || b.Failures != 0 {
			t.Errorf("%s: breaker %v, %d failures; want it open still, and no failure", name, b.State, b.Failures)
		}
		must(t, pg.Resume(t.Context(), name))
	}
	eventually(t, "all reads are back", func() bool { return router.Mode() == readpath.Normal })
	for _, name := range []string{"balance", "product"} {
		if res, err := get(name); err != nil || res.Source != readpath.FromReplica || res.Stale {
			t.Errorf("%s, recovered: got %+v, %v; want a replica, not flagged", name, res, err)
		}
	}
}

// REQ-D7: a load of several statements is late if one of them was, whatever the newest one is.
func TestLateInOneOfSeveralStatements(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	var info pgxread.ReadInfo
	accepts := replica.Requirement{AcceptLate: time.Minute, MaxStaleness: -1}
	ctx := w.Backend().WithRead(t.Context(), accepts, &info)
	var n int
	must(t, w.QueryRow(ctx, "SELECT 1").Scan(&n))
	late := info
	must(t, w.Reader(replica.Requirement{}).QueryRow(ctx, "SELECT 2").Scan(&n))
	if !info.Late || !late.Late || info.Hi < late.Hi {
		t.Errorf("got %+v after %+v, want it late, and no fresher", info, late)
	}
	must(t, w.Reader(replica.Requirement{}).QueryRow(pgxread.WithInfo(ctx, &info), "SELECT 3").Scan(&n))
	if info.Late {
		t.Errorf("of one statement: got %+v, want it not late", info)
	}
}

// REQ-R4, REQ-R6, REQ-R7: outside of a path a read accepts a late replica by its requirement; no other gets one or dials it. Where the
// replica dies, no more than the reads under way find out, and it is known at once.
func TestLateReplicaByRequirement(t *testing.T) {
	broken(t)
	s := quick()
	s.Calm, s.SampleTimeout = 1500*time.Millisecond, time.Second
	s.Open.Base, s.Open.Max = 10*time.Second, 10*time.Second // no probe in the way
	w := open(t, s, []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	w.late(t)
	must(t, w.Set().Breaker("r2").Force(breaker.ForcedOpen, "drill"))
	accepts := replica.Requirement{AcceptLate: time.Minute}
	for range 20 {
		if info, err := w.port(t.Context(), accepts); err != nil || info.Node != "r1" || !info.Late || info.Attempts != 1 {
			t.Fatalf("got %+v, %v; want r1, late", info, err)
		}
	}
	dials := w.count("r1").requests
	if _, err := w.port(t.Context(), replica.Requirement{MaxStaleness: replica.Never}); !errors.Is(err, replica.ErrNoReplica) {
		t.Errorf("without the choice: got %v, want ErrNoReplica", err)
	}
	w.Pool("r1").Reset() // whoever wants r1 must dial
	err := w.Pool("r1").Ping(t.Context())
	if got := w.count("r1").requests; err == nil || got != dials {
		t.Errorf("past the Set: %v, %d dials; want refused, and none", err, got-dials)
	}
	info, err := w.port(t.Context(), accepts)
	if got := w.count("r1").requests; err != nil || !info.Late || got != dials+1 {
		t.Errorf("a late read: %+v, %v, %d dials; want r1 and one", info, err, got-dials)
	}

	must(t, pg.Kill("r1"))
	killed := w.count("r1")
	for range 20 {
		if _, err := w.port(t.Context(), accepts); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("r1 is dead: got %v, want ErrNoReplica", err)
		}
	}
	died := time.Now()
	eventually(t, "r1 is sampled again", func() bool { return w.count("r1").samples > killed.samples })
	within(t, "sampled", time.Since(died), 500*time.Millisecond)
	if got := w.count("r1").requests - killed.requests; got > 1 {
		t.Errorf("%d dials of late reads to a dead node, want 1 at most", got)
	}
	if got := w.stats("r1"); got.Condition != replica.Unreachable || got.Breaker.Failures != 0 {
		t.Errorf("r1: %v, %d failures counted; want unreachable, 0", got.Condition, got.Breaker.Failures)
	}
	w.idle(t, "r1")
}
