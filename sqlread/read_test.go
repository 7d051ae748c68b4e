package sqlread_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

var anywhere replica.Requirement

// failing has every replica fail in the same way.
func (r *rig) failing(step string, err error) {
	for _, s := range r.r {
		s.fails(step, -1, err)
	}
}

// REQ-R6: which failures of a read are tried once on another node, and what they count for.
func TestSecondTry(t *testing.T) {
	for _, c := range []struct {
		name, step string
		err        error
		attempts   int
		failures   uint64 // of both nodes
	}{
		{"lost at the statement", "query", io.ErrUnexpectedEOF, 2, 2},
		{"lost at the first row", "next", io.ErrUnexpectedEOF, 2, 2},
		{"bad connection at the first row", "next", driver.ErrBadConn, 2, 2},
		{"server is going away", "query", sqlError("57P01"), 2, 2},
		{"full server", "query", sqlError("53300"), 2, 0},
		{"cancelled by recovery", "next", sqlError("40001"), 2, 0},
		{"nothing but bad connections", "query", driver.ErrBadConn, 2, 2},
		{"connect fails", "connect", errors.New("no such host"), 2, 2},
		{"query's own fault", "query", sqlError("42601"), 1, 0},
		{"not known", "query", errors.New("odd"), 1, 0},
		{"write", "query", sqlError("25006"), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 2, nil, func(r *rig) {
				r.failing(c.step, c.err)
				info, err := r.read(r.t.Context(), anywhere)
				if err == nil || errors.Is(err, driver.ErrBadConn) {
					t.Errorf("error %v, want one that is no driver.ErrBadConn", err)
				}
				if got := strings.Contains(err.Error(), "before that"); got != (c.attempts == 2) {
					t.Errorf("error %v; both errors in it: %v", err, got)
				}
				if info.Attempts != c.attempts {
					t.Errorf("%d attempts, want %d", info.Attempts, c.attempts)
				}
				if got := r.stats(r.r[0]).Breaker.Failures + r.stats(r.r[1]).Breaker.Failures; got != c.failures {
					t.Errorf("%d failures counted, want %d", got, c.failures)
				}
				if r.primary.count("query") != 0 {
					t.Error("the primary was asked")
				}
			})
		})
	}
}

// REQ-R6: no second try once a row was delivered, in a transaction, or for a read that is its
// caller's own second try.
func TestNoSecondTry(t *testing.T) {
	lost := func(r *rig, after int) {
		for _, s := range r.r {
			seen := 0
			s.do(func(_ context.Context, step, _ string) error {
				if step == "next" {
					seen++
				}
				if step == "next" && seen > after {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
		}
	}
	for name, run := range map[string]func(r *rig) error{
		"after a row": func(r *rig) error {
			lost(r, 1)
			n, err := all(r.Reader(anywhere).QueryContext(r.t.Context(), "rows 3"))
			if n != 1 {
				t.Errorf("%d rows, want 1", n)
			}
			return err
		},
		"in a transaction": func(r *rig) error {
			tx, err := r.Reader(anywhere).BeginTx(r.t.Context(), nil)
			r.must(err)
			defer tx.Rollback()
			lost(r, 0)
			_, err = all(tx.QueryContext(r.t.Context(), "rows 3"))
			return err
		},
		"own second try": func(r *rig) error {
			lost(r, 0)
			_, err := r.read(r.t.Context(), only(r.r[0]))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, nil, func(r *rig) {
				if err := run(r); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("error %v, want io.ErrUnexpectedEOF", err)
				}
				if got := r.r[0].count("query") + r.r[1].count("query"); got != 1 {
					t.Errorf("sent %d times, want once", got)
				}
				if got := r.stats(r.r[0]).Breaker.Failures + r.stats(r.r[1]).Breaker.Failures; name != "in a transaction" && got != 1 {
					t.Errorf("%d failures counted, want 1", got)
				}
			})
		})
	}
}

// A statement that the driver did not send is sent on another connection of the same node, a
// write too; one that was sent is not, and database/sql is not led to.
func TestBadConnections(t *testing.T) {
	for _, c := range []struct {
		name, step string
		times      int
		query      string
		writes     int64
		sent       int
	}{
		{"three stale connections", "exec", 3, "", 1, 4},
		{"all stale", "exec", -1, "", 0, 5},
		{"lost after it was sent", "next", 1, "write", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 0, func(_ *rig, cfg *sqlread.Config) { cfg.Primary.MaxConns = 4 }, func(r *rig) {
				r.primary.fails(c.step, c.times, driver.ErrBadConn)
				var err error
				if c.query == "" {
					_, err = r.ExecContext(r.t.Context(), "write")
				} else {
					_, err = all(r.QueryContext(r.t.Context(), c.query))
				}
				if (err == nil) != (c.writes == 1 && c.query == "") || errors.Is(err, driver.ErrBadConn) {
					t.Errorf("error %v", err)
				}
				if got := r.primary.writes.Load(); got != c.writes {
					t.Errorf("written %d times, want %d", got, c.writes)
				}
				if got := r.primary.count("exec") + r.primary.count("query"); got != c.sent {
					t.Errorf("tried %d times, want %d", got, c.sent)
				}
				bad := c.sent
				if c.name == "three stale connections" {
					bad = c.times
				}
				if got := r.primary.count("close"); got != bad {
					t.Errorf("%d connections closed, want the %d bad ones", got, bad)
				}
			})
		})
	}
}

// A panic in the driver passes through, and neither holds a connection nor counts.
func TestPanicInTheDriver(t *testing.T) {
	for _, step := range []string{"query", "next", "close rows", "exec", "begin read only", "prepare"} {
		t.Run(step, func(t *testing.T) {
			inBubble(t, 1, nil, func(r *rig) {
				reader := r.Reader(anywhere)
				r.r[0].do(func(_ context.Context, is, _ string) error {
					if is == step {
						panic("scripted")
					}
					return nil
				})
				func() {
					defer func() {
						if recover() == nil {
							t.Error("no panic")
						}
					}()
					switch step {
					case "exec":
						_, _ = reader.ExecContext(r.t.Context(), "x")
					case "begin read only":
						_, _ = reader.BeginTx(r.t.Context(), nil)
					case "prepare":
						st, err := reader.PrepareContext(r.t.Context(), "x")
						r.must(err)
						defer st.Close()
						_, _ = st.ExecContext(r.t.Context())
					default:
						_, _ = all(reader.QueryContext(r.t.Context(), "rows 2"))
					}
				}()
				r.r[0].script.Store(nil)
				if st := r.stats(r.r[0]); st.Breaker.Failures != 0 {
					t.Errorf("%d failures counted, want 0", st.Breaker.Failures)
				}
				if got := r.r[0].opened(0); got != 0 {
					t.Errorf("%d connections open, want 0: the one in the middle of a statement was to be closed", got)
				}
				_, err := r.read(r.t.Context(), anywhere)
				r.must(err)
			})
		})
	}
}

// REQ-B11: a call ends at its timeout, and one second later where the driver does not look
// at its context: then its connection is closed under it.
func TestDriverThatIgnoresItsContext(t *testing.T) {
	for name, c := range map[string]struct {
		obeys bool
		takes time.Duration
	}{"obeys": {true, 2 * time.Second}, "ignores": {false, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, nil, func(r *rig) {
				closed := make(chan struct{})
				r.r[0].do(func(ctx context.Context, step, _ string) error {
					switch step {
					case "close":
						close(closed)
					case "query":
						if c.obeys {
							<-ctx.Done()
							return ctx.Err()
						}
						<-closed
						return io.ErrUnexpectedEOF
					}
					return nil
				})
				begun := time.Now()
				_, err := r.read(r.t.Context(), anywhere)
				if took := time.Since(begun); took != c.takes {
					t.Errorf("took %v, want %v", took, c.takes)
				}
				if !errors.Is(err, sqlread.ErrCallTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want ErrCallTimeout", err)
				}
				if got := r.stats(r.r[0]).Breaker.Failures; got != 1 {
					t.Errorf("%d failures counted, want 1", got)
				}
				r.r[0].script.Store(nil)
			})
		})
	}
}

// A connect that hangs is left after the connect timeout, whatever the driver does, and a
// connection that comes too late is closed.
func TestConnectThatHangs(t *testing.T) {
	inBubble(t, 1, nil, func(r *rig) {
		answer := make(chan struct{})
		r.r[0].do(func(_ context.Context, step, _ string) error {
			if step == "connect" {
				<-answer
			}
			return nil
		})
		begun := time.Now()
		_, err := r.read(r.t.Context(), anywhere)
		if took := time.Since(begun); took != 500*time.Millisecond || err == nil {
			t.Errorf("took %v, error %v, want 500 ms and an error", took, err)
		}
		if got := r.stats(r.r[0]).Breaker.Failures; got != 1 {
			t.Errorf("%d failures counted, want 1", got)
		}
		close(answer)
		time.Sleep(time.Millisecond)
		if got := r.r[0].opened(0); got != 0 {
			t.Errorf("%d connections open, want 0", got)
		}
	})
}

// REQ-R7: when a replica opens its idle connections are closed, those in use when they come
// back, and no request dials it.
func TestFence(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		rows, err := r.Reader(only(r.r[0])).QueryContext(r.t.Context(), "rows 5") //nolint:rowserrcheck // they are left unread
		r.must(err)
		defer rows.Close()
		_, err = r.read(r.t.Context(), only(r.r[0]))
		r.must(err)
		if got := r.r[0].opened(0); got != 2 {
			t.Fatalf("%d connections open, want 2", got)
		}
		r.Set().Breaker("r1").Force(breaker.ForcedOpen, "test")
		time.Sleep(time.Millisecond)
		if got := r.r[0].opened(0); got != 1 {
			t.Errorf("%d connections open, want the 1 in use", got)
		}
		r.must(rows.Close())
		if got := r.r[0].opened(0); got != 0 {
			t.Errorf("%d connections open, want 0", got)
		}
		dials := r.r[0].count("connect")
		for range 20 {
			_, err := r.read(r.t.Context(), anywhere)
			r.must(err)
		}
		if _, err := r.read(r.t.Context(), only(r.r[0])); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("error %v, want ErrNoReplica", err)
		}
		if got := r.r[0].count("connect"); got != dials {
			t.Errorf("%d dials of an open replica, want 0", got-dials)
		}
	})
}

// REQ-R4: a node that opened while a read waited for its connection does not get the read, which is no
// attempt, and does not count against it.
func TestEligibilityIsAskedAfterTheWait(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		answer := make(chan struct{})
		for _, s := range r.r {
			s.do(func(_ context.Context, step, _ string) error {
				if step == "connect" {
					<-answer
				}
				return nil
			})
		}
		ended := make(chan sqlread.ReadInfo)
		go func() {
			info, err := r.read(r.t.Context(), anywhere)
			if err != nil {
				t.Error(err)
			}
			ended <- info
		}()
		synctest.Wait()
		picked, other := "r1", "r2"
		if r.stats(r.r[1]).InFlight == 1 {
			picked, other = other, picked
		}
		r.must(r.Set().Breaker(picked).Force(breaker.ForcedOpen, "test"))
		close(answer)
		if info := <-ended; info.Node != other || info.Attempts != 1 {
			t.Errorf("read on %s in %d attempts, want 1 on %s", info.Node, info.Attempts, other)
		}
		for _, s := range r.r {
			if got := r.stats(s); got.Name == picked && (s.count("query") != 0 || got.Breaker.Failures != 0) {
				t.Errorf("%s: %d queries, %d failures, want 0, 0", picked, s.count("query"), got.Breaker.Failures)
			}
		}
	})
}

// A replica comes back by its sampler's probe, whose connection the first read has (REQ-R9).
func TestComesBack(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		r.r[0].down.Store(true)
		for range 20 {
			if _, err := r.read(r.t.Context(), anywhere); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.r[0].count("connect"); got != 1 {
			t.Errorf("%d dials, want 1: a refused one opens", got)
		}
		time.Sleep(30 * time.Second)
		r.r[0].down.Store(false)
		time.Sleep(2 * time.Minute)
		if st := r.stats(r.r[0]).Breaker.State; st != breaker.Closed {
			t.Fatalf("state %v, want closed", st)
		}
		dials := r.r[0].count("connect")
		_, err := r.read(r.t.Context(), only(r.r[0]))
		r.must(err)
		if got := r.r[0].count("connect"); got != dials {
			t.Errorf("%d more dials, want 0", got-dials)
		}
	})
}

// A connection that leads to another server than the sampler's is not used.
func TestOtherServer(t *testing.T) {
	inBubble(t, 1, func(r *rig, cfg *sqlread.Config) {
		cfg.Replicas[0].SampleConnector = sampler{newServer("other", true)}
	}, func(r *rig) {
		if _, err := r.read(r.t.Context(), anywhere); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("error %v, want ErrNoReplica", err)
		}
		if got := r.r[0].count("query"); got != 0 {
			t.Errorf("%d queries sent to another server, want 0", got)
		}
	})
}

// A transaction stays on its node; its timeout is that of each statement, and the driver may go
// on to use the context of BEGIN.
func TestTransaction(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		tx, err := r.BeginTx(r.t.Context(), &sql.TxOptions{ReadOnly: true})
		r.must(err)
		for range 5 {
			time.Sleep(1900 * time.Millisecond) // together longer than the timeout of 2 s
			_, err = all(tx.QueryContext(r.t.Context(), "rows 2"))
			r.must(err)
		}
		r.must(tx.Commit())
		a, b := r.r[0].count("query"), r.r[1].count("query")
		if a*b != 0 || a+b != 5 {
			t.Errorf("%d and %d queries on the replicas, want all 5 on one", a, b)
		}
		tx, err = r.BeginTx(r.t.Context(), nil)
		r.must(err)
		_, err = tx.ExecContext(r.t.Context(), "write")
		r.must(err)
		r.must(tx.Rollback())
		if got := r.primary.count("begin"); got != 1 {
			t.Errorf("%d transactions of the primary, want 1", got)
		}
		r.primary.do(func(ctx context.Context, step, _ string) error {
			if step == "commit" {
				<-ctx.Done()
			}
			return nil
		})
		tx, err = r.BeginTx(r.t.Context(), nil)
		r.must(err)
		begun := time.Now()
		if err := tx.Commit(); !errors.Is(err, sqlread.ErrCallTimeout) || time.Since(begun) != 2*time.Second {
			t.Errorf("commit on a silent server: error %v after %v, want ErrCallTimeout after 2 s", err, time.Since(begun))
		}
	})
}

// Each connection prepares a statement once, the oldest goes at 256.
func TestPreparedOnce(t *testing.T) {
	inBubble(t, 1, func(_ *rig, cfg *sqlread.Config) { cfg.Replicas[0].MaxConns = 1 }, func(r *rig) {
		use := func(q string) {
			st, err := r.Reader(anywhere).PrepareContext(r.t.Context(), q)
			r.must(err)
			defer st.Close()
			for range 3 {
				_, err = all(st.QueryContext(r.t.Context()))
				r.must(err)
			}
		}
		for i := range 257 {
			use("rows " + strings.Repeat("0", i) + "1")
		}
		if got := r.r[0].count("prepare"); got != 257 {
			t.Errorf("prepared %d times, want 257", got)
		}
		if got := r.r[0].count("close statement"); got != 1 {
			t.Errorf("%d statements closed, want 1", got)
		}
		use("rows 1") // the oldest
		if got := r.r[0].count("prepare"); got != 258 {
			t.Errorf("prepared %d times, want 258", got)
		}
	})
}

// 64 goroutines mix all kinds of calls while a replica comes and goes.
func TestStressMixedCalls(t *testing.T) {
	inBubble(t, 3, func(_ *rig, cfg *sqlread.Config) {
		for i := range cfg.Replicas {
			cfg.Replicas[i].MaxConns = 100
		}
	}, func(r *rig) {
		reader := r.Reader(anywhere)
		st, err := r.PrepareContext(r.t.Context(), "rows 2")
		r.must(err)
		defer st.Close()
		under := sqlread.WithRead(r.t.Context(), anywhere)
		kinds := []func() error{
			func() error { _, err := r.ExecContext(r.t.Context(), "write"); return err },
			func() error { _, err := r.read(r.t.Context(), anywhere); return err },
			func() error { _, err := all(reader.QueryContext(r.t.Context(), "rows 3")); return err },
			func() error { _, err := all(st.QueryContext(under)); return err },
			func() error { return reader.PingContext(r.t.Context()) },
			func() error {
				tx, err := reader.BeginTx(r.t.Context(), nil)
				if err != nil {
					return err
				}
				_, err = all(tx.StmtContext(r.t.Context(), st).QueryContext(r.t.Context())) //nolint:sqlclosecheck // closed with tx
				if err != nil {
					return errors.Join(tx.Rollback(), nil) // its replica went away
				}
				return tx.Commit()
			},
		}
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := range 60 {
					if err := kinds[(g+i)%len(kinds)](); err != nil {
						t.Errorf("kind %d: %v", (g+i)%len(kinds), err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 5 {
			time.Sleep(10 * time.Millisecond)
			r.Set().Breaker("r3").Force(breaker.ForcedOpen, "test")
			time.Sleep(time.Millisecond)
			r.Set().Breaker("r3").Force(breaker.Closed, "test")
		}
		wg.Wait()
		if got := r.primary.writes.Load(); got != 640 {
			t.Errorf("%d writes, want 640", got)
		}
	})
}
