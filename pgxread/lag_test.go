package pgxread_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/relay"
	"github.com/breakwater-go/breakwater/replica"
)

// opensBy waits until the breaker of a node opens, checks by which rule, and returns that
// transition.
func (w *watched) opensBy(t *testing.T, node, rule string) change {
	t.Helper()
	eventually(t, node+" opens", func() bool { return len(w.seen(node)) > 0 })
	c := w.seen(node)[0]
	if c.To != breaker.Open || c.Reason.Rule != rule {
		t.Fatalf("%s: first transition to %v by %v, want open by %s", node, c.To, c.Reason, rule)
	}
	if c.Reason.Value <= c.Reason.Threshold {
		t.Errorf("%s: opened at %v, not over the threshold %v", node, c.Reason.Value, c.Reason.Threshold)
	}
	return c
}

// firstLate returns the first sample of a node whose lag is over the threshold.
func (w *watched) firstLate(t *testing.T, node string, trip time.Duration) replica.Sample {
	t.Helper()
	late := of(w.samplesOf(node), func(s replica.Sample) bool { return s.Lo > trip })
	if len(late) == 0 {
		t.Fatalf("no sample of %s is over %v", node, trip)
	}
	return late[0]
}

// behaviours-routing 1, REQ-R4, REQ-B17: real reads leave a replica whose replay is
// paused, and one probe brings it back after it is resumed.
func TestPausedReplicaOpensAndComesBack(t *testing.T) {
	broken(t)
	s := quick()
	s.Reenter = s.Trip // no lag is between the two, so the first probe that gets an answer closes
	w := open(t, s, []string{"r1", "r2"}, conns(16))
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	stop := w.reading(t, 8, 10*time.Millisecond)
	eventually(t, "r1 answers reads", func() bool { return w.stats("r1").Reads > 20 })
	must(t, pg.Pause(t.Context(), "r1"))
	paused := time.Now()
	opened := w.opensBy(t, "r1", "lag")
	within(t, "r1 open", opened.At.Sub(paused), s.Trip+2*poll(s))
	w.probedInVain(t, "r1", 2)
	reads := stop()
	late := w.firstLate(t, "r1", s.Trip)
	leftAlone(t, "r1", of(reads, func(r read) bool { return r.begun.After(late.At) }))
	limit := s.Trip + poll(s) + s.Fast // the default of MaxStaleness
	for _, r := range on(reads, "r1") {
		if r.info.Lo > s.Trip || r.info.Hi > limit {
			t.Fatalf("a read as fresh on r1, %v late at least and %v at most; want at most %v, %v", r.info.Lo, r.info.Hi, s.Trip, limit)
		}
	}
	t.Logf("%d of %d reads on r1 between the pause and its first late sample", len(on(between(reads, paused, late.At), "r1")), len(reads))

	must(t, pg.Resume(t.Context(), "r1"))
	w.usable(t, "r1")
	changes := w.seen("r1")
	closed := changes[len(changes)-1]
	if closed.From != breaker.HalfOpen || closed.To != breaker.Closed {
		t.Errorf("last transition %v to %v, want half_open to closed", closed.From, closed.To)
	}
	for i := 1; i < len(changes); i++ {
		if changes[i].From != changes[i-1].To {
			t.Errorf("transition %d is from %v, the one before was to %v", i, changes[i].From, changes[i-1].To)
		}
	}
	if got := closed.probes - opened.probes; got != 1 {
		t.Errorf("%d reads by probes until it closed, want 1", got)
	}
	requests := w.count("r1").requests
	info, err := w.port(t.Context(), onR1) // usable at once
	if err != nil || info.Node != "r1" {
		t.Errorf("read after the close: on %q, error %v, want r1, nil", info.Node, err)
	}
	if after := w.count("r1").requests; after != requests {
		t.Errorf("%d request dials to r1 since it closed, want 0: the probe's connection was to be used", after-requests)
	}
}

// behaviours-routing 2 and 3: a replica that is cut off claims that it replayed all it
// received, and the one below it has a receiver that streams; both open.
func TestCutOffReplicaOpensAndItsCascade(t *testing.T) {
	for _, mode := range []relay.Mode{relay.Refuse, relay.Blackhole} {
		t.Run(mode.String(), func(t *testing.T) {
			broken(t)
			s := quick()
			w := open(t, s, []string{"r1", "r2", "r3"})
			w.usable(t, "r1", "r2", "r3")
			w.write(t, 50)
			must(t, pg.CutLink("r1", mode))
			cut := time.Now()
			for _, node := range []string{"r1", "r3"} {
				opened := w.opensBy(t, node, "lag")
				within(t, node+" open", opened.At.Sub(cut), s.Trip+2*poll(s))
			}
			if st := w.stats("r3"); st.ReceiverDown || st.Breaker.State == breaker.Closed {
				t.Errorf("r3: receiver down %v, breaker %v; want false, as its own upstream lives, and open", st.ReceiverDown, st.Breaker.State)
			}
			const streams = "SELECT 1 / count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming'"
			if err := runSQL(t.Context(), dsn("r3"), streams); err != nil {
				t.Errorf("r3 does not say that its receiver streams: %v", err)
			}
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

// behaviours-routing 4: nothing is missing on a replica that is told to follow nobody while
// the primary is idle, until the first commit.
func TestReceiverDownWhileIdleOpensAtTheFirstCommit(t *testing.T) {
	broken(t)
	t.Cleanup(func() { follow(t, "r1", "RESET primary_conninfo") }) // before the fleet is healed
	s := quick()
	w := open(t, s, []string{"r1", "r2"})
	must(t, pg.CatchUp(t.Context()))
	must(t, runSQL(t.Context(), nodeOf("primary").AdminDSN, "CHECKPOINT"))
	// Up to 15 s later a server writes a record of its own accord; then it is another try.
	for try := 1; !w.staysFitWhileIdle(t, "r1", 5); try++ {
		if try == 5 {
			t.Fatalf("the primary was not idle in any of %d tries", try)
		}
		follow(t, "r1", "RESET primary_conninfo")
	}
	before := len(w.seen("r1"))
	_, err := w.Exec(t.Context(), "INSERT INTO tick VALUES (0)")
	must(t, err)
	committed := time.Now()
	eventually(t, "r1 opens", func() bool { return len(w.seen("r1")) > before })
	opened := w.seen("r1")[before]
	if opened.To != breaker.Open || opened.Reason.Rule != "lag" {
		t.Errorf("r1 became %v by %v, want open by lag", opened.To, opened.Reason)
	}
	within(t, "r1 open", opened.At.Sub(committed), s.Trip+2*poll(s))
}

// follow changes which upstream a replica follows, by ALTER SYSTEM.
func follow(t *testing.T, node, change string) {
	t.Helper()
	for _, sql := range []string{"ALTER SYSTEM " + change, "SELECT pg_reload_conf()"} {
		if err := runSQL(context.Background(), nodeOf(node).AdminDSN, sql); err != nil {
			t.Errorf("%s on %s: %v", sql, node, err)
		}
	}
}

// staysFitWhileIdle takes a replica's upstream away and looks at that many samples of it. It
// returns false if the primary wrote meanwhile.
func (w *watched) staysFitWhileIdle(t *testing.T, node string, samples int) bool {
	t.Helper()
	position := func() uint64 { return w.Set().Stats().Primary.Position }
	w.usable(t, node)
	eventually(t, node+" has caught up", func() bool { return w.stats(node).Position == position() && !w.stats(node).InDoubt })
	before, changes := position(), len(w.seen(node))
	follow(t, node, "SET primary_conninfo = ''")
	eventually(t, node+" shows that its receiver is down", func() bool { return w.stats(node).ReceiverDown })
	first := len(w.samplesOf(node))
	eventually(t, "more samples of "+node, func() bool { return len(w.samplesOf(node)) >= first+samples })
	st, seen := w.stats(node), w.samplesOf(node)[first:]
	must(t, w.Set().Refresh(t.Context()))
	if position() != before {
		return false
	}
	for i, s := range seen {
		if s.Condition != replica.Fit || s.Lo != 0 {
			t.Errorf("idle and cut off, sample %d: %v, %v late, want ok, 0", i+1, s.Condition, s.Lo)
		}
	}
	if st.Condition != replica.Fit || !st.ReceiverDown || len(w.seen(node)) != changes {
		t.Errorf("idle and cut off: %v (%s), receiver down %v, %d transitions; want ok, true, 0",
			st.Condition, st.Detail, st.ReceiverDown, len(w.seen(node))-changes)
	}
	return true
}

// behaviours-routing 10: a replica whose lag crosses the limit time and again while it
// catches up leaves the read set once and comes back once: the crossings fall into its open
// period, and between the two thresholds it rests half-open.
func TestCatchingUpUnderBurstsDoesNotFlap(t *testing.T) {
	broken(t)
	s := quick()
	s.Trip, s.Open.Base, s.Open.Max = time.Second, 8*time.Second, time.Minute // more than twice what the bursts take
	w := open(t, s, []string{"r1", "r2"})
	w.usable(t, "r1", "r2")
	w.write(t, 50)
	must(t, pg.Pause(t.Context(), "r1"))
	w.opensBy(t, "r1", "lag")
	const enough = 4 // samples on one side of a threshold, one more than the breaches that open
	late, fresh := func(lag time.Duration) bool { return lag > s.Trip }, func(lag time.Duration) bool { return lag < s.Reenter }
	for range 3 {
		must(t, pg.Resume(t.Context(), "r1"))
		w.lags(t, "r1", enough, fresh)
		must(t, pg.Pause(t.Context(), "r1"))
		w.lags(t, "r1", enough, late)
	}
	must(t, pg.SetApplyDelay(t.Context(), "r1", 500*time.Millisecond)) // between re-entry and trip
	must(t, pg.Resume(t.Context(), "r1"))
	eventually(t, "r1 was probed twice between the thresholds", func() bool {
		return w.stats("r1").Breaker.ProbeSuccesses >= 2 || len(w.seen("r1")) > 2
	})
	if got := path(w.seen("r1")); !slices.Equal(got, []breaker.State{breaker.Open, breaker.HalfOpen}) {
		t.Fatalf("transitions %v after 3 crossings of the limit, want open, half_open, and rest there", got)
	}
	must(t, pg.SetApplyDelay(t.Context(), "r1", 0))
	w.usable(t, "r1")
	w.lags(t, "r1", enough, fresh)
	if got := path(w.seen("r1")); !slices.Equal(got, []breaker.State{breaker.Open, breaker.HalfOpen, breaker.Closed}) {
		t.Errorf("transitions %v, want open, half_open, closed", got)
	}
}

// path is the states that were entered.
func path(changes []change) (states []breaker.State) {
	for i := range changes {
		states = append(states, changes[i].To)
	}
	return states
}

// lags has a node sampled until its lag was as wanted for that many samples in a row.
func (w *watched) lags(t *testing.T, node string, samples int, want func(time.Duration) bool) {
	t.Helper()
	row := 0
	eventually(t, node+" has the wanted lag", func() bool {
		must(t, w.Set().Refresh(t.Context()))
		if row++; !want(w.stats(node).Lo) {
			row = 0
		}
		return row == samples
	})
}

// behaviours-routing 46, REQ-R8: a promoted replica leaves the read set within a sample,
// and its idle connections go.
func TestPromotedReplicaLeaves(t *testing.T) {
	broken(t)
	s := quick()
	w := open(t, s, []string{"r1", "r2"}, conns(16))
	w.usable(t, "r1", "r2")
	stop := w.reading(t, 8, 10*time.Millisecond)
	eventually(t, "r2 answers reads", func() bool { return w.stats("r2").Reads > 20 })
	must(t, pg.Promote(t.Context(), "r2"))
	promoted := time.Now()
	eventually(t, "r2 is known to be promoted", func() bool { return !w.became("r2", replica.Promoted).IsZero() })
	known := w.became("r2", replica.Promoted)
	within(t, "r2 known to be promoted", known.Sub(promoted), poll(s))
	if at := w.spread(t, 50); at["r2"] != 0 {
		t.Errorf("%d of 50 reads went to the promoted node, want 0", at["r2"])
	}
	answered := w.stats("r1").Reads
	eventually(t, "reads began while r2 was out", func() bool { return w.stats("r1").Reads > answered+20 })
	leftAlone(t, "r2", of(stop(), func(r read) bool { return r.begun.After(known) }))
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
