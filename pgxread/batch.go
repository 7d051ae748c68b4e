package pgxread

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// send sends a batch. As a read it looks at the first result before the caller gets any,
// so that the whole batch can be sent again elsewhere.
type send struct {
	b       *pgx.Batch
	sent    bool
	results *batchResults
}

func (s *send) run(c *call) error {
	if s.sent {
		s.b = again(s.b)
	}
	s.sent = true
	br := c.conn.SendBatch((*running)(c), s.b)
	s.results = &batchResults{BatchResults: br, c: c, b: s.b}
	if begun := br.Tx(); begun != nil {
		s.results.tx = &tx{Tx: begun, c: c}
		return nil
	}
	if !c.read || s.b.Len() == 0 {
		return nil
	}
	return s.results.peek()
}

// again copies a batch for its second node: pgx lets a batch be sent once only.
func again(b *pgx.Batch) *pgx.Batch {
	fresh := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, b.Len())}
	for _, q := range b.QueuedQueries {
		fresh.Queue(q.SQL, q.Arguments...).Fn = q.Fn
	}
	return fresh
}

func batchOf(s *send, err error) pgx.BatchResults {
	if err != nil {
		return pgx.FailedBatchResults(s.b, err)
	}
	return s.results
}

// SendBatch sends b to the primary, or as a read under a context from WithRead. The
// results must be closed. A batch that begins a transaction is never sent again elsewhere.
func (db *DB) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	s := &send{b: b}
	_, err := db.route(ctx, s)
	return batchOf(s, err)
}

// SendBatch sends b as a read. The results must be closed.
func (r *Reader) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	s := &send{b: b}
	_, err := r.db.read(ctx, r.req, s)
	return batchOf(s, err)
}

// batchResults are pgx's, whose end finishes the call; the first result may have
// been peeked at.
type batchResults struct {
	pgx.BatchResults

	c     *call
	b     *pgx.Batch
	tx    *tx   // the transaction that the batch began: it owns the call
	first *rows // peeked at and not yet taken
	ended bool
	err   error
}

// part is the call of one result: it has its batch's time and tells it its outcome.
func (br *batchResults) part() *call {
	return &call{
		node: br.c.node, parent: br.c.parent, timeout: br.c.timeout, begun: br.c.begun,
		read: br.c.read, up: br.c, part: true,
	}
}

// peek fetches the first row of the first result.
func (br *batchResults) peek() error {
	r, err := br.BatchResults.Query()
	br.first = &rows{Rows: r, c: br.part()}
	if err == nil {
		err = br.first.fetch()
	}
	if err != nil {
		_ = br.BatchResults.Close() // it failed already
	}
	return err
}

// take returns the first result if nobody has had it yet.
func (br *batchResults) take() *rows {
	r := br.first
	br.first = nil
	return r
}

// Exec reads the next result.
func (br *batchResults) Exec() (pgconn.CommandTag, error) {
	if r := br.take(); r != nil {
		r.Close()
		return r.CommandTag(), r.Err()
	}
	tag, err := br.BatchResults.Exec()
	return tag, br.part().finish(err)
}

// Query reads the next result.
func (br *batchResults) Query() (pgx.Rows, error) {
	if r := br.take(); r != nil {
		return r, nil
	}
	r, err := br.BatchResults.Query()
	if err != nil {
		err = br.part().finish(err)
		return failedRows{err}, err
	}
	return &rows{Rows: r, c: br.part()}, nil
}

// QueryRow reads the next result.
func (br *batchResults) QueryRow() pgx.Row {
	r, err := br.Query() //nolint:sqlclosecheck // the row closes them
	if err != nil {
		return failedRow{err}
	}
	return (*row)(r.(*rows))
}

// Close reads all results that are left, calls what is registered for them, and
// finishes the call; one that began a transaction goes on until the transaction's end.
func (br *batchResults) Close() error {
	if br.ended {
		return br.err
	}
	br.ended = true
	returned := false
	defer func() {
		if !returned && br.tx == nil {
			br.c.end(errPanicked)
		}
	}()
	err := br.closeFirst()
	if e := br.BatchResults.Close(); err == nil {
		err = e
	}
	returned = true
	br.err = br.end(err)
	return br.err
}

// closeFirst deals with a first result that nobody took, as pgx would have.
func (br *batchResults) closeFirst() error {
	if br.first == nil {
		return nil
	}
	fn := br.b.QueuedQueries[0].Fn
	if fn == nil {
		_, err := br.Exec()
		return err
	}
	err := fn(br)
	if err != nil { // the functions of the results that follow are not called any more
		for _, q := range br.b.QueuedQueries {
			q.Fn = nil
		}
	}
	return err
}

func (br *batchResults) end(err error) error {
	if br.tx == nil {
		return br.c.finish(err)
	}
	br.c.worst = worse(br.c.worst, br.c.outcome(err))
	err = br.c.explain(err)
	br.c.untime()
	return err
}

// Tx is the transaction that the batch began, nil if it began none.
func (br *batchResults) Tx() pgx.Tx {
	if br.tx == nil {
		return nil
	}
	return br.tx
}
