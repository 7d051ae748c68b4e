// Package sqlcstd has the shape that sqlc v1 gives to a package for database/sql, with prepared queries. It is
// written by hand after that shape (db.go, models.go, queries.sql.go), so that nothing needs sqlc to build;
// the tests of dev/sqlreadtest run it unchanged with a sqlread.DB and with one of its readers where code
// has a sql.DB otherwise.
package sqlcstd
