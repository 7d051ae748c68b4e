-- name: CreateNote :one
INSERT INTO note (body, author) VALUES ($1, $2) RETURNING id, body, author, written_at;

-- name: GetNote :one
SELECT id, body, author, written_at FROM note WHERE id = $1;

-- name: ListNotes :many
SELECT id, body, author, written_at FROM note WHERE author = $1 ORDER BY id;
