package pgxread

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// ErrNoPosition is matched by the error of a CommitPosition that has committed, and after
// that could not learn the position.
var ErrNoPosition = errors.New("pgxread: committed, but the position is not known")

// Position asks the primary for its position, in one round trip on a connection of its pool.
// Every commit that was acknowledged before the call lies before it, also an
// asynchronous one (synchronous_commit = off). A read under replica.WithPosition, or with it in its
// Requirement, then sees what they wrote (REQ-R12).
func (db *DB) Position(ctx context.Context) (replica.Position, error) {
	q := &query{postgres.PositionSQL, []any{pgx.QueryExecModeSimpleProtocol}} // not prepared: one round trip the first time too
	return postgres.ScanPosition(rowOf(db.direct(ctx, q)))
}

// CommitPosition commits a transaction that a DB began, and returns a position that covers it,
// in the one round trip of the commit. It is for transactions that write: for one that was
// begun as a read it commits and returns none. If the transaction had failed and was rolled back, the error is
// pgx.ErrTxCommitRollback, as from Commit. One that matches ErrNoPosition says that it has
// committed. A tracer of the connection does not see this commit, but one after it that
// ended before it was sent.
func CommitPosition(ctx context.Context, transaction pgx.Tx) (replica.Position, error) {
	t, ok := transaction.(*tx)
	switch {
	case !ok:
		return replica.Position{}, fmt.Errorf("pgxread: CommitPosition of a %T: give a transaction that a DB began", transaction)
	case t.savepoint:
		return replica.Position{}, errors.New("pgxread: CommitPosition of a savepoint: give the transaction that it is in")
	case t.c.read:
		return replica.Position{}, t.Commit(ctx)
	case t.c.conn == nil:
		return replica.Position{}, pgx.ErrTxClosed
	}
	c, ctx := t.sub(ctx)
	p, err := t.commitPosition(ctx)
	return p, t.end(c, err)
}

// commitPosition sends COMMIT and the question for the position as one message, and then has
// pgx's transaction know that it has ended: with a context that has ended, its Commit sends nothing.
func (t *tx) commitPosition(ctx context.Context) (replica.Position, error) {
	results := t.Conn().PgConn().Exec(ctx, "commit; "+postgres.PositionSQL)
	p, err := readCommit(results)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_ = t.Tx.Commit(ended) // closes the connection if that is still in a transaction
	return p, err
}

// readCommit reads the answers to COMMIT and to PositionSQL.
func readCommit(results *pgconn.MultiResultReader) (p replica.Position, err error) {
	var tag pgconn.CommandTag
	committed := results.NextResult()
	if committed {
		tag, err = results.ResultReader().Close()
		committed = err == nil
	}
	var text textRow
	for results.NextResult() {
		for _, row := range results.ResultReader().Read().Rows {
			text = row
		}
	}
	err = errors.Join(err, results.Close())
	switch {
	case !committed:
		return p, err
	case tag.String() == "ROLLBACK":
		return p, pgx.ErrTxCommitRollback
	case err == nil:
		p, err = postgres.ScanPosition(text)
	}
	if err != nil {
		return replica.Position{}, fmt.Errorf("%w: %w", ErrNoPosition, err)
	}
	return p, nil
}

// textRow is a row of the simple protocol whose columns are texts.
type textRow [][]byte

// Scan reads all columns, each into a *string.
func (r textRow) Scan(dest ...any) error {
	if len(r) != len(dest) {
		return fmt.Errorf("pgxread: %d columns where %d were asked for", len(r), len(dest))
	}
	for i, d := range dest {
		*d.(*string) = string(r[i])
	}
	return nil
}
