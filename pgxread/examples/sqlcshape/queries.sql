-- name: CreateNote :one
INSERT INTO note (body, author) VALUES ($1, $2) RETURNING id, body, author, written_at;

-- name: DeleteNotes :execrows
DELETE FROM note WHERE author = $1;

-- name: GetNote :one
SELECT id, body, author, written_at FROM note WHERE id = $1;

-- name: ListNotes :many
SELECT id, body, author, written_at FROM note WHERE author = $1 ORDER BY id;

-- name: TouchNote :exec
UPDATE note SET written_at = now() WHERE id = $1;

-- name: CopyNotes :copyfrom
INSERT INTO note (body, author) VALUES ($1, $2);

-- name: GetNotes :batchone
SELECT id, body, author, written_at FROM note WHERE id = $1;

-- name: SetBody :batchexec
UPDATE note SET body = $1 WHERE id = $2;

-- name: NotesOf :batchmany
SELECT id, body, author, written_at FROM note WHERE author = $1 ORDER BY id;
