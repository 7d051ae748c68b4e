package pgxread

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are pgx's rows whose end finishes the call. The first row may have been
// fetched already. The connection is kept until the caller has seen the end, since what pgx
// tells about the columns lives in it.
type rows struct {
	pgx.Rows

	c       *call
	fetched bool // the first Next was made, its answer is in has
	has     bool
	ended   bool
	err     error // the call's, in the caller's words
}

// fetch gets the first row, or the error that came in its place.
func (r *rows) fetch() error {
	r.fetched, r.has = true, r.Rows.Next()
	if r.has {
		return nil
	}
	return r.Rows.Err()
}

// Next prepares the next row; after the last one the rows are closed.
func (r *rows) Next() bool {
	if r.ended {
		return false
	}
	if r.fetched {
		r.fetched = false
	} else {
		r.has = r.Rows.Next()
	}
	if !r.has {
		r.Close()
	}
	return r.has
}

// Close reads what is left, releases the connection and reports the outcome.
func (r *rows) Close() {
	if r.ended {
		return
	}
	r.ended = true
	defer r.c.end(errPanicked) // if closing panics; else it was finished before
	r.Rows.Close()
	r.err = r.c.finish(r.Rows.Err())
}

// Err is the error that ended the rows.
func (r *rows) Err() error {
	if r.ended {
		return r.err
	}
	return r.Rows.Err()
}

// Scan reads the row; an error closes the rows.
func (r *rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

// Values decodes the row; an error closes the rows.
func (r *rows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

// row is rows of which one is scanned.
type row rows

// Scan reads the first row and closes the rows, also when a destination panics.
func (w *row) Scan(dest ...any) error {
	r := (*rows)(w)
	defer r.Close()
	for _, d := range dest {
		if _, ok := d.(*pgtype.DriverBytes); ok {
			return errors.New("pgxread: cannot scan into *pgtype.DriverBytes from QueryRow")
		}
	}
	if !r.Next() {
		if err := r.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.Scan(dest...); err != nil {
		return err
	}
	r.Close()
	return r.Err()
}

// failedRow is the row of a query that failed.
type failedRow struct{ err error }

// Scan returns the error.
func (r failedRow) Scan(...any) error { return r.err }

// failedRows are the rows of a query that failed.
type failedRows struct{ err error }

func (failedRows) Close()                                       {}
func (r failedRows) Err() error                                 { return r.err }
func (failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }
