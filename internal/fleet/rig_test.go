//go:build unix

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

// rig is one fleet that the tests of single faults share. Each of them leaves
// it whole.
type rig struct {
	*fleet.Fleet

	sql   psql
	logs  *logBuffer
	nodes map[string]fleet.Node
	rows  int // committed into table fact
}

// logBuffer keeps what the fleet logs.
type logBuffer struct {
	sync.Mutex
	lines []string
	more  chan struct{} // has room for one: something was logged
}

func (l *logBuffer) printf(format string, args ...any) {
	l.Lock()
	defer l.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// await waits until a line holds text.
func (l *logBuffer) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(patience)
	for !l.has(text) {
		select {
		case <-l.more:
		case <-late:
			t.Fatalf("nothing logged that holds %q", text)
		}
	}
}

func (l *logBuffer) has(text string) bool { return strings.Contains(l.text(), text) }

func (l *logBuffer) text() string {
	l.Lock()
	defer l.Unlock()
	return strings.Join(l.lines, "\n")
}

// shared is the fleet of the tests of single faults, in which r3 streams from
// r1. TestMain closes it.
var shared struct {
	once sync.Once
	rig  *rig
	err  error
}

// theRig starts the shared fleet for the first test that asks. A test that
// fails has it healed for the next.
func theRig(t *testing.T) *rig {
	t.Helper()
	shared.once.Do(func() { shared.rig, shared.err = newRig(needPsql(t)) })
	if shared.err != nil || shared.rig == nil {
		t.Fatalf("no shared fleet: %v", shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the fleet's log:\n%s", shared.rig.logs.text())
			t.Logf("heal: %v", shared.rig.Heal(context.Background()))
		}
	})
	return shared.rig
}

func newRig(sql psql) (*rig, error) {
	logs := &logBuffer{more: make(chan struct{}, 1)}
	f, err := fleet.Start(context.Background(), fleet.Config{
		SQL: sql.run, Log: logs.printf, Upstream: map[string]string{"r3": "r1"},
	})
	if err != nil {
		return nil, err
	}
	r := &rig{Fleet: f, sql: sql, logs: logs}
	r.look()
	return r, sql.run(context.Background(), r.nodes["primary"].DSN, "CREATE TABLE fact (n int)")
}

// closeRig says what Close left undone.
func closeRig() error {
	if shared.rig == nil {
		return nil
	}
	return errors.Join(shared.rig.Close(), leftIn(shared.rig.Dir()))
}

func (r *rig) look() {
	r.nodes = map[string]fleet.Node{}
	for _, n := range r.Nodes() {
		r.nodes[n.Name] = n
	}
}

func (r *rig) query(t *testing.T, node, query string) string {
	t.Helper()
	got, err := r.sql.query(t.Context(), r.nodes[node].DSN, query)
	must(t, err)
	return got
}

func (r *rig) exec(t *testing.T, node, query string) { t.Helper(); r.query(t, node, query) }

// write commits one more row on the primary.
func (r *rig) write(t *testing.T) {
	t.Helper()
	r.exec(t, "primary", fmt.Sprintf("INSERT INTO fact VALUES (%d)", r.rows))
	r.rows++
}

func (r *rig) wantRows(t *testing.T, node string, want int) {
	t.Helper()
	if got := r.query(t, node, "SELECT count(*) FROM fact"); got != strconv.Itoa(want) {
		t.Fatalf("rows on %s: got %s, want %d", node, got, want)
	}
}

// wantCaughtUp checks that a fault is over: all rows arrive on all replicas.
func (r *rig) wantCaughtUp(t *testing.T) {
	t.Helper()
	must(t, r.CatchUp(t.Context()))
	for name := range r.nodes {
		r.wantRows(t, name, r.rows)
	}
}

// await asks until query answers "t".
func (r *rig) await(t *testing.T, node, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got, err := r.sql.query(ctx, r.nodes[node].AdminDSN, query)
		if got == "t" {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: %s: got %q, %v, want t", node, query, got, err)
		}
	}
}
