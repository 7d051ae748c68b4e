package sqlread_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// REQ-R7: a read whose connection turns out to be bad does not dial its node anew if that has opened meanwhile.
func TestGuardOfTheSecondConnection(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		for _, s := range r.r {
			s.do(func(_ context.Context, step, _ string) error {
				if step != "query" || r.r[0].count("query")+r.r[1].count("query") > 1 {
					return nil
				}
				r.must(r.Set().Breaker(s.name).Force(breaker.ForcedOpen, "test"))
				return driver.ErrBadConn
			})
		}
		info, err := r.read(r.t.Context(), anywhere)
		r.must(err)
		if info.Attempts != 1 {
			t.Errorf("%d attempts, want 1: the other node's", info.Attempts)
		}
		for _, s := range r.r {
			if got := s.count("connect"); got != 1 {
				t.Errorf("%s: %d dials, want 1", s.name, got)
			}
		}
	})
}

// A full pool fails no probe: its replica closes once there is a place.
func TestFullPoolIsNoFailedProbe(t *testing.T) {
	inBubble(t, 1, func(_ *rig, cfg *sqlread.Config) { cfg.Replicas[0].MaxConns = 1 }, func(r *rig) {
		tx, err := r.Reader(anywhere).BeginTx(r.t.Context(), nil)
		r.must(err)
		r.r[0].down.Store(true)
		time.Sleep(3 * time.Second)
		r.r[0].down.Store(false)
		openings := r.stats(r.r[0]).Breaker.Openings
		time.Sleep(30 * time.Second)
		if b := r.stats(r.r[0]).Breaker; b.State != breaker.HalfOpen || b.Openings != openings {
			t.Errorf("%v after %d openings, want half_open after %d", b.State, b.Openings, openings)
		}
		r.must(tx.Rollback())
		time.Sleep(2 * time.Minute)
		if b := r.stats(r.r[0]).Breaker; b.State != breaker.Closed {
			t.Errorf("%v, want closed", b.State)
		}
	})
}

// A driver that ignores its context ends a transaction one second after the timeout.
func TestCommitThatHangs(t *testing.T) {
	inBubble(t, 0, nil, func(r *rig) {
		closed := make(chan struct{})
		r.primary.do(func(_ context.Context, step, _ string) error {
			switch step {
			case "close":
				close(closed)
			case "commit":
				<-closed
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		tx, err := r.BeginTx(r.t.Context(), nil)
		r.must(err)
		begun := time.Now()
		if err := tx.Commit(); !errors.Is(err, sqlread.ErrCallTimeout) || time.Since(begun) != 3*time.Second {
			t.Errorf("error %v after %v, want ErrCallTimeout after 3 s", err, time.Since(begun))
		}
	})
}

// A sampler whose driver ignores its context is bounded too.
func TestSampleThatHangs(t *testing.T) {
	inBubble(t, 1, nil, func(r *rig) {
		r.r[0].hang.Store(true)
		time.Sleep(3 * time.Second)
		if st := r.stats(r.r[0]); st.Condition != replica.Unreachable || st.Breaker.State == breaker.Closed {
			t.Errorf("%v, breaker %v, want unreachable and not closed", st.Condition, st.Breaker.State)
		}
		r.r[0].hang.Store(false)
		time.Sleep(2 * time.Minute)
		if st := r.stats(r.r[0]); st.Breaker.State != breaker.Closed {
			t.Errorf("breaker %v, want closed", st.Breaker.State)
		}
	})
}

// A sql.Conn is one session: where its first statement went.
func TestConnIsOneSession(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		under := sqlread.WithRead(r.t.Context(), anywhere)
		conn, err := r.Conn(under)
		r.must(err)
		for range 10 {
			r.must(conn.PingContext(under))
		}
		if a, b := r.r[0].count("connect"), r.r[1].count("connect"); a+b != 1 {
			t.Errorf("%d and %d connections, want 1", a, b)
		}
		if err := conn.PingContext(r.t.Context()); !errors.Is(err, sqlread.ErrWriteInRead) {
			t.Errorf("what is no read in a session of reads: error %v, want ErrWriteInRead", err)
		}
		if _, err := conn.BeginTx(under, nil); !errors.Is(err, sqlread.ErrWriteInRead) {
			t.Errorf("transaction in a session of reads: error %v, want ErrWriteInRead", err)
		}
		r.must(conn.Close())
		conn, err = r.Conn(r.t.Context())
		r.must(err)
		r.must(conn.PingContext(r.t.Context()))
		r.must(conn.PingContext(under)) // on the primary, which is fresh
		if got := r.primary.count("exec"); got != 2 {
			t.Errorf("%d pings of the primary, want 2", got)
		}
		r.must(conn.Close())
	})
}

// REQ-R6: a read of the primary is not tried again, nor one whose caller has left.
func TestReadThatIsNotTriedAgain(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		r.primary.fails("query", -1, io.ErrUnexpectedEOF)
		info, err := r.read(r.t.Context(), replica.Requirement{PrimaryOnly: true})
		if !errors.Is(err, io.ErrUnexpectedEOF) || info.Attempts != 1 || !info.Primary {
			t.Errorf("read of the primary: %d attempts, error %v, want 1 with io.ErrUnexpectedEOF", info.Attempts, err)
		}
		for _, s := range r.r {
			s.do(func(ctx context.Context, step, _ string) error {
				if step == "query" {
					<-ctx.Done()
					return driver.ErrBadConn
				}
				return nil
			})
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 100*time.Millisecond)
		defer cancel()
		info, err = r.read(ctx, anywhere)
		if !errors.Is(err, context.DeadlineExceeded) || info.Attempts != 1 {
			t.Errorf("read whose caller left: %d attempts, error %v, want 1 with context.DeadlineExceeded", info.Attempts, err)
		}
		for _, s := range r.r {
			if got := r.stats(s).Breaker.Failures; got != 0 {
				t.Errorf("%s: %d failures counted, want 0", s.name, got)
			}
		}
	})
}

// A read that waits for its connection while its replica is removed ends well, and counts for nobody.
func TestRemovedWhileConnecting(t *testing.T) {
	inBubble(t, 1, nil, func(r *rig) {
		answer := make(chan struct{})
		r.r[0].do(func(_ context.Context, step, _ string) error {
			if step == "connect" {
				<-answer
			}
			return nil
		})
		ended := make(chan error)
		go func() {
			_, err := r.read(r.t.Context(), anywhere)
			ended <- err
		}()
		synctest.Wait()
		r.must(r.RemoveReplica("r1"))
		close(answer)
		r.must(<-ended)
		synctest.Wait()
		if got := r.r[0].opened(0); got != 0 {
			t.Errorf("%d connections open, want 0", got)
		}
	})
}

// Serializable transactions go to the primary, which alone can run them; all of a Reader's
// are read-only there too.
func TestSerializable(t *testing.T) {
	inBubble(t, 1, nil, func(r *rig) {
		opts := &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}
		for _, db := range []*sql.DB{r.DB.DB, r.Reader(anywhere)} {
			tx, err := db.BeginTx(r.t.Context(), opts)
			r.must(err)
			r.must(tx.Commit())
		}
		if got := r.primary.count("begin read only"); got != 2 {
			t.Errorf("%d read-only transactions of the primary, want 2", got)
		}
	})
}

// A statement of a transaction is never sent on another connection, and a bad one ends with it.
func TestBadConnectionInATransaction(t *testing.T) {
	inBubble(t, 0, nil, func(r *rig) {
		tx, err := r.BeginTx(r.t.Context(), nil)
		r.must(err)
		r.primary.fails("exec", 1, driver.ErrBadConn)
		if _, err := tx.ExecContext(r.t.Context(), "write"); err == nil || errors.Is(err, driver.ErrBadConn) {
			t.Errorf("error %v, want one that is no driver.ErrBadConn", err)
		}
		r.must(tx.Rollback())
		if sent, dials := r.primary.count("exec"), r.primary.count("connect"); sent != 1 || dials != 1 || r.primary.writes.Load() != 0 {
			t.Errorf("sent %d times on %d connections, want once on 1", sent, dials)
		}
		if got := r.primary.opened(0); got != 0 {
			t.Errorf("%d connections open, want 0", got)
		}
	})
}
