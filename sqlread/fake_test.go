package sqlread_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
	"github.com/breakwater-go/breakwater/sqlread"
)

// sqlError is a server's error.
type sqlError string

func (e sqlError) Error() string    { return "server: " + string(e) }
func (e sqlError) SQLState() string { return string(e) }

// server is a scripted node and the connector of its connections.
//
// Its statements: "rows N" has N rows with the numbers from 1, "write" is counted. Each step of
// a connection that is not the sampler's ("connect", "query", "exec", "prepare", "next", "begin",
// "commit", "rollback", "close", "ping") asks the script first, whose error is its answer.
type server struct {
	name, instance string
	replica        bool
	down           atomic.Bool
	hang           atomic.Bool // samples end only by the close of their connection
	writes         atomic.Int64
	moved          atomic.Int64 // added to its WAL position
	script         atomic.Pointer[func(ctx context.Context, step, sql string) error]

	mu    sync.Mutex
	steps []string // done so far
	open  int      // connections that are open
}

// do has the server ask f before each step from now on.
func (s *server) do(f func(ctx context.Context, step, sql string) error) { s.script.Store(&f) }

// fails has one kind of step fail n times, -1 for ever.
func (s *server) fails(step string, n int, err error) {
	var done atomic.Int64
	s.do(func(_ context.Context, is, _ string) error {
		if is == step && (n < 0 || done.Add(1) <= int64(n)) {
			return err
		}
		return nil
	})
}

func (s *server) step(ctx context.Context, step, sql string) error {
	s.mu.Lock()
	s.steps = append(s.steps, step)
	s.mu.Unlock()
	if f := s.script.Load(); f != nil {
		if err := (*f)(ctx, step, sql); err != nil {
			return err
		}
	}
	if s.down.Load() && step != "close" {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (s *server) count(step string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range s.steps {
		if is == step {
			n++
		}
	}
	return n
}

func (s *server) opened(d int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open += d
	return s.open
}

func (*server) Driver() driver.Driver { return nil }

func (s *server) Connect(ctx context.Context) (driver.Conn, error) {
	if err := s.step(ctx, "connect", ""); err != nil {
		if s.down.Load() {
			err = syscall.ECONNREFUSED
		}
		return nil, err
	}
	s.opened(1)
	return &fakeConn{s: s}, nil
}

// sampler is the connector of the server's sampler.
type sampler struct{ *server }

func (s sampler) Connect(context.Context) (driver.Conn, error) {
	if s.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return &fakeConn{s: s.server, sampler: true, gone: make(chan struct{})}, nil
}

func (s *server) sample() []driver.Value {
	const segment = int64(16 << 20)
	lsn := fmt.Sprintf("0/%X", 0x500+s.moved.Load())
	if s.replica {
		return []driver.Value{true, "7", s.instance, lsn, lsn, nil, "1", "1", "streaming", false, true, "app", segment, nil}
	}
	return []driver.Value{false, "7", s.instance, lsn, nil, "00000001", nil, "1", nil, false, true, "app", segment, lsn}
}

type fakeConn struct {
	s       *server
	sampler bool
	closed  bool
	gone    chan struct{} // of a sampler: closed with it
}

func (c *fakeConn) step(ctx context.Context, step, sql string) error {
	if c.sampler {
		if c.s.down.Load() {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	return c.s.step(ctx, step, sql)
}

func (c *fakeConn) QueryContext(ctx context.Context, sql string, args []driver.NamedValue) (driver.Rows, error) {
	switch {
	case sql == postgres.SampleSQL && c.s.hang.Load():
		<-c.gone
		return nil, io.ErrUnexpectedEOF
	case sql == postgres.SampleSQL:
		return &fakeRows{c: c, rows: [][]driver.Value{c.s.sample()}}, c.step(ctx, "sample", "")
	case strings.HasPrefix(sql, postgres.InstanceSQL):
		return &fakeRows{c: c, rows: [][]driver.Value{{c.s.instance, "on"}}}, c.step(ctx, "confirm", "")
	}
	if err := c.step(ctx, "query", sql); err != nil {
		return nil, err
	}
	if sql == "write" {
		if c.s.replica {
			return nil, sqlError(postgres.ReadOnlyTransaction)
		}
		c.s.writes.Add(1)
	}
	r := &fakeRows{c: c, ctx: ctx}
	n, _ := strconv.Atoi(strings.TrimPrefix(sql, "rows "))
	for i := range max(n, 1) {
		r.rows = append(r.rows, []driver.Value{int64(i + 1), c.s.name})
	}
	for _, a := range args {
		r.rows[0] = append(r.rows[0], a.Value)
	}
	return r, nil
}

func (c *fakeConn) ExecContext(ctx context.Context, sql string, _ []driver.NamedValue) (driver.Result, error) {
	if err := c.step(ctx, "exec", sql); err != nil {
		return nil, err
	}
	if c.s.replica && sql == "write" {
		return nil, sqlError(postgres.ReadOnlyTransaction)
	}
	c.s.writes.Add(1)
	return driver.RowsAffected(1), nil
}

func (c *fakeConn) PrepareContext(ctx context.Context, sql string) (driver.Stmt, error) {
	return &fakeStmt{c, sql}, c.step(ctx, "prepare", sql)
}

func (c *fakeConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	step := "begin"
	if opts.ReadOnly {
		step = "begin read only"
	}
	return &fakeTx{c, ctx}, c.step(ctx, step, "")
}

func (*fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (*fakeConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

func (c *fakeConn) Close() error {
	if c.gone != nil && !c.closed {
		close(c.gone)
	}
	if !c.sampler && !c.closed {
		c.s.opened(-1)
	}
	c.closed = true
	return c.step(context.Background(), "close", "")
}

type fakeStmt struct {
	c   *fakeConn
	sql string
}

func (s *fakeStmt) NumInput() int { return strings.Count(s.sql, "$") }

func (s *fakeStmt) Close() error {
	return s.c.step(context.Background(), "close statement", s.sql)
}

func (s *fakeStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.c.QueryContext(ctx, s.sql, args)
}

func (s *fakeStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.c.ExecContext(ctx, s.sql, args)
}

func (*fakeStmt) Query([]driver.Value) (driver.Rows, error)  { return nil, errors.ErrUnsupported }
func (*fakeStmt) Exec([]driver.Value) (driver.Result, error) { return nil, errors.ErrUnsupported }

type fakeTx struct {
	c   *fakeConn
	ctx context.Context
}

// Commit uses the context of BEGIN, as drivers do.
func (t *fakeTx) Commit() error {
	return errors.Join(t.c.step(t.ctx, "commit", ""), context.Cause(t.ctx))
}
func (t *fakeTx) Rollback() error { return t.c.step(t.ctx, "rollback", "") }

type fakeRows struct {
	c    *fakeConn
	ctx  context.Context // nil: of a sample
	rows [][]driver.Value
	done int
}

func (r *fakeRows) Columns() []string { return make([]string, len(r.rows[0])) }
func (r *fakeRows) Close() error {
	if r.ctx == nil {
		return nil
	}
	return r.c.step(r.ctx, "close rows", "")
}

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.ctx != nil {
		if err := r.c.step(r.ctx, "next", ""); err != nil {
			return err
		}
	}
	if r.done == len(r.rows) {
		return io.EOF
	}
	copy(dest, r.rows[r.done])
	r.done++
	return nil
}

// rig is a DB over scripted servers.
type rig struct {
	*sqlread.DB

	t       *testing.T
	primary *server
	r       []*server
}

func newServer(name string, replica bool) *server {
	return &server{name: name, instance: name, replica: replica}
}

func (s *server) node() sqlread.Node {
	return sqlread.Node{Name: s.name, Connector: s, SampleConnector: sampler{s}}
}

// inBubble runs a test with a primary and so many replicas in a synctest bubble, where every
// replica can be used at once.
func inBubble(t *testing.T, replicas int, adjust func(*rig, *sqlread.Config), body func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, primary: newServer("primary", false)}
		cfg := sqlread.Config{Primary: r.primary.node()}
		cfg.Settings.Ramp = -1
		cfg.Settings.Open = breaker.Backoff{Base: time.Second, Max: time.Minute, Jitter: -1}
		for i := range replicas {
			s := newServer("r"+strconv.Itoa(i+1), true)
			r.r = append(r.r, s)
			cfg.Replicas = append(cfg.Replicas, s.node())
		}
		if adjust != nil {
			adjust(r, &cfg)
		}
		db, err := sqlread.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		r.DB = db
		defer func() { r.must(db.Close()) }()
		body(r)
		r.idle()
	})
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// idle checks that nothing is in flight and no connection in use.
func (r *rig) idle() {
	r.t.Helper()
	synctest.Wait()
	for _, s := range r.r {
		if got := r.stats(s).InFlight; got != 0 {
			r.t.Errorf("%s: %d reads in flight, want 0", s.name, got)
		}
	}
	for _, s := range append(slices.Clone(r.r), r.primary) {
		if got := r.PoolStats(s.name).InUse; got != 0 {
			r.t.Errorf("%s: %d connections in use, want 0", s.name, got)
		}
	}
}

// only asks for one replica of two.
func only(s *server) replica.Requirement {
	return replica.Requirement{Except: map[string]string{"r1": "r2", "r2": "r1"}[s.name], MaxStaleness: replica.Never}
}

// read makes one read of one row and says where it went.
func (r *rig) read(ctx context.Context, req replica.Requirement) (info sqlread.ReadInfo, err error) {
	var n int
	var name string
	err = r.Reader(req).QueryRowContext(sqlread.WithInfo(ctx, &info), "rows 1").Scan(&n, &name)
	if err == nil && name != info.Node {
		r.t.Errorf("answered by %s, want %s", name, info.Node)
	}
	return info, err
}

func (r *rig) stats(s *server) replica.NodeStats {
	nodes := r.Set().Stats().Replicas
	for i := range nodes {
		if nodes[i].Name == s.name {
			return nodes[i]
		}
	}
	return replica.NodeStats{}
}

// all reads rows to their end and counts them.
func all(rows *sql.Rows, err error) (int, error) {
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}
