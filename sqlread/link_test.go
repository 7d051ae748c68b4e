package sqlread

import (
	"database/sql/driver"
	"errors"
	"slices"
	"testing"
	"time"
)

type anyConn struct{ native }

// checkingConn takes strings as they are, removes nil, refuses 13, and leaves the rest to the rules.
type checkingConn struct{ native }

func (checkingConn) CheckNamedValue(nv *driver.NamedValue) error {
	switch nv.Value {
	case nil:
		return driver.ErrRemoveArgument
	case 13:
		return errors.New("unlucky")
	}
	if _, ok := nv.Value.([]string); ok {
		return nil
	}
	return driver.ErrSkip
}

type countedStmt struct {
	nativeStmt

	n int
}

func (s countedStmt) NumInput() int { return s.n }

type valuer struct{}

func (valuer) Value() (driver.Value, error) { return "value", nil }

// Arguments are converted as database/sql does it: by the driver's checker, else by the rules
// of driver.Value; and what the caller gave stays for the second node.
func TestArguments(t *testing.T) {
	at := time.Unix(1, 0)
	for _, c := range []struct {
		name string
		conn native
		st   nativeStmt
		args []any
		want []any // nil: an error
	}{
		{"none", anyConn{}, nil, nil, []any{}},
		{"by the rules", anyConn{}, nil, []any{1, "a", at, valuer{}, nil}, []any{int64(1), "a", at, "value", nil}},
		{"not by the rules", anyConn{}, nil, []any{[]string{"a"}}, nil},
		{"by the driver", checkingConn{}, nil, []any{nil, 7, []string{"a"}}, []any{int64(7), []string{"a"}}},
		{"refused by the driver", checkingConn{}, nil, []any{13}, nil},
		{"counted", anyConn{}, countedStmt{n: 1}, []any{7}, []any{int64(7)}},
		{"too few", anyConn{}, countedStmt{n: 2}, []any{7}, nil},
		{"not counted", anyConn{}, countedStmt{n: -1}, []any{7}, []any{int64(7)}},
		{"counted without the removed", checkingConn{}, countedStmt{n: 1}, []any{nil, 7}, []any{int64(7)}},
	} {
		given := make([]driver.NamedValue, len(c.args))
		for i, a := range c.args {
			given[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		l := &link{native: c.conn}
		got, err := l.check(c.st, given)
		if (err == nil) != (c.want != nil) {
			t.Errorf("%s: error %v", c.name, err)
			continue
		}
		same := func(nv driver.NamedValue, want any) bool {
			a, isList := nv.Value.([]string)
			b, _ := want.([]string)
			return isList && slices.Equal(a, b) || !isList && nv.Value == want
		}
		if err == nil && !slices.EqualFunc(got, c.want, same) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for i, nv := range got {
			if nv.Ordinal != i+1 {
				t.Errorf("%s: ordinal %d at %d", c.name, nv.Ordinal, i+1)
			}
		}
		if len(c.args) > 0 && c.args[0] == 7 && given[0].Value != 7 {
			t.Errorf("%s: what was given has become %#v", c.name, given[0].Value)
		}
	}
}

type oldConn struct{ driver.Conn }

// A driver without context is refused by name.
func TestDriverWithoutContext(t *testing.T) {
	if _, err := newLink(&node{}, 0, oldConn{}); err == nil {
		t.Error("no error")
	}
}
