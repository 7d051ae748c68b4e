package pgxread

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// begin starts a transaction; the call stays open until its end.
type begin struct {
	opts pgx.TxOptions
	tx   pgx.Tx
}

func (b *begin) run(c *call) (err error) {
	b.tx, err = c.conn.BeginTx((*running)(c), b.opts)
	return err
}

// Begin starts a transaction on the primary, also under a context from WithRead.
func (db *DB) Begin(ctx context.Context) (pgx.Tx, error) {
	return db.BeginTx(ctx, pgx.TxOptions{})
}

// BeginTx starts a transaction. One with AccessMode pgx.ReadOnly is a read and stays on
// the node that it began on; a context from WithRead may give its requirement. A BEGIN that
// failed may be tried once on another node, what follows it may not. Serializable
// transactions run on the primary, since a hot standby refuses them; so do all others.
func (db *DB) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	b := &begin{opts: opts}
	if opts.AccessMode == pgx.ReadOnly && opts.IsoLevel != pgx.Serializable {
		return b.started(db.read(ctx, intentOf(ctx).Req, b))
	}
	return b.started(db.direct(ctx, b))
}

// Begin starts a read-only transaction.
func (r *Reader) Begin(ctx context.Context) (pgx.Tx, error) {
	return r.BeginTx(ctx, pgx.TxOptions{})
}

// BeginTx starts a read-only transaction, which stays on its node. AccessMode
// pgx.ReadWrite fails with ErrWriteInRead. Serializable ones run on the primary, since a
// hot standby refuses them.
func (r *Reader) BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error) {
	if opts.AccessMode == pgx.ReadWrite {
		return nil, &WriteInReadError{}
	}
	opts.AccessMode = pgx.ReadOnly
	req := r.req
	req.PrimaryOnly = req.PrimaryOnly || opts.IsoLevel == pgx.Serializable
	b := &begin{opts: opts}
	return b.started(r.db.read(ctx, req, b))
}

func (b *begin) started(c *call, err error) (pgx.Tx, error) {
	if err != nil {
		return nil, err
	}
	c.untime() // the timeout was for BEGIN; each statement has its own
	return &tx{Tx: b.tx, c: c}, nil
}

// tx is a transaction, or with a parent a savepoint in one.
type tx struct {
	pgx.Tx

	c         *call // of the transaction: its node and connection
	savepoint bool
}

// sub starts the clock of one statement in the transaction, and returns the context
// to run it with.
func (t *tx) sub(ctx context.Context) (*call, context.Context) {
	c := newCall(ctx, t.c.node, intentOf(ctx), time.Now())
	c.read, c.up = t.c.read, t.c
	c.stage.Store(uint32(stageRun))
	if conn := t.c.conn; conn != nil { // else the transaction has ended, and another call may have its connection
		_ = c.node.clock.attach(c, conn.Conn().PgConn().Conn()) // its time has just begun
	}
	return c, (*running)(c)
}

// end finishes the transaction after its COMMIT or ROLLBACK ended in err.
func (t *tx) end(c *call, err error) error {
	err = c.finish(err)
	if !t.savepoint {
		t.c.end(nil) // what its statements met is in its worst outcome
	}
	return err
}

// Commit commits, releases the connection and reports the outcome.
func (t *tx) Commit(ctx context.Context) error {
	c, ctx := t.sub(ctx)
	return t.end(c, t.Tx.Commit(ctx))
}

// Rollback rolls back, releases the connection and reports the outcome, also when ctx
// has ended. After Commit it does nothing and returns pgx.ErrTxClosed.
func (t *tx) Rollback(ctx context.Context) error {
	c, ctx := t.sub(ctx)
	return t.end(c, t.Tx.Rollback(ctx))
}

// Begin makes a savepoint.
func (t *tx) Begin(ctx context.Context) (pgx.Tx, error) {
	c, ctx := t.sub(ctx)
	inner, err := t.Tx.Begin(ctx)
	if err := c.finish(err); err != nil {
		return nil, err
	}
	return &tx{Tx: inner, c: t.c, savepoint: true}, nil
}

// Exec runs sql in the transaction.
func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	c, ctx := t.sub(ctx)
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, c.finish(err)
}

// Query runs sql in the transaction.
func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c, ctx := t.sub(ctx)
	r, err := t.Tx.Query(ctx, sql, args...)
	if err != nil {
		err = c.finish(err)
		return failedRows{err}, err
	}
	c.rows = rows{Rows: r, c: c}
	return &c.rows, nil
}

// QueryRow is Query for at most one row.
func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	r, err := t.Query(ctx, sql, args...) //nolint:sqlclosecheck // the row closes them
	if err != nil {
		return failedRow{err}
	}
	return (*row)(r.(*rows))
}

// SendBatch sends b in the transaction.
func (t *tx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c, ctx := t.sub(ctx)
	return &batchResults{BatchResults: t.Tx.SendBatch(ctx, b), c: c, b: b}
}

// CopyFrom copies rows into a table.
func (t *tx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	c, ctx := t.sub(ctx)
	n, err := t.Tx.CopyFrom(ctx, table, columns, source)
	return n, c.finish(err)
}

// Prepare prepares a statement on the transaction's connection.
func (t *tx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	c, ctx := t.sub(ctx)
	sd, err := t.Tx.Prepare(ctx, name, sql)
	return sd, c.finish(err)
}
