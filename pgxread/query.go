package pgxread

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/replica"
)

// query is a statement whose first row is fetched before the caller gets its rows.
type query struct {
	sql  string
	args []any
}

func (q *query) run(c *call) error {
	r, err := c.conn.Query((*running)(c), q.sql, q.args...)
	c.rows = rows{Rows: r, c: c}
	if err != nil {
		return err
	}
	return c.rows.fetch()
}

// exec is a statement without rows; it ends with its run.
type exec struct {
	sql  string
	args []any
	tag  pgconn.CommandTag
}

func (e *exec) run(c *call) (err error) {
	e.tag, err = c.conn.Exec((*running)(c), e.sql, e.args...)
	return err
}

// copyIn is a COPY FROM STDIN; it ends with its run.
type copyIn struct {
	table   pgx.Identifier
	columns []string
	source  pgx.CopyFromSource
	copied  int64
}

func (s *copyIn) run(c *call) (err error) {
	s.copied, err = c.conn.Conn().CopyFrom((*running)(c), s.table, s.columns, s.source)
	return err
}

func rowsOf(c *call, err error) (pgx.Rows, error) {
	if err != nil {
		return failedRows{err}, err
	}
	return &c.rows, nil
}

func rowOf(c *call, err error) pgx.Row {
	if err != nil {
		return failedRow{err}
	}
	return (*row)(&c.rows)
}

// ended finishes a call whose statement has nothing left open.
func ended(c *call, err error) error {
	if err != nil {
		return err
	}
	return c.finish(nil)
}

// Exec runs sql on the primary, or as a read under a context from WithRead.
func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	e := &exec{sql: sql, args: args}
	err := ended(db.route(ctx, e))
	return e.tag, err
}

// Query runs sql on the primary, or as a read under a context from WithRead. Its first
// row is fetched before Query returns, so an error may come from here that pgx would
// have told by Rows.Err.
func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return rowsOf(db.route(ctx, &query{sql, args}))
}

// QueryRow is Query for at most one row; errors are told by Scan, which must be called.
func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return rowOf(db.route(ctx, &query{sql, args}))
}

// CopyFrom copies rows into a table of the primary. It is always a write: under a
// context from WithRead it fails with ErrWriteInRead.
func (db *DB) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if intentOf(ctx).Read {
		return 0, &WriteInReadError{}
	}
	s := &copyIn{table: table, columns: columns, source: source}
	err := ended(db.direct(ctx, s))
	return s.copied, err
}

// route sends s where its context says.
func (db *DB) route(ctx context.Context, s statement) (*call, error) {
	if in := intentOf(ctx); in.Read {
		return db.read(ctx, in.Req, s)
	}
	return db.direct(ctx, s)
}

// Reader is a view of a DB whose calls are all reads with one requirement, whatever
// the context says. It is safe for concurrent use.
type Reader struct {
	db  *DB
	req replica.Requirement
}

// Reader makes a view whose calls are reads that ask req of their node.
//
// With req.PrimaryOnly they run in the primary's pool for reads (Config.PrimaryReadsDSN), whose
// sessions cannot write either.
func (db *DB) Reader(req replica.Requirement) *Reader { return &Reader{db, req} }

// Exec runs sql as a read: a write in it fails with ErrWriteInRead.
func (r *Reader) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	e := &exec{sql: sql, args: args}
	err := ended(r.db.read(ctx, r.req, e))
	return e.tag, err
}

// Query runs sql as a read. Its first row is fetched before Query returns.
func (r *Reader) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return rowsOf(r.db.read(ctx, r.req, &query{sql, args}))
}

// QueryRow is Query for at most one row; errors are told by Scan, which must be called.
func (r *Reader) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return rowOf(r.db.read(ctx, r.req, &query{sql, args}))
}

// CopyFrom is always a write and fails with ErrWriteInRead.
func (*Reader) CopyFrom(context.Context, pgx.Identifier, []string, pgx.CopyFromSource) (int64, error) {
	return 0, &WriteInReadError{}
}
