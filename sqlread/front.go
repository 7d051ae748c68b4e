package sqlread

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/breakwater-go/breakwater/internal/route"
	"github.com/breakwater-go/breakwater/replica"
)

// maxIdleFront is how many idle routed connections are kept. They hold nothing and cost an allocation.
const maxIdleFront = 64

// front is the connector of a pool of routed connections.
type front struct {
	db     *DB
	reader bool                // its calls are reads
	req    replica.Requirement // of the reads of a reader
	closed func()              // called when its pool is closed
}

func (f *front) open() *sql.DB {
	pool := sql.OpenDB(f)
	pool.SetMaxIdleConns(maxIdleFront)
	return pool
}

// Connect makes a routed connection, which connects to nobody yet.
func (f *front) Connect(context.Context) (driver.Conn, error) { return &conn{front: f}, nil }

// Driver is the one of the primary's connector.
func (f *front) Driver() driver.Driver { return f.db.cfg.Primary.Connector.Driver() }

// Close is called by the pool's Close.
func (f *front) Close() error {
	f.closed()
	return nil
}

// intent is what ctx and the front say about a call.
func (f *front) intent(ctx context.Context) route.Intent {
	in := *route.Of(ctx, intentKey{})
	if f.reader {
		in.Read, in.Req = true, f.req
	}
	return in
}

// conn is a routed connection. It has a session from its first statement until database/sql
// takes it back. database/sql sees to it that one goroutine uses it at a time.
type conn struct {
	front *front
	s     *session // nil: none yet
	inTx  bool
}

// IsValid is called by database/sql when it takes the connection back.
func (c *conn) IsValid() bool {
	c.release()
	return true
}

// Close is called in place of IsValid, or after it.
func (c *conn) Close() error {
	c.release()
	return nil
}

func (c *conn) release() {
	if c.s != nil {
		c.s.release()
		c.s = nil
	}
}

// CheckNamedValue lets every argument pass: the driver of the node that it is sent to judges it.
func (*conn) CheckNamedValue(*driver.NamedValue) error { return nil }

// QueryContext runs a query and fetches its first row.
func (c *conn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	return c.query(ctx, text{sql: q, args: args})
}

func (c *conn) query(ctx context.Context, t text) (driver.Rows, error) {
	st := &querying{text: t}
	if _, err := c.do(ctx, c.front.intent(ctx), st); err != nil {
		return nil, err
	}
	return st.rows, nil
}

// ExecContext runs a statement without rows.
func (c *conn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	return c.exec(ctx, text{sql: q, args: args})
}

func (c *conn) exec(ctx context.Context, t text) (driver.Result, error) {
	st := &execing{text: t}
	call, err := c.do(ctx, c.front.intent(ctx), st)
	if err != nil {
		return nil, err
	}
	return st.result, call.finish(nil)
}

// Ping asks the primary for nothing, or as a read a replica.
func (c *conn) Ping(ctx context.Context) error {
	call, err := c.do(ctx, c.front.intent(ctx), &pinging{})
	if err != nil {
		return err
	}
	return call.finish(nil)
}

// PrepareContext keeps the text. No server is asked before it is used.
func (c *conn) PrepareContext(_ context.Context, q string) (driver.Stmt, error) {
	return &stmt{conn: c, sql: q}, nil
}

// Prepare keeps the text.
func (c *conn) Prepare(q string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), q)
}

// BeginTx begins a transaction. One that is read-only is a read, unless it is serializable,
// which a hot standby refuses. All of a reader's are read-only.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	in := c.front.intent(ctx)
	opts.ReadOnly = opts.ReadOnly || c.front.reader
	in.Read = opts.ReadOnly
	in.Req.PrimaryOnly = in.Req.PrimaryOnly || sql.IsolationLevel(opts.Isolation) == sql.LevelSerializable
	st := &beginning{opts: opts}
	call, err := c.do(ctx, in, st)
	if err != nil {
		return nil, err
	}
	call.pause() // the timeout was for BEGIN; each statement has its own
	c.inTx = true
	return &tx{Tx: st.tx, conn: c, begin: call}, nil
}

// Begin begins a transaction.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// tx is a transaction.
type tx struct {
	driver.Tx

	conn  *conn
	begin *call
}

// Commit commits.
func (t *tx) Commit() error { return t.end(t.Tx.Commit) }

// Rollback rolls back.
func (t *tx) Rollback() error { return t.end(t.Tx.Rollback) }

func (t *tx) end(how func() error) error {
	t.conn.inTx = false
	t.begin.resume()
	return t.begin.finish(how())
}

// stmt is a prepared statement, which each connection of a node prepares when it first meets it.
type stmt struct {
	conn *conn
	sql  string
}

var errNoContext = errors.New("sqlread: only calls with a context are routed")

// QueryContext is query of its text.
func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.query(ctx, text{s.sql, args, true})
}

// ExecContext is exec of its text.
func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.exec(ctx, text{s.sql, args, true})
}

// NumInput says that the driver of the node counts the arguments.
func (*stmt) NumInput() int { return -1 }

// Close does nothing: the connections keep what they prepared for the next one of this text.
func (*stmt) Close() error { return nil }

// Query is never called, since there is QueryContext.
func (*stmt) Query([]driver.Value) (driver.Rows, error) { return nil, errNoContext }

// Exec is never called, since there is ExecContext.
func (*stmt) Exec([]driver.Value) (driver.Result, error) { return nil, errNoContext }

type pinging struct{}

func (pinging) run(c *call) error { return c.s.link.ping(c.ctx) }

type execing struct {
	text

	result driver.Result
}

func (e *execing) run(c *call) (err error) {
	e.result, err = c.s.link.exec(c.ctx, e.text)
	return err
}

type beginning struct {
	opts driver.TxOptions
	tx   driver.Tx
}

func (b *beginning) run(c *call) (err error) {
	b.tx, err = c.s.link.BeginTx(c.ctx, b.opts)
	return err
}
