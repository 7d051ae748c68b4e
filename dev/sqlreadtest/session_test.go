package sqlreadtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// behaviours-routing 44: a write in a read, by whatever method, is refused by the replica, told as
// such, and neither tried again nor counted.
func TestWriteInReadIsRefused(t *testing.T) {
	const cte = "WITH x AS (INSERT INTO item (note) VALUES ('cte') RETURNING id) SELECT 1"
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			reader := w.Reader(anywhere)
			prepared, err := reader.PrepareContext(t.Context(), cte) //nolint:sqlclosecheck // it is closed
			must(t, err)
			defer prepared.Close()
			for name, run := range map[string]func(ctx context.Context) error{
				"QueryRow": func(ctx context.Context) error {
					var n int
					return reader.QueryRowContext(ctx, cte).Scan(&n)
				},
				"Query": func(ctx context.Context) error {
					_, err := all(reader.QueryContext(ctx, cte))
					return err
				},
				"Exec": func(ctx context.Context) error { _, err := reader.ExecContext(ctx, cte); return err },
				"Stmt": func(ctx context.Context) error { _, err := prepared.ExecContext(ctx); return err },
				"WithRead": func(ctx context.Context) error {
					_, err := w.ExecContext(sqlread.WithRead(ctx, anywhere), cte)
					return err
				},
				"Tx": func(ctx context.Context) error {
					tx, err := reader.BeginTx(ctx, nil)
					must(t, err)
					defer tx.Rollback()
					_, err = tx.ExecContext(ctx, cte)
					return err
				},
			} {
				var info sqlread.ReadInfo
				err := run(sqlread.WithInfo(t.Context(), &info))
				if told, ok := errors.AsType[*sqlread.WriteInReadError](err); !ok || told.Node != info.Node || !errors.Is(err, sqlread.ErrWriteInRead) {
					t.Errorf("%s: error %v, want a *WriteInReadError of %s", name, err, info.Node)
				}
				if info.Attempts != 1 || info.Primary {
					t.Errorf("%s: %d attempts, the last on %s, want 1 on a replica", name, info.Attempts, info.Node)
				}
			}
			var n int
			must(t, w.QueryRowContext(t.Context(), "SELECT count(*) FROM item WHERE note = 'cte'").Scan(&n))
			if n != 0 {
				t.Errorf("%d rows written, want 0", n)
			}
			w.unharmed(t)
			w.idle(t)
		})
	}
}

// behaviours-routing 44: what a call is its caller says, and no text of it.
func TestIntentIsExplicit(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			primary := nodeOf("primary").Port
			read := sqlread.WithRead(t.Context(), anywhere)
			readOnly, readWrite := &sql.TxOptions{ReadOnly: true}, &sql.TxOptions{}
			for _, c := range []struct {
				name    string
				primary bool
				port    func() (int, error)
			}{
				{"DB", true, func() (int, error) { return portOf(t.Context(), w) }},
				{"DB under WithRead", false, func() (int, error) { return portOf(read, w) }},
				{"Reader", false, func() (int, error) { return portOf(t.Context(), w.Reader(anywhere)) }},
				{"Reader of the primary", true, func() (int, error) { return portOf(t.Context(), w.Reader(replica.Requirement{PrimaryOnly: true})) }},
				{"transaction", true, func() (int, error) { return inTx(t.Context(), w.DB.DB, nil) }},
				{"read-only transaction", false, func() (int, error) { return inTx(t.Context(), w.DB.DB, readOnly) }},
				{"read-write transaction under WithRead", true, func() (int, error) { return inTx(read, w.DB.DB, readWrite) }},
				{"serializable read-only", true, func() (int, error) {
					return inTx(t.Context(), w.DB.DB, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelSerializable})
				}},
				{"Reader's transaction", false, func() (int, error) { return inTx(t.Context(), w.Reader(anywhere), readWrite) }},
				{"Reader's serializable", true, func() (int, error) {
					return inTx(t.Context(), w.Reader(anywhere), &sql.TxOptions{Isolation: sql.LevelSerializable})
				}},
			} {
				port, err := c.port()
				if err != nil || (port == primary) != c.primary {
					t.Errorf("%s: port %d, error %v; on the primary (%d): want %v", c.name, port, err, primary, c.primary)
				}
			}
			must(t, w.PingContext(t.Context()))
			must(t, w.Reader(anywhere).PingContext(t.Context()))
			w.idle(t)
		})
	}
}

// inTx reads the port twice in a transaction, which must be the same.
func inTx(ctx context.Context, db *sql.DB, opts *sql.TxOptions) (int, error) {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	first, err := portOf(ctx, tx)
	if err != nil {
		return 0, err
	}
	second, err := portOf(ctx, tx)
	if err == nil && first != second {
		err = errors.New("a transaction changed its server")
	}
	return first, errors.Join(err, tx.Commit())
}

// behaviours-routing 47: a prepared statement runs on every node and within transactions of each, prepared once a
// connection; a transaction of another DB has nothing to do with it.
func TestPreparedStatements(t *testing.T) {
	const byName = "SELECT current_setting('port')::int FROM generate_series(1, $1::int) n LIMIT 1"
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick(), func(c *sqlread.Config) {
				c.Primary.MaxConns, c.Replicas[0].MaxConns, c.Replicas[1].MaxConns = 1, 1, 1
			})
			w.usable(t, "r1", "r2")
			st, err := w.PrepareContext(t.Context(), byName)
			must(t, err)
			defer st.Close()
			port := func(ctx context.Context, st *sql.Stmt) (port int) {
				must(t, st.QueryRowContext(ctx, 3).Scan(&port))
				return port
			}
			seen := map[int]bool{}
			for range 40 {
				seen[port(sqlread.WithRead(t.Context(), anywhere), st)] = true
				seen[port(t.Context(), st)] = true
			}
			if len(seen) != 3 {
				t.Errorf("answered on %d servers, want 3", len(seen))
			}
			for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}} {
				tx, err := w.BeginTx(t.Context(), opts)
				must(t, err)
				want, err := portOf(t.Context(), tx)
				must(t, err)
				if got := port(t.Context(), tx.StmtContext(t.Context(), st)); got != want {
					t.Errorf("statement of a transaction on port %d, want %d", got, want)
				}
				must(t, tx.Commit())
			}
			var n int
			must(t, w.Reader(anywhere).QueryRowContext(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement = $1", byName).Scan(&n))
			if n != 1 {
				t.Errorf("prepared %d times on one connection, want once", n)
			}
			if _, err := st.ExecContext(t.Context(), "no number"); err == nil {
				t.Error("a wrong argument: no error")
			}
			if _, err := st.ExecContext(t.Context()); err == nil {
				t.Error("no argument: no error")
			}
			w.unharmed(t)
			w.idle(t)
		})
	}
}

// A statement whose tables have changed is prepared anew.
func TestPreparedStatementOutlivesItsTable(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			make := func(columns string) {
				must(t, runSQL(t.Context(), dsn("primary"), "DROP TABLE IF EXISTS shape; CREATE TABLE shape AS SELECT "+columns))
			}
			make("1 AS a")
			st, err := w.PrepareContext(t.Context(), "SELECT * FROM shape")
			must(t, err)
			defer st.Close()
			var a, b int
			must(t, st.QueryRowContext(t.Context()).Scan(&a))
			make("1 AS a, 2 AS b")
			first := st.QueryRowContext(t.Context()).Scan(&a, &b)
			if err := st.QueryRowContext(t.Context()).Scan(&a, &b); err != nil || b != 2 {
				t.Errorf("second use: %d, %v, want 2 (first use: %v)", b, err, first)
			}
		})
	}
}

// A sql.Conn is one session on one server, and goes back clean.
func TestConnIsOneSession(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			read := sqlread.WithRead(t.Context(), anywhere)
			pid := func(ctx context.Context, c *sql.Conn) (pid int) {
				must(t, c.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid))
				return pid
			}
			conn, err := w.Conn(t.Context())
			must(t, err)
			defer conn.Close()
			first := pid(t.Context(), conn)
			_, err = conn.ExecContext(t.Context(), "SELECT pg_advisory_lock(7)")
			must(t, err)
			for range 10 {
				if got := pid(t.Context(), conn); got != first {
					t.Fatalf("session %d, want %d", got, first)
				}
			}
			if got := pid(read, conn); got != first {
				t.Errorf("a read of the session is on %d, want %d", got, first)
			}
			var freed bool
			must(t, conn.QueryRowContext(t.Context(), "SELECT pg_advisory_unlock(7)").Scan(&freed))
			if !freed {
				t.Error("the lock was of another session")
			}
			must(t, conn.Close())

			conn, err = w.Conn(t.Context())
			must(t, err)
			pid(read, conn)
			if _, err := conn.ExecContext(t.Context(), "SELECT 1"); !errors.Is(err, sqlread.ErrWriteInRead) {
				t.Errorf("what is no read, in a session of reads: error %v, want ErrWriteInRead", err)
			}
			if _, err := conn.BeginTx(t.Context(), nil); !errors.Is(err, sqlread.ErrWriteInRead) {
				t.Errorf("transaction in a session of reads: error %v, want ErrWriteInRead", err)
			}
			tx, err := conn.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
			must(t, err)
			_, err = portOf(t.Context(), tx)
			must(t, err)
			must(t, tx.Commit())
			must(t, conn.Close())
			w.unharmed(t)
			w.idle(t)
		})
	}
}

// behaviours-breaker 34, REQ-B9: what the end of a call's time says about its node.
func TestWhoseTimeRanOut(t *testing.T) {
	const slow = "SELECT pg_sleep(30)"
	short := func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, 100*time.Millisecond)
	}
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
		{"caller's deadline, call not slow", 0, short, context.DeadlineExceeded, 0, 1},
		{"caller's deadline, call slow", 50 * time.Millisecond, short, context.DeadlineExceeded, 1, 1},
		{"call timeout", 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return sqlread.WithCallTimeout(ctx, 100*time.Millisecond), func() {}
		}, sqlread.ErrCallTimeout, 2, 2},
	} {
		for drv := range drivers {
			t.Run(drv, func(t *testing.T) {
				t.Run(c.name, func(t *testing.T) {
					w := open(t, drv, quick(), func(cfg *sqlread.Config) { cfg.SlowCall = c.slowCall })
					w.usable(t, "r1", "r2")
					ctx, cancel := c.ctx(t.Context())
					defer cancel()
					var info sqlread.ReadInfo
					var void any
					err := w.Reader(anywhere).QueryRowContext(sqlread.WithInfo(ctx, &info), slow).Scan(&void)
					if !errors.Is(err, c.want) {
						t.Errorf("error %v, want %v", err, c.want)
					}
					if got := w.stats("r1").Breaker.Failures + w.stats("r2").Breaker.Failures; got != c.failures {
						t.Errorf("%d failures counted, want %d", got, c.failures)
					}
					if info.Attempts != c.attempts {
						t.Errorf("%d attempts, want %d", info.Attempts, c.attempts)
					}
					w.idle(t)
				})
			})
		}
	}
}

// REQ-B11: the call timeout bounds the rows too, and each statement of a transaction.
func TestCallTimeoutCoversTheRows(t *testing.T) {
	// Rows that are larger than the server's buffer come one by one.
	const trickle = "SELECT repeat('x', 10000), pg_sleep(0.02) FROM generate_series(1, 50)"
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			run := func(d time.Duration, db *sql.DB) error {
				n, err := all(db.QueryContext(sqlread.WithCallTimeout(t.Context(), d), trickle))
				if n == 0 {
					t.Error("no row before the end")
				}
				return err
			}
			for name, db := range map[string]*sql.DB{"read": w.Reader(anywhere), "primary": w.DB.DB} {
				if err := run(200*time.Millisecond, db); !errors.Is(err, sqlread.ErrCallTimeout) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s, 200 ms: error %v, want ErrCallTimeout", name, err)
				}
				must(t, run(-1, db))
			}
			tx, err := w.BeginTx(sqlread.WithCallTimeout(t.Context(), 200*time.Millisecond), nil)
			must(t, err)
			for range 4 { // together longer than the timeout of BEGIN
				_, err = tx.ExecContext(t.Context(), "SELECT pg_sleep(0.1)")
				must(t, err)
			}
			must(t, tx.Commit())
			w.idle(t)
		})
	}
}

// REQ-R6, behaviours-routing 17, 20: a full pool and a query's own fault count for nobody.
func TestWhatDoesNotCount(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick(), func(c *sqlread.Config) { c.Replicas[0].MaxConns = 1 })
			w.usable(t, "r1", "r2")
			for _, q := range []string{"SELEC 1", "SELECT 1/0", "SELECT * FROM no_such_table"} {
				for range 5 {
					var info sqlread.ReadInfo
					_, err := w.Reader(anywhere).ExecContext(sqlread.WithInfo(t.Context(), &info), q)
					if _, ok := errors.AsType[interface {
						error
						SQLState() string
					}](err); !ok {
						t.Fatalf("%s: error %v, want the server's", q, err)
					}
					if info.Attempts != 1 {
						t.Errorf("%s: %d attempts, want 1", q, info.Attempts)
					}
				}
			}
			held, err := w.Reader(onR1).Conn(t.Context())
			must(t, err)
			_, err = portOf(t.Context(), held)
			must(t, err)
			if _, err := w.port(t.Context(), onR1); !errors.Is(err, replica.ErrSaturated) {
				t.Errorf("read on the full r1: error %v, want ErrSaturated", err)
			}
			if at := w.spread(t, 10); at["r2"] != 10 {
				t.Errorf("reads by node %v, want all on r2", at)
			}
			must(t, held.Close())
			_, err = w.port(t.Context(), onR1)
			must(t, err)
			w.unharmed(t)
			w.idle(t)
		})
	}
}

// A primary that was restarted fails no write for its pool's dead connections.
func TestRestartedPrimary(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			w := open(t, drv, quick(), func(c *sqlread.Config) { c.Primary.MaxConns = 8 })
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if _, err := w.ExecContext(t.Context(), "SELECT pg_sleep(0.05)"); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			must(t, pg.Kill("primary"))
			must(t, pg.Restart(t.Context(), "primary"))
			for range 10 {
				_, err := w.ExecContext(t.Context(), "INSERT INTO tick VALUES (1)")
				must(t, err)
			}
			w.idle(t)
		})
	}
}

// What a caller leaves by the end of its context is given back: a transaction, and rows in the middle.
func TestLeftByItsCaller(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			for _, db := range []*sql.DB{w.DB.DB, w.Reader(anywhere)} {
				ctx, cancel := context.WithCancel(t.Context())
				tx, err := db.BeginTx(ctx, nil)
				must(t, err)
				_, err = portOf(ctx, tx)
				must(t, err)
				rows, err := db.QueryContext(ctx, "SELECT repeat('x', 1000) FROM generate_series(1, 100000)") //nolint:sqlclosecheck,rowserrcheck // that is the test
				must(t, err)
				rows.Next()
				cancel()
				eventually(t, "the transaction is over", func() bool { return errors.Is(tx.Commit(), sql.ErrTxDone) || tx.Rollback() != nil })
			}
			for _, node := range []string{"primary", "r1", "r2"} {
				eventually(t, node+" has no connection in use", func() bool { return w.PoolStats(node).InUse == 0 })
			}
			w.idle(t)
			w.unharmed(t)
		})
	}
}
