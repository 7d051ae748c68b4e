package sqlcstd

import (
	"context"
	"database/sql"
	"fmt"
)

// DBTX is what the queries need: a sql.DB, a sql.Conn, a sql.Tx, or a sqlread.DB.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// New makes the queries of a DBTX.
func New(db DBTX) *Queries {
	return &Queries{db: db}
}

// Prepare makes the queries of a DBTX with their statements prepared.
func Prepare(ctx context.Context, db DBTX) (*Queries, error) {
	q := Queries{db: db}
	var err error
	if q.createNoteStmt, err = db.PrepareContext(ctx, createNote); err != nil {
		return nil, fmt.Errorf("error preparing query CreateNote: %w", err)
	}
	if q.getNoteStmt, err = db.PrepareContext(ctx, getNote); err != nil {
		return nil, fmt.Errorf("error preparing query GetNote: %w", err)
	}
	if q.listNotesStmt, err = db.PrepareContext(ctx, listNotes); err != nil {
		return nil, fmt.Errorf("error preparing query ListNotes: %w", err)
	}
	return &q, nil
}

// Close closes the prepared statements.
func (q *Queries) Close() error {
	var err error
	if q.createNoteStmt != nil {
		if cerr := q.createNoteStmt.Close(); cerr != nil {
			err = fmt.Errorf("error closing createNoteStmt: %w", cerr)
		}
	}
	if q.getNoteStmt != nil {
		if cerr := q.getNoteStmt.Close(); cerr != nil {
			err = fmt.Errorf("error closing getNoteStmt: %w", cerr)
		}
	}
	if q.listNotesStmt != nil {
		if cerr := q.listNotesStmt.Close(); cerr != nil {
			err = fmt.Errorf("error closing listNotesStmt: %w", cerr)
		}
	}
	return err
}

func (q *Queries) query(ctx context.Context, stmt *sql.Stmt, query string, args ...any) (*sql.Rows, error) {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).QueryContext(ctx, args...) //nolint:sqlclosecheck // as sqlc writes it
	case stmt != nil:
		return stmt.QueryContext(ctx, args...)
	default:
		return q.db.QueryContext(ctx, query, args...)
	}
}

func (q *Queries) queryRow(ctx context.Context, stmt *sql.Stmt, query string, args ...any) *sql.Row {
	switch {
	case stmt != nil && q.tx != nil:
		return q.tx.StmtContext(ctx, stmt).QueryRowContext(ctx, args...) //nolint:sqlclosecheck // as sqlc writes it
	case stmt != nil:
		return stmt.QueryRowContext(ctx, args...)
	default:
		return q.db.QueryRowContext(ctx, query, args...)
	}
}

// Queries runs the queries.
type Queries struct {
	db             DBTX
	tx             *sql.Tx
	createNoteStmt *sql.Stmt
	getNoteStmt    *sql.Stmt
	listNotesStmt  *sql.Stmt
}

// WithTx runs the queries in a transaction.
func (q *Queries) WithTx(tx *sql.Tx) *Queries {
	return &Queries{
		db:             tx,
		tx:             tx,
		createNoteStmt: q.createNoteStmt,
		getNoteStmt:    q.getNoteStmt,
		listNotesStmt:  q.listNotesStmt,
	}
}
