package sqlread

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// querying is a query whose first row is fetched before the caller gets its rows: only so
// is it known that nothing was delivered, and the read can be tried once elsewhere.
type querying struct {
	text

	rows *rows
}

func (q *querying) run(c *call) error {
	r, err := c.s.link.query(c.ctx, q.text)
	if err != nil {
		return err
	}
	q.rows = &rows{Rows: r, call: c}
	return q.rows.fetch()
}

// rows are a driver's whose end finishes the call.
type rows struct {
	driver.Rows

	call    *call
	first   []driver.Value // fetched and not yet taken
	fetched bool
	err     error // the driver's that ended them, io.EOF too
}

// fetch gets the first row. Rows that failed in its place are closed. A lost connection is
// no driver.ErrBadConn here, since the statement was sent.
func (r *rows) fetch() error {
	r.first = make([]driver.Value, len(r.Columns()))
	r.fetched = true
	r.err = r.Rows.Next(r.first)
	if r.err == nil || errors.Is(r.err, io.EOF) {
		return nil
	}
	_ = r.Rows.Close() // they failed already
	if errors.Is(r.err, driver.ErrBadConn) {
		r.call.spoil()
		return fmt.Errorf("%w before the first row", io.ErrUnexpectedEOF)
	}
	return r.err
}

// Next takes the next row.
func (r *rows) Next(dest []driver.Value) error {
	if r.fetched {
		r.fetched = false
		copy(dest, r.first)
	} else {
		r.err = r.Rows.Next(dest)
	}
	if r.err == nil || errors.Is(r.err, io.EOF) {
		return r.err
	}
	return r.call.explain(r.err)
}

// Close closes the driver's rows and finishes the call. After a panic database/sql does not take
// the routed connection back, so its session ends here.
func (r *rows) Close() error {
	returned := false
	defer func() {
		if !returned {
			r.call.panicked()
			r.call.s.release()
		}
	}()
	err := r.Rows.Close()
	returned = true
	if r.err != nil && !errors.Is(r.err, io.EOF) {
		err = r.err
	}
	return r.call.finish(err)
}

// HasNextResultSet tells whether there is one.
func (r *rows) HasNextResultSet() bool {
	more, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && more.HasNextResultSet()
}

// NextResultSet goes on to it.
func (r *rows) NextResultSet() error {
	more, ok := r.Rows.(driver.RowsNextResultSet)
	if !ok {
		return io.EOF
	}
	r.fetched = false
	err := more.NextResultSet()
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
		return r.call.explain(err)
	}
	return err
}

// ColumnTypeScanType is the driver's, else any.
func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

// ColumnTypeDatabaseTypeName is the driver's, else empty.
func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

// ColumnTypeLength is the driver's, else not known.
func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

// ColumnTypeNullable is the driver's, else not known.
func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, known := r.Rows.(driver.RowsColumnTypeNullable); known {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

// ColumnTypePrecisionScale is the driver's, else not known.
func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, known := r.Rows.(driver.RowsColumnTypePrecisionScale); known {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
