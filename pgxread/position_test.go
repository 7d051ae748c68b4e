package pgxread_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// writing is a way to write a row and to have a position that covers it.
type writing func(ctx context.Context, w *watched, note string) (id int64, p replica.Position, err error)

const insertItem = "INSERT INTO item (note) VALUES ($1) RETURNING id"

// thenPosition asks for the position after a commit of its own.
func thenPosition(ctx context.Context, w *watched, note string) (id int64, p replica.Position, err error) {
	if err = w.QueryRow(ctx, insertItem, note).Scan(&id); err == nil {
		p, err = w.Position(ctx)
	}
	return id, p, err
}

// thenSampler has it from the sampler's next look.
func thenSampler(ctx context.Context, w *watched, note string) (id int64, p replica.Position, err error) {
	if err = w.QueryRow(ctx, insertItem, note).Scan(&id); err == nil {
		p, err = w.Set().Position(ctx)
	}
	return id, p, err
}

// committed has it with the commit, which is as synchronous as that says.
func committed(synchronous string) writing {
	return func(ctx context.Context, w *watched, note string) (id int64, p replica.Position, err error) {
		transaction, err := w.Begin(ctx)
		if err != nil {
			return 0, p, err
		}
		defer transaction.Rollback(ctx)
		if _, err = transaction.Exec(ctx, "SET LOCAL synchronous_commit = "+synchronous); err != nil {
			return 0, p, err
		}
		if err = transaction.QueryRow(ctx, insertItem, note).Scan(&id); err == nil {
			p, err = pgxread.CommitPosition(ctx, transaction)
		}
		return id, p, err
	}
}

// ownWrites counts what became of reads of one's own writes.
type ownWrites struct{ reads, missed, onReplicas, refused atomic.Int64 }

// do writes a row and reads it by its id with its position, from a replica if one has it in time, else from the primary.
func (o *ownWrites) do(t *testing.T, w *watched, write writing, note string) {
	t.Helper()
	ctx := t.Context()
	id, p, err := write(ctx, w, note)
	if err != nil {
		t.Error(err)
		return
	}
	info, err := readItem(replica.WithPosition(ctx, p), w, id, replica.Requirement{})
	if errors.Is(err, replica.ErrBehind) {
		o.refused.Add(1)
		info, err = readItem(ctx, w, id, replica.Requirement{PrimaryOnly: true, Position: p})
	}
	o.reads.Add(1)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		o.missed.Add(1)
	case err != nil:
		t.Error(err)
	case !info.Primary:
		o.onReplicas.Add(1)
	}
}

func readItem(ctx context.Context, w *watched, id int64, r replica.Requirement) (info pgxread.ReadInfo, err error) {
	var note string
	err = w.Reader(r).QueryRow(pgxread.WithInfo(ctx, &info), "SELECT note FROM item WHERE id = $1", id).Scan(&note)
	return info, err
}

// delayed has both replicas replay each commit 50 ms late.
func delayed(t *testing.T) *watched {
	t.Helper()
	broken(t)
	for _, r := range []string{"r1", "r2"} {
		must(t, pg.SetApplyDelay(t.Context(), r, 50*time.Millisecond))
	}
	w := open(t, quick(), []string{"r1", "r2"}, func(c *pgxread.Config) { c.Primary.DSN += "&pool_max_conns=16" })
	w.usable(t, "r1", "r2")
	return w
}

// behaviours-routing 39 and 42, REQ-R12: a thousand times insert and read by id with the position, by
// eight at a time, where replicas are 50 ms late. Nobody misses his row, and replicas serve the reads.
func TestReadYourWrites(t *testing.T) {
	const each, writers = 250, 8
	w := delayed(t)
	for name, write := range map[string]writing{
		"position after the commit": thenPosition, "position from the sampler": thenSampler,
		"position with the commit": committed("on"), "position with an asynchronous commit": committed("off"),
	} {
		t.Run(name, func(t *testing.T) {
			var o ownWrites
			var wg sync.WaitGroup
			before, begun := len(w.samplesOf("r1")), time.Now()
			for i := range writers {
				wg.Go(func() {
					for j := i; j < each; j += writers {
						o.do(t, w, write, fmt.Sprintf("%s %d %d", name, j, begun.UnixNano()))
					}
				})
			}
			wg.Wait()
			samples, took := len(w.samplesOf("r1"))-before, time.Since(begun)
			t.Logf("%d reads, %d missed, %d on replicas, %d refused by them; %d samples of r1 in %v",
				o.reads.Load(), o.missed.Load(), o.onReplicas.Load(), o.refused.Load(), samples, took)
			if o.missed.Load() != 0 || o.reads.Load() != each {
				t.Errorf("%d of %d reads missed their row", o.missed.Load(), o.reads.Load())
			}
			// An asynchronous commit is written to disk, and so sent to replicas, up to 3 × wal_writer_delay (200 ms) later.
			if o.onReplicas.Load() < each/2 && !strings.Contains(name, "asynchronous") {
				t.Errorf("%d of %d reads were served by replicas, want at least half", o.onReplicas.Load(), each)
			}
			if most := int(took/(10*time.Millisecond)) + each; samples > most { // each read that is the first to wait wakes the sampler
				t.Errorf("%d samples of r1 in %v, want at most %d", samples, took, most)
			}
		})
	}
}

// The test above can fail: without positions the same reads miss their rows.
func TestReadsWithoutPositionsMiss(t *testing.T) {
	w := delayed(t)
	without := func(ctx context.Context, w *watched, note string) (id int64, _ replica.Position, err error) {
		id, _, err = thenPosition(ctx, w, note)
		return id, replica.Position{}, err
	}
	var o ownWrites
	for i := range 20 {
		o.do(t, w, without, fmt.Sprintf("without %d %d", i, time.Now().UnixNano()))
	}
	if o.missed.Load() == 0 {
		t.Error("20 reads without a position missed nothing: the delay does not show")
	}
}

// A position that every replica has long replayed is not waited for.
func TestOldPositionIsNotWaitedFor(t *testing.T) {
	w := open(t, quick(), []string{"r1", "r2"}, func(c *pgxread.Config) { c.PositionWait = -1 })
	w.usable(t, "r1", "r2")
	p, err := w.Position(t.Context())
	must(t, err)
	must(t, pg.CatchUp(t.Context()))
	eventually(t, "both replicas are known to hold it", func() bool {
		return w.stats("r1").Position >= p.LSN && w.stats("r2").Position >= p.LSN
	})
	w.write(t, 100)
	at := map[string]int{}
	for range 100 {
		info, err := w.port(replica.WithPosition(t.Context(), p), replica.Requirement{})
		must(t, err)
		at[info.Node]++
	}
	if at["r1"] == 0 || at["r2"] == 0 {
		t.Errorf("reads went to %v, want both replicas", at)
	}
}

// A replica at rest reaches a position that was taken at the start of a WAL segment: it is normalised.
func TestPositionAtASegmentStart(t *testing.T) {
	w := open(t, quick(), []string{"r1"}, func(c *pgxread.Config) { c.PositionWait = 5 * time.Second })
	w.usable(t, "r1")
	must(t, pg.SwitchSegment(t.Context()))
	p, err := w.Position(t.Context())
	must(t, err)
	if _, err := w.port(t.Context(), replica.Requirement{Position: p}); err != nil {
		t.Error(err)
	}
}

// REQ-R12: a wait is bounded; then the caller hears what is missing, and may ask the primary.
func TestPositionThatNobodyReaches(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1"}, func(c *pgxread.Config) { c.PositionWait = 50 * time.Millisecond })
	w.usable(t, "r1")
	must(t, pg.Pause(t.Context(), "r1"))
	id, p, err := committed("on")(t.Context(), w, fmt.Sprintf("paused %d", time.Now().UnixNano()))
	must(t, err)
	read := pgxread.WithRead(t.Context(), replica.Requirement{Position: p})
	for name, try := range map[string]func() error{
		"Reader": func() error { _, err := readItem(t.Context(), w, id, replica.Requirement{Position: p}); return err },
		"context": func() error {
			_, err := readItem(replica.WithPosition(t.Context(), p), w, id, replica.Requirement{})
			return err
		},
		"Exec":  func() error { _, err := w.Exec(read, "SELECT 1"); return err },
		"batch": func() error { return w.SendBatch(read, threeQueries()).Close() },
		"transaction": func() error {
			_, err := w.BeginTx(read, pgx.TxOptions{AccessMode: pgx.ReadOnly})
			return err
		},
	} {
		err := try()
		if !errors.Is(err, replica.ErrBehind) {
			t.Errorf("%s: %v, want ErrBehind", name, err)
			continue
		}
		reason(t, err, "r1", replica.Behind)
	}
	ctx, cancel := context.WithCancel(read)
	cancel()
	if _, err := w.Exec(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	info, err := readItem(t.Context(), w, id, replica.Requirement{PrimaryOnly: true, Position: p})
	if err != nil || !info.Primary {
		t.Errorf("primary only: %+v, %v", info, err)
	}
}

// A position of another cluster is an error, one of an older timeline is for the primary.
func TestPositionOfAnotherHistory(t *testing.T) {
	w := open(t, quick(), []string{"r1"})
	w.usable(t, "r1")
	p, err := w.Position(t.Context())
	must(t, err)
	foreign, newer := p, p
	foreign.SystemID = "1"
	newer.Timeline++
	for _, tc := range []struct {
		name     string
		position replica.Position
		primary  bool
		want     func(error) bool
	}{
		{"other cluster", foreign, false, func(err error) bool { return errors.Is(err, replica.ErrForeignPosition) }},
		{"other cluster, primary", foreign, true, func(err error) bool { return errors.Is(err, replica.ErrForeignPosition) }},
		{"newer timeline", newer, false, func(err error) bool {
			return errors.Is(err, replica.ErrNoReplica) && !errors.Is(err, replica.ErrBehind)
		}},
		{"newer timeline, primary", newer, true, func(err error) bool {
			e, ok := errors.AsType[*replica.PositionError](err)
			return ok && e.Condition == replica.OtherTimeline
		}},
	} {
		if _, err := w.port(t.Context(), replica.Requirement{Position: tc.position, PrimaryOnly: tc.primary}); !tc.want(err) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if _, err := w.port(replica.WithPosition(t.Context(), p), replica.Requirement{Position: foreign}); !errors.Is(err, replica.ErrForeignPosition) {
		t.Errorf("two clusters in one read: %v", err)
	}
}

// REQ-R12: a position outlives a promotion: it is of the old timeline, which the new primary holds.
func TestPositionAfterAPromotion(t *testing.T) {
	broken(t)
	old := open(t, quick(), []string{"r1", "r2"})
	id, p, err := thenPosition(t.Context(), old, fmt.Sprintf("promoted %d", time.Now().UnixNano()))
	must(t, err)
	must(t, pg.CatchUp(t.Context(), "r1", "r3"))
	must(t, pg.Promote(t.Context(), "r1"))
	w := open(t, quick(), []string{"r3"}, func(c *pgxread.Config) { c.Primary.DSN = dsn("r1") })
	w.usable(t, "r3")
	_, err = readItem(t.Context(), w, id, replica.Requirement{Position: p})
	reason(t, err, "r3", replica.OtherTimeline)
	info, err := readItem(t.Context(), w, id, replica.Requirement{Position: p, PrimaryOnly: true})
	if err != nil || !info.Primary {
		t.Errorf("from the new primary: %+v, %v", info, err)
	}
	id, newer, err := committed("on")(t.Context(), w, fmt.Sprintf("newer %d", time.Now().UnixNano()))
	must(t, err)
	if newer.Timeline != p.Timeline+1 || newer.SystemID != p.SystemID {
		t.Errorf("position %v of the new primary, %v of the old", newer, p)
	}
	if merged, err := p.Merge(newer); err != nil || merged != newer {
		t.Errorf("merged %v, %v", merged, err)
	}
	info, err = readItem(replica.WithPosition(t.Context(), newer), w, id, replica.Requirement{})
	if err != nil || info.Node != "r3" {
		t.Errorf("its own write on the new timeline: %+v, %v", info, err)
	}
	if _, err := old.port(t.Context(), replica.Requirement{Position: newer, PrimaryOnly: true}); err == nil {
		t.Error("the old primary served a position of the new one")
	}
}

// counted counts what a connection writes: a round trip each, for statements that are sent one by one.
type counted struct {
	net.Conn

	writes *atomic.Int64
}

func (c counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// What each way to a position costs: CommitPosition nothing besides the commit, Position one round trip.
func TestPositionRoundTrips(t *testing.T) {
	var writes atomic.Int64
	w := open(t, blind(), nil, func(c *pgxread.Config) {
		c.Configure = func(_ string, pc *pgxpool.Config) {
			dial := pc.ConnConfig.DialFunc
			pc.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := dial(ctx, network, addr)
				if pgxread.IsCheck(ctx) {
					return conn, err
				}
				return counted{conn, &writes}, err
			}
		}
	})
	begin := func() pgx.Tx {
		transaction, err := w.Begin(t.Context())
		must(t, err)
		_, err = transaction.Exec(t.Context(), "INSERT INTO tick VALUES (1)", pgx.QueryExecModeSimpleProtocol)
		must(t, err)
		t.Cleanup(func() { _ = transaction.Rollback(context.Background()) })
		return transaction
	}
	count := func(f func() error) int64 {
		before := writes.Load()
		must(t, f())
		return writes.Load() - before
	}
	plain, with := begin(), begin()
	for name, got := range map[string]int64{
		"Commit":         count(func() error { return plain.Commit(t.Context()) }),
		"CommitPosition": count(func() error { _, err := pgxread.CommitPosition(t.Context(), with); return err }),
		"Position":       count(func() error { _, err := w.Position(t.Context()); return err }),
	} {
		if got != 1 {
			t.Errorf("%s: %d round trips, want 1", name, got)
		}
	}
	if got := count(func() error { _, err := w.Set().Position(t.Context()); return err }); got != 0 {
		t.Errorf("Set.Position: %d round trips on the pool's connections, want 0", got)
	}
}

// CommitPosition ends a transaction as Commit does, in every way that it can end.
func TestCommitPositionEnds(t *testing.T) {
	w := open(t, blind(), []string{"r1"})
	ctx := t.Context()
	begin := func(opts pgx.TxOptions) pgx.Tx {
		transaction, err := w.BeginTx(ctx, opts)
		must(t, err)
		t.Cleanup(func() { _ = transaction.Rollback(context.Background()) }) //nolint:contextcheck // the test's has ended by then
		return transaction
	}
	done := begin(pgx.TxOptions{})
	if p, err := pgxread.CommitPosition(ctx, done); err != nil || p.IsZero() {
		t.Errorf("a commit: %v, %v", p, err)
	}
	if _, err := pgxread.CommitPosition(ctx, done); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("once more: %v", err)
	}
	if _, err := done.Exec(ctx, "SELECT 1"); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a statement after the commit: %v", err)
	}
	if err := done.Rollback(ctx); !errors.Is(err, pgx.ErrTxClosed) {
		t.Errorf("a rollback after the commit: %v", err)
	}
	failed := begin(pgx.TxOptions{})
	_, _ = failed.Exec(ctx, "SELECT 1/0")
	if p, err := pgxread.CommitPosition(ctx, failed); !errors.Is(err, pgx.ErrTxCommitRollback) || !p.IsZero() {
		t.Errorf("a transaction that had failed: %v, %v", p, err)
	}
	late := begin(pgx.TxOptions{})
	for _, sql := range []string{"CREATE TEMP TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP", "INSERT INTO late VALUES (1), (1)"} {
		_, err := late.Exec(ctx, sql)
		must(t, err)
	}
	if p, err := pgxread.CommitPosition(ctx, late); errors.Is(err, pgxread.ErrNoPosition) || !p.IsZero() {
		t.Errorf("a commit that was refused: %v, %v", p, err)
	} else if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "23505" {
		t.Errorf("a commit that was refused: %v", err)
	}
	if p, err := pgxread.CommitPosition(ctx, begin(pgx.TxOptions{AccessMode: pgx.ReadOnly})); err != nil || !p.IsZero() {
		t.Errorf("a read-only transaction: %v, %v", p, err)
	}
	outer := begin(pgx.TxOptions{})
	inner, err := outer.Begin(ctx)
	must(t, err)
	if _, err := pgxread.CommitPosition(ctx, inner); err == nil {
		t.Error("a savepoint: no error")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := pgxread.CommitPosition(ended, outer); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := pgxread.CommitPosition(ctx, nil); err == nil {
		t.Error("no transaction: no error")
	}
	w.idle(t, "r1")
	eventually(t, "the primary's pool has all of its connections", func() bool { return w.Pool("primary").Stat().AcquiredConns() == 0 })
}

// adminHere is the DSN of the superuser in the tests' database, whose functions have rights of their own.
func adminHere(t *testing.T) string {
	t.Helper()
	admin, err := url.Parse(nodeOf("primary").AdminDSN)
	must(t, err)
	app, err := url.Parse(dsn("primary"))
	must(t, err)
	admin.Path = app.Path
	return admin.String()
}

// A commit whose position cannot be had says that it has committed.
func TestCommittedWithoutAPosition(t *testing.T) {
	w := open(t, blind(), nil)
	ctx := t.Context()
	transaction, err := w.Begin(ctx)
	must(t, err)
	defer transaction.Rollback(ctx)
	note := fmt.Sprintf("no position %d", time.Now().UnixNano())
	var id int64
	must(t, transaction.QueryRow(ctx, insertItem, note).Scan(&id))
	admin, function := adminHere(t), "EXECUTE ON FUNCTION pg_current_wal_insert_lsn()"
	must(t, runSQL(ctx, admin, "REVOKE "+function+" FROM PUBLIC"))
	defer func() {
		must(t, runSQL(context.Background(), admin, "GRANT "+function+" TO PUBLIC"))
		// Whoever reads the catalogue next would tidy up there, in WAL that nobody writes to disk while the
		// primary is idle: the next test may open a DB at once, and replicas would be behind for it.
		must(t, runSQL(context.Background(), admin, "VACUUM pg_proc"))
		must(t, pg.CatchUp(context.Background()))
	}()
	p, err := pgxread.CommitPosition(ctx, transaction)
	if !errors.Is(err, pgxread.ErrNoPosition) || !p.IsZero() {
		t.Errorf("%v, %v, want ErrNoPosition", p, err)
	}
	info, err := readItem(ctx, w, id, replica.Requirement{PrimaryOnly: true})
	if err != nil || !info.Primary {
		t.Errorf("the row is not there: %v", err)
	}
}
