package sqlcshape

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// ErrBatchAlreadyClosed is told of results after Close.
var ErrBatchAlreadyClosed = errors.New("batch already closed")

const getNotes = `-- name: GetNotes :batchone
SELECT id, body, author, written_at FROM note WHERE id = $1
`

// GetNotesBatchResults are the results of GetNotes.
type GetNotesBatchResults struct {
	br     pgx.BatchResults
	tot    int
	closed bool
}

// GetNotes is a :batchone.
func (q *Queries) GetNotes(ctx context.Context, id []int64) *GetNotesBatchResults {
	batch := &pgx.Batch{}
	for _, a := range id {
		vals := []any{
			a,
		}
		batch.Queue(getNotes, vals...)
	}
	br := q.db.SendBatch(ctx, batch)
	return &GetNotesBatchResults{br, len(id), false}
}

// QueryRow calls f for each result.
func (b *GetNotesBatchResults) QueryRow(f func(int, Note, error)) {
	defer b.br.Close() //nolint:errcheck // as sqlc writes it
	for t := 0; t < b.tot; t++ {
		var i Note
		if b.closed {
			if f != nil {
				f(t, i, ErrBatchAlreadyClosed)
			}
			continue
		}
		row := b.br.QueryRow()
		err := row.Scan(
			&i.ID,
			&i.Body,
			&i.Author,
			&i.WrittenAt,
		)
		if f != nil {
			f(t, i, err)
		}
	}
}

// Close closes the batch.
func (b *GetNotesBatchResults) Close() error {
	b.closed = true
	return b.br.Close()
}

const notesOf = `-- name: NotesOf :batchmany
SELECT id, body, author, written_at FROM note WHERE author = $1 ORDER BY id
`

// NotesOfBatchResults are the results of NotesOf.
type NotesOfBatchResults struct {
	br     pgx.BatchResults
	tot    int
	closed bool
}

// NotesOf is a :batchmany.
func (q *Queries) NotesOf(ctx context.Context, author []string) *NotesOfBatchResults {
	batch := &pgx.Batch{}
	for _, a := range author {
		vals := []any{
			a,
		}
		batch.Queue(notesOf, vals...)
	}
	br := q.db.SendBatch(ctx, batch)
	return &NotesOfBatchResults{br, len(author), false}
}

// Query calls f for each result.
func (b *NotesOfBatchResults) Query(f func(int, []Note, error)) {
	defer b.br.Close() //nolint:errcheck // as sqlc writes it
	for t := 0; t < b.tot; t++ {
		var items []Note
		if b.closed {
			if f != nil {
				f(t, items, ErrBatchAlreadyClosed)
			}
			continue
		}
		err := func() error {
			rows, err := b.br.Query()
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var i Note
				if err := rows.Scan(
					&i.ID,
					&i.Body,
					&i.Author,
					&i.WrittenAt,
				); err != nil {
					return err
				}
				items = append(items, i)
			}
			return rows.Err()
		}()
		if f != nil {
			f(t, items, err)
		}
	}
}

// Close closes the batch.
func (b *NotesOfBatchResults) Close() error {
	b.closed = true
	return b.br.Close()
}

const setBody = `-- name: SetBody :batchexec
UPDATE note SET body = $1 WHERE id = $2
`

// SetBodyBatchResults are the results of SetBody.
type SetBodyBatchResults struct {
	br     pgx.BatchResults
	tot    int
	closed bool
}

// SetBodyParams are the parameters of SetBody.
type SetBodyParams struct {
	Body string
	ID   int64
}

// SetBody is a :batchexec.
func (q *Queries) SetBody(ctx context.Context, arg []SetBodyParams) *SetBodyBatchResults {
	batch := &pgx.Batch{}
	for _, a := range arg {
		vals := []any{
			a.Body,
			a.ID,
		}
		batch.Queue(setBody, vals...)
	}
	br := q.db.SendBatch(ctx, batch)
	return &SetBodyBatchResults{br, len(arg), false}
}

// Exec calls f for each result.
func (b *SetBodyBatchResults) Exec(f func(int, error)) {
	defer b.br.Close() //nolint:errcheck // as sqlc writes it
	for t := 0; t < b.tot; t++ {
		if b.closed {
			if f != nil {
				f(t, ErrBatchAlreadyClosed)
			}
			continue
		}
		_, err := b.br.Exec()
		if f != nil {
			f(t, err)
		}
	}
}

// Close closes the batch.
func (b *SetBodyBatchResults) Close() error {
	b.closed = true
	return b.br.Close()
}
