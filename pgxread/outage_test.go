package pgxread_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// backOff is blind, with short open periods that double.
func backOff() replica.Settings {
	s := blind()
	s.Open.Base, s.Open.Max = 100*time.Millisecond, 5*time.Second
	return s
}

// probedInVain waits until a node's half-opens have failed so often.
func (w *watched) probedInVain(t *testing.T, node string, times uint64) {
	t.Helper()
	eventually(t, "half-opens of "+node+" have failed", func() bool { return w.stats(node).Breaker.Openings > times })
}

// openings returns the transitions to open of a node so far.
func (w *watched) openings(node string) []change {
	return of(w.seen(node), func(c change) bool { return c.To == breaker.Open })
}

// behaviours-routing 18, REQ-R7: one refused connection opens.
func TestRefusedOpensAtOnceAndIsNotDialled(t *testing.T) {
	broken(t)
	w := open(t, backOff(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	must(t, pg.Kill("r1"))
	eventually(t, "three half-opens have failed", func() bool {
		w.spread(t, 20) // none fails
		return w.stats("r1").Breaker.Openings >= 4
	})
	if got := w.count("r1").requests; got != 1 {
		t.Errorf("%d request dials to r1, want 1", got)
	}
	if tr := w.seen("r1")[0]; tr.To != breaker.Open {
		t.Errorf("first transition to %v, want open", tr.To)
	}
}

// behaviours-routing 18 and 24, REQ-R7: 64 readers at once meet a replica that refuses. Until
// it opens each of them dials it at most once, after it none does: all dials are by probes,
// at most one each.
func TestConcurrentReadersDoNotDialAnOpenReplica(t *testing.T) {
	broken(t)
	const readers = 64
	w := open(t, backOff(), []string{"r1", "r2"}, conns(readers), callTimeout(patience), func(c *pgxread.Config) {
		c.ConnectTimeout = patience // of 64 new sessions at once on a busy machine
	})
	w.usable(t, "r1", "r2") // no read yet: there is no connection to be lost, each read must dial
	must(t, pg.Kill("r1"))
	stop := w.reading(t, readers, 50*time.Millisecond) // about 1,000 reads a second
	w.probedInVain(t, "r1", 4)
	reads, openings, total := stop(), w.openings("r1"), w.count("r1")
	if total.requests == 0 || total.requests > readers {
		t.Errorf("%d request dials to r1, want 1 to %d", total.requests, readers)
	}
	for _, r := range reads {
		if r.dialled["r1"] > 1 {
			t.Errorf("a read dialled r1 %d times, want at most once", r.dialled["r1"])
		}
	}
	first, last := openings[0], openings[4]
	leftAlone(t, "r1", between(reads, first.told, last.told))
	t.Logf("%d reads, %d dials to r1 for them", len(reads), total.requests)
	if probes, checks := last.samples-first.samples, last.checks-first.checks; probes != 4 || checks > probes {
		t.Errorf("%d probes of r1 in 4 half-opens, with %d dials; want 4, at most one each", probes, checks)
	}
}

// behaviours-routing 19, REQ-B6, REQ-R9: with the replica still dead there is one probe a
// back-off step, by the sampler, and each step is longer than the one before. No read
// goes there.
func TestOneProbeForEachBackOffStep(t *testing.T) {
	broken(t)
	w := open(t, backOff(), []string{"r1", "r2"}, conns(16))
	w.usable(t, "r1", "r2")
	stop := w.reading(t, 8, 10*time.Millisecond)
	must(t, pg.Kill("r1"))
	w.probedInVain(t, "r1", 4)
	reads, changes, openings := stop(), w.seen("r1"), w.openings("r1")
	for i, want := range []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Open, breaker.HalfOpen, breaker.Open} {
		if changes[i].To != want {
			t.Errorf("transition %d to %v, want %v", i+1, changes[i].To, want)
		}
	}
	for i := 1; i < len(openings); i++ {
		was, is := openings[i-1], openings[i]
		// The first probe has the sampler's old connection, which is dead: it needs no dial.
		if probes, checks := is.samples-was.samples, is.checks-was.checks; probes != 1 || checks != min(i-1, 1) {
			t.Errorf("%d probes in open period %d, with %d dials; want 1, %d", probes, i, checks, min(i-1, 1))
		}
		if is.OpenPeriod <= was.OpenPeriod {
			t.Errorf("open period %v after %v, want longer", is.OpenPeriod, was.OpenPeriod)
		}
		leftAlone(t, "r1", between(reads, was.told, is.told))
	}
}

// behaviours-routing 20: half-open admits no user's read, by whatever method.
func TestHalfOpenTakesNoRead(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"}, conns(32), func(c *pgxread.Config) {
		c.ConnectTimeout, c.CallTimeout = patience, patience // of many new sessions at once on a busy machine
	})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	must(t, pg.SetApplyDelay(t.Context(), "r1", 2*time.Second))
	w.opensBy(t, "r1", "lag")
	must(t, pg.SetApplyDelay(t.Context(), "r1", 350*time.Millisecond)) // between re-entry and trip
	eventually(t, "r1 rests half-open", func() bool { return w.stats("r1").Breaker.ProbeSuccesses > 0 && w.state("r1") == breaker.HalfOpen })
	before, generation := w.stats("r1").Reads, w.stats("r1").Breaker.Generation
	var all sync.WaitGroup
	var onR1, answered atomic.Int64
	for name, run := range statements {
		for range 100 / len(statements) {
			all.Go(func() {
				var info pgxread.ReadInfo
				switch err := run(pgxread.WithInfo(t.Context(), &info), w.Reader(replica.Requirement{}), "SELECT 1"); {
				case err == nil:
					answered.Add(1)
				case !errors.Is(err, replica.ErrSaturated):
					t.Errorf("%s: %v", name, err)
				}
				if info.Node == "r1" {
					onR1.Add(1)
				}
			})
		}
	}
	all.Wait()
	if b := w.stats("r1").Breaker; b.Generation != generation {
		t.Fatalf("r1 is %v (%v), want half_open all the time", b.State, b.Reason)
	}
	if got := w.stats("r1").Reads - before; onR1.Load() != 0 || got != 0 {
		t.Errorf("%d of 100 reads went to the half-open replica, which ended %d, want 0, 0", onR1.Load(), got)
	}
	if answered.Load() == 0 {
		t.Error("no read was answered, want some by r2")
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
// there before it opened. None waits for a check: while one hangs on the frozen
// replica, reads begin and end.
func TestFrozenReplicaCostsFewReads(t *testing.T) {
	broken(t)
	const places, failures = 4, 3 // reads in flight on one replica; failures that open it
	w := open(t, quick(), []string{"r1", "r2"}, callTimeout(500*time.Millisecond), func(c *pgxread.Config) {
		c.Replicas[0].DSN += "&pool_max_conns=4"
		c.Replicas[1].DSN += "&pool_max_conns=32"
	})
	w.usable(t, "r1", "r2")
	stop := w.reading(t, 16, 10*time.Millisecond)
	eventually(t, "r1 answers reads", func() bool { return w.stats("r1").Reads > 20 })
	must(t, pg.Freeze("r1"))
	frozen := time.Now()
	w.probedInVain(t, "r1", 2)
	reads, changes := stop(), w.seen("r1")
	must(t, pg.Thaw("r1"))

	opened, last := changes[0], changes[len(changes)-1]
	if at := on(between(reads, frozen, last.told), "r1"); len(at) != 0 {
		t.Errorf("%d reads answered by the frozen replica", len(at))
	}
	leftAlone(t, "r1", between(reads, opened.told, last.told))
	waited := of(reads, func(r read) bool { return r.info.Attempts > 1 })
	if len(waited) > failures+places {
		t.Errorf("%d of %d reads waited for the frozen replica, want at most %d: those that opened it, and those in flight then",
			len(waited), len(reads), failures+places)
	}
	for i := 1; i < len(changes); i++ {
		check, end := changes[i-1], changes[i]
		if check.To == breaker.HalfOpen && len(between(reads, check.told, end.told)) == 0 {
			t.Errorf("no read began and ended in the %v of check %d", end.told.Sub(check.told), i/2)
		}
	}
	w.usable(t, "r1")
	_, err := w.port(t.Context(), onR1) // usable at once
	must(t, err)
}
