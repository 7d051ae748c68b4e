package sqlread

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/breakwater-go/breakwater/replica/postgres"
)

// maxPrepared bounds the statements that one connection keeps prepared; past it the one
// that was prepared first goes.
const maxPrepared = 256

// native is what a driver's connection must be.
type native interface {
	driver.Conn
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
}

// nativeStmt is what a driver's prepared statement must be.
type nativeStmt interface {
	driver.Stmt
	driver.StmtQueryContext
	driver.StmtExecContext
}

// link is a connection to a node: what the node's pool holds. It is used by one goroutine
// at a time, which database/sql sees to, but for sever.
type link struct {
	native

	node  *node
	epoch uint64 // of the node when it was made

	prepared map[string]nativeStmt
	order    []string // texts of prepared, oldest first

	spoilt bool        // the driver says that it is bad, or left it by a panic
	closed atomic.Bool // false to true once, by whoever closes it
}

func newLink(n *node, epoch uint64, c driver.Conn) (*link, error) {
	whole, ok := c.(native)
	if !ok {
		return nil, fmt.Errorf("sqlread: the driver's connection %T lacks one of QueryContext, ExecContext, PrepareContext and BeginTx", c)
	}
	return &link{native: whole, node: n, epoch: epoch, prepared: map[string]nativeStmt{}}, nil
}

// IsValid tells the pool whether to keep it: not if its node was fenced since it
// was made, or it was found to be bad.
func (l *link) IsValid() bool {
	if l.spoilt || l.closed.Load() || l.epoch != l.node.epoch.Load() {
		return false
	}
	v, ok := l.native.(driver.Validator)
	return !ok || v.IsValid()
}

// ResetSession is called by the pool before it gives the connection out again.
func (l *link) ResetSession(ctx context.Context) error {
	if !l.IsValid() {
		return driver.ErrBadConn
	}
	reached(ctx, stageConnect) // the driver may ask its server
	if r, ok := l.native.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// Close closes it, once.
func (l *link) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	return l.native.Close()
}

// query runs t.
func (l *link) query(ctx context.Context, t text) (driver.Rows, error) {
	st, args, err := l.ready(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return l.QueryContext(ctx, t.sql, args)
	}
	rows, err := st.QueryContext(ctx, args)
	l.forgetIfGone(t.sql, err)
	return rows, err
}

// exec runs t, without rows.
func (l *link) exec(ctx context.Context, t text) (driver.Result, error) {
	st, args, err := l.ready(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return l.ExecContext(ctx, t.sql, args)
	}
	result, err := st.ExecContext(ctx, args)
	l.forgetIfGone(t.sql, err)
	return result, err
}

// ready returns the prepared form of t, nil if it is to be run as text, and its arguments.
func (l *link) ready(ctx context.Context, t text) (st nativeStmt, args []driver.NamedValue, err error) {
	if t.prepare {
		if st, err = l.statement(ctx, t.sql); err != nil {
			return nil, nil, err
		}
	}
	args, err = l.check(st, t.args)
	return st, args, err
}

// statement prepares sql once.
func (l *link) statement(ctx context.Context, sql string) (nativeStmt, error) {
	if st := l.prepared[sql]; st != nil {
		return st, nil
	}
	st, err := l.PrepareContext(ctx, sql)
	if err != nil {
		return nil, err
	}
	whole, ok := st.(nativeStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("sqlread: the driver's statement %T lacks QueryContext or ExecContext", st), st.Close())
	}
	if len(l.order) >= maxPrepared {
		l.forget(l.order[0])
	}
	l.prepared[sql] = whole
	l.order = append(l.order, sql)
	return whole, nil
}

// forgetIfGone has sql prepared anew for its next use if the server does not know the statement any
// more, or its tables have changed.
func (l *link) forgetIfGone(sql string, err error) {
	const notKnown, planChanged = "26000", "0A000"
	if code := postgres.SQLState(err); code == notKnown || code == planChanged {
		l.forget(sql)
	}
}

func (l *link) forget(sql string) {
	_ = l.prepared[sql].Close() // a connection that cannot say so is lost, which its next call finds
	delete(l.prepared, sql)
	l.order = slices.DeleteFunc(l.order, func(s string) bool { return s == sql })
}

// ping asks the server for nothing.
func (l *link) ping(ctx context.Context) error {
	if p, ok := l.native.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	_, err := l.exec(ctx, text{sql: "SELECT 1"})
	return err
}

// text is SQL with its arguments as the caller gave them.
type text struct {
	sql     string
	args    []driver.NamedValue
	prepare bool
}

// check converts arguments as database/sql does: by the statement, else by the
// connection, else by the rules of driver.Value. The arguments that it is given stay as they are.
func (l *link) check(st nativeStmt, args []driver.NamedValue) ([]driver.NamedValue, error) {
	checker, ok := st.(driver.NamedValueChecker)
	if !ok {
		checker, _ = l.native.(driver.NamedValueChecker)
	}
	checked := make([]driver.NamedValue, 0, len(args))
	for _, a := range args {
		nv := driver.NamedValue{Name: a.Name, Ordinal: len(checked) + 1, Value: a.Value}
		switch err := checkOne(checker, &nv); {
		case errors.Is(err, driver.ErrRemoveArgument):
		case err != nil:
			return nil, fmt.Errorf("sqlread: argument $%d: %w", a.Ordinal, err)
		default:
			checked = append(checked, nv)
		}
	}
	if st != nil && st.NumInput() >= 0 && st.NumInput() != len(checked) {
		return nil, fmt.Errorf("sqlread: %d arguments given, the statement has %d", len(checked), st.NumInput())
	}
	return checked, nil
}

func checkOne(checker driver.NamedValueChecker, nv *driver.NamedValue) error {
	err := driver.ErrSkip
	if checker != nil {
		err = checker.CheckNamedValue(nv)
	}
	if errors.Is(err, driver.ErrSkip) {
		nv.Value, err = driver.DefaultParameterConverter.ConvertValue(nv.Value)
	}
	return err
}
