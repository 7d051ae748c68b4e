package sqlcstd

import (
	"context"
	"database/sql"
)

const createNote = `-- name: CreateNote :one
INSERT INTO note (body, author) VALUES ($1, $2) RETURNING id, body, author, written_at
`

// CreateNoteParams are the parameters of CreateNote.
type CreateNoteParams struct {
	Body   string
	Author sql.NullString
}

// CreateNote is a :one that writes.
func (q *Queries) CreateNote(ctx context.Context, arg CreateNoteParams) (Note, error) {
	row := q.queryRow(ctx, q.createNoteStmt, createNote, arg.Body, arg.Author)
	var i Note
	err := row.Scan(
		&i.ID,
		&i.Body,
		&i.Author,
		&i.WrittenAt,
	)
	return i, err
}

const getNote = `-- name: GetNote :one
SELECT id, body, author, written_at FROM note WHERE id = $1
`

// GetNote is a :one.
func (q *Queries) GetNote(ctx context.Context, id int64) (Note, error) {
	row := q.queryRow(ctx, q.getNoteStmt, getNote, id)
	var i Note
	err := row.Scan(
		&i.ID,
		&i.Body,
		&i.Author,
		&i.WrittenAt,
	)
	return i, err
}

const listNotes = `-- name: ListNotes :many
SELECT id, body, author, written_at FROM note WHERE author = $1 ORDER BY id
`

// ListNotes is a :many.
func (q *Queries) ListNotes(ctx context.Context, author sql.NullString) ([]Note, error) {
	rows, err := q.query(ctx, q.listNotesStmt, listNotes, author)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // as sqlc writes it
	var items []Note
	for rows.Next() {
		var i Note
		if err := rows.Scan(
			&i.ID,
			&i.Body,
			&i.Author,
			&i.WrittenAt,
		); err != nil {
			return nil, err
		}
		items = append(items, i)
	}
	if err := rows.Close(); err != nil {
		return nil, err
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}
