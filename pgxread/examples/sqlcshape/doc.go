// Package sqlcshape has the shape that sqlc v1 gives to a package for pgx/v5, with
// CopyFrom and batches. It is written by hand after that shape (db.go, models.go,
// queries.sql.go, copyfrom.go, batch.go), so that nothing needs sqlc to build; its test runs
// it unchanged with a pgxread.DB and with a Reader where code has a pool otherwise (REQ-R13).
package sqlcshape
