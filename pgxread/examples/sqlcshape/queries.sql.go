package sqlcshape

import (
	"context"
)

const createNote = `-- name: CreateNote :one
INSERT INTO note (body, author) VALUES ($1, $2) RETURNING id, body, author, written_at
`

// CreateNoteParams are the parameters of CreateNote.
type CreateNoteParams struct {
	Body   string
	Author string
}

// CreateNote is a :one that writes.
func (q *Queries) CreateNote(ctx context.Context, arg CreateNoteParams) (Note, error) {
	row := q.db.QueryRow(ctx, createNote, arg.Body, arg.Author)
	var i Note
	err := row.Scan(
		&i.ID,
		&i.Body,
		&i.Author,
		&i.WrittenAt,
	)
	return i, err
}

const deleteNotes = `-- name: DeleteNotes :execrows
DELETE FROM note WHERE author = $1
`

// DeleteNotes is an :execrows.
func (q *Queries) DeleteNotes(ctx context.Context, author string) (int64, error) {
	result, err := q.db.Exec(ctx, deleteNotes, author)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected(), nil
}

const getNote = `-- name: GetNote :one
SELECT id, body, author, written_at FROM note WHERE id = $1
`

// GetNote is a :one.
func (q *Queries) GetNote(ctx context.Context, id int64) (Note, error) {
	row := q.db.QueryRow(ctx, getNote, id)
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
func (q *Queries) ListNotes(ctx context.Context, author string) ([]Note, error) {
	rows, err := q.db.Query(ctx, listNotes, author)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
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
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return items, nil
}

const touchNote = `-- name: TouchNote :exec
UPDATE note SET written_at = now() WHERE id = $1
`

// TouchNote is an :exec.
func (q *Queries) TouchNote(ctx context.Context, id int64) error {
	_, err := q.db.Exec(ctx, touchNote, id)
	return err
}

// CopyNotesParams are the parameters of CopyNotes.
type CopyNotesParams struct {
	Body   string
	Author string
}
