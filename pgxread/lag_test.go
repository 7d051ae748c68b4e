package pgxread_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/relay"
	"github.com/breakwater-go/breakwater/replica"
)

// opensBy waits until the breaker of a node opens, and checks by which rule.
func (w *watched) opensBy(t *testing.T, node, rule string) {
	t.Helper()
	eventually(t, node+" opens", func() bool { return len(w.seen(node)) > 0 })
	tr := w.seen(node)[0]
	if tr.To != breaker.Open || tr.Reason.Rule != rule {
		t.Fatalf("%s: first transition to %v by %v, want open by %s", node, tr.To, tr.Reason, rule)
	}
	if tr.Reason.Value <= tr.Reason.Threshold {
		t.Errorf("%s: opened at %v, not over the threshold %v", node, tr.Reason.Value, tr.Reason.Threshold)
	}
}

// behaviours-routing 1, REQ-R4, REQ-B17: real reads leave a replica whose replay is
// paused, and one probe brings it back after it is resumed.
func TestPausedReplicaOpensAndComesBack(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	must(t, pg.Pause(t.Context(), "r1"))
	w.opensBy(t, "r1", "lag")
	if at := w.spread(t, 100); at["r1"] != 0 {
		t.Errorf("%d of 100 reads went to the late replica, want 0", at["r1"])
	}
	requests, _ := w.dialled("r1")

	must(t, pg.Resume(t.Context(), "r1"))
	w.usable(t, "r1")
	trs := w.seen("r1")
	if last := trs[len(trs)-1]; last.From != breaker.HalfOpen || last.To != breaker.Closed {
		t.Errorf("last transition %v to %v, want half_open to closed", last.From, last.To)
	}
	for i := 1; i < len(trs); i++ {
		if trs[i].From != trs[i-1].To {
			t.Errorf("transition %d is from %v, the one before was to %v", i, trs[i].From, trs[i-1].To)
		}
	}
	info, err := w.port(t.Context(), replica.Requirement{Except: "r2"}) // usable at once
	if err != nil || info.Node != "r1" {
		t.Errorf("read after the close: on %q, error %v, want r1, nil", info.Node, err)
	}
	if after, _ := w.dialled("r1"); after != requests {
		t.Errorf("%d request dials to r1 since it opened, want 0: the probe's connection was to be used", after-requests)
	}
}

// behaviours-routing 2 and 3: a replica that is cut off claims that it replayed all it
// received, and the one below it has a receiver that streams; both open.
func TestCutOffReplicaOpensAndItsCascade(t *testing.T) {
	for _, mode := range []relay.Mode{relay.Refuse, relay.Blackhole} {
		t.Run(mode.String(), func(t *testing.T) {
			broken(t)
			w := open(t, quick(), []string{"r1", "r2", "r3"})
			w.usable(t, "r1", "r2", "r3")
			w.write(t, 50)
			must(t, pg.CutLink("r1", mode))
			w.opensBy(t, "r1", "lag")
			w.opensBy(t, "r3", "lag")
			const claims = "SELECT 1 / (pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn())::int"
			eventually(t, "r1 claims to have replayed what it received", func() bool {
				return runSQL(t.Context(), dsn("r1"), claims) == nil
			})
			if at := w.spread(t, 50); at["r2"] != 50 {
				t.Errorf("reads by node %v, want all 50 on r2", at)
			}
		})
	}
}

// behaviours-routing 4: nothing is missing on a replica that is cut off from an idle
// primary, until the first commit.
func TestReceiverDownWhileIdleOpensAtTheFirstCommit(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	must(t, pg.CatchUp(t.Context()))
	must(t, runSQL(t.Context(), nodeOf("primary").AdminDSN, "CHECKPOINT")) // nothing is written by itself after it
	w.usable(t, "r1", "r2")
	eventually(t, "r1 caught up", func() bool { return w.stats("r1").Position == w.stats("r2").Position && !w.stats("r1").InDoubt })
	must(t, pg.CutLink("r1", relay.Refuse))
	eventually(t, "r1 shows that its receiver is down", func() bool { return w.stats("r1").ReceiverDown })
	if st := w.stats("r1"); st.Condition != replica.Fit || st.Breaker.State != breaker.Closed {
		t.Errorf("idle and cut off: %v (%s), breaker %v, want ok, closed", st.Condition, st.Detail, st.Breaker.State)
	}
	_, err := w.Exec(t.Context(), "INSERT INTO tick VALUES (0)")
	must(t, err)
	w.opensBy(t, "r1", "lag")
}

// behaviours-routing 10: bursts of writes while a replica catches up do not make it flap.
func TestCatchingUpUnderBurstsDoesNotFlap(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	stop := w.write(t, 50)
	must(t, pg.Pause(t.Context(), "r1"))
	w.opensBy(t, "r1", "lag")
	stop()
	eventually(t, "r1 is early in an open period", func() bool {
		b := w.stats("r1").Breaker
		return b.State == breaker.Open && b.RetryAfter > 200*time.Millisecond
	})
	before := len(w.seen("r1"))
	must(t, pg.Resume(t.Context(), "r1"))
	bursts(t, w)
	w.usable(t, "r1")
	if after := w.seen("r1")[before:]; len(after) > 2 {
		t.Errorf("%d transitions after the resume: %v, want at most 2 (half_open, closed)", len(after), after)
	}
}

// bursts writes for 1 s, rests for 1 s, twice.
func bursts(t *testing.T, w *watched) {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 2 {
		stop := w.write(t, 200)
		<-tick.C
		stop()
		<-tick.C
	}
}

// behaviours-routing 46, REQ-R8: a promoted replica leaves the read set, and its idle
// connections go.
func TestPromotedReplicaLeaves(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.spread(t, 20)
	must(t, pg.Promote(t.Context(), "r2"))
	eventually(t, "r2 is known to be promoted", func() bool { return w.stats("r2").Condition == replica.Promoted })
	if at := w.spread(t, 50); at["r2"] != 0 {
		t.Errorf("%d of 50 reads went to the promoted node, want 0", at["r2"])
	}
	eventually(t, "r2 has no idle connection", func() bool { return w.Pool("r2").Stat().TotalConns() == 0 })
	_, err := w.port(t.Context(), replica.Requirement{Except: "r1"})
	reason(t, err, "r2", replica.Promoted)
}

// reason checks that err is ErrNoReplica with this condition of the node.
func reason(t *testing.T, err error, node string, want replica.Condition) replica.NodeReason {
	t.Helper()
	none, ok := errors.AsType[*replica.NoReplicaError](err)
	if !ok || !errors.Is(err, replica.ErrNoReplica) {
		t.Fatalf("error %v, want ErrNoReplica", err)
	}
	for _, r := range none.Reasons {
		if r.Node == node {
			if r.Condition != want {
				t.Errorf("%s: condition %v (%s), want %v", node, r.Condition, r.Detail, want)
			}
			return r
		}
	}
	t.Fatalf("%v says nothing of %s", err, node)
	return replica.NodeReason{}
}

// REQ-R15: with every replica late a read is refused with each node's reason, and the
// primary is not asked.
func TestAllLateIsRefusedNotSentToThePrimary(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	stop := w.write(t, 50)
	must(t, pg.Pause(t.Context(), "r1"))
	must(t, pg.Pause(t.Context(), "r2"))
	w.opensBy(t, "r1", "lag")
	w.opensBy(t, "r2", "lag")
	stop()
	before := w.Pool("primary").Stat().AcquireCount()
	for range 20 {
		_, err := w.port(t.Context(), replica.Requirement{})
		if !errors.Is(err, replica.ErrNoReplica) {
			t.Fatalf("error %v, want ErrNoReplica", err)
		}
		none, _ := errors.AsType[*replica.NoReplicaError](err)
		if len(none.Reasons) != 2 || none.Reasons[0].Detail == "" || none.Reasons[1].Detail == "" {
			t.Fatalf("reasons %+v, want one in words for each of the two replicas", none.Reasons)
		}
	}
	tx, err := w.BeginTx(t.Context(), pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if !errors.Is(err, replica.ErrNoReplica) {
		t.Errorf("read-only transaction %v, error %v, want ErrNoReplica", tx, err)
	}
	if after := w.Pool("primary").Stat().AcquireCount(); after != before {
		t.Errorf("the primary was asked %d times for reads, want 0", after-before)
	}
	var n int
	must(t, w.Reader(replica.Requirement{PrimaryOnly: true}).QueryRow(context.Background(), "SELECT 1").Scan(&n))
}
