package sqlread_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// Every fault is told at once, with its field and its mend.
func TestOpenNamesEveryFault(t *testing.T) {
	ok := newServer("x", true)
	_, err := sqlread.Open(t.Context(), sqlread.Config{
		Primary: sqlread.Node{},
		Replicas: []sqlread.Node{
			{Name: "a"},
			{Name: "a", Connector: ok},
			{Connector: ok},
			{Name: "primary", Connector: ok},
			{Name: "b", Connector: ok, MaxConns: -1},
		},
		Settings:       replica.Settings{Trip: 100 * time.Millisecond, Reenter: 200 * time.Millisecond},
		ConnectTimeout: -1,
		SlowCall:       -1,
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Primary.Connector is nil: give", "Replicas[0].Connector is nil: give",
		`Replicas[1].Name "a" is also the name of Replicas[0]: give`, "Replicas[2].Name is empty: give",
		`Replicas[3].Name "primary" is also the name of Primary`, "Replicas[4].MaxConns -1 is negative: give",
		"ConnectTimeout -1ns is negative: use", "SlowCall -1ns is negative: use", "Reenter",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error says nothing of %q:\n%v", want, err)
		}
	}
}

// behaviours-routing 33: the start succeeds with every node down, and they are used once they are up.
func TestOpenWithAllNodesDown(t *testing.T) {
	inBubble(t, 1, func(r *rig, _ *sqlread.Config) {
		r.primary.down.Store(true)
		r.r[0].down.Store(true)
	}, func(r *rig) {
		if _, err := r.read(r.t.Context(), anywhere); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("read: error %v, want ErrNoReplica", err)
		}
		if err := r.PingContext(r.t.Context()); err == nil {
			t.Error("ping of the primary: no error")
		}
		r.primary.down.Store(false)
		r.r[0].down.Store(false)
		time.Sleep(2 * time.Minute)
		_, err := r.read(r.t.Context(), anywhere)
		r.must(err)
		r.must(r.PingContext(r.t.Context()))
	})
}

// Open ends with its context and leaves nothing behind.
func TestOpenIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer("primary", false)
		never := make(chan struct{})
		s.do(func(_ context.Context, step, _ string) error {
			if step == "connect" {
				<-never
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		db, err := sqlread.Open(ctx, sqlread.Config{Primary: sqlread.Node{Connector: s}})
		if !errors.Is(err, context.DeadlineExceeded) || db != nil {
			t.Errorf("Open: %v, %v, want no DB and context.DeadlineExceeded", db, err)
		}
		close(never)
	})
}

// The close of the DB, by whoever has its sql.DB, closes all that Open made.
func TestClose(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		reader := r.Reader(anywhere)
		for range 20 {
			_, err := r.read(r.t.Context(), anywhere)
			r.must(err)
		}
		r.must(r.PingContext(r.t.Context()))
		conn, err := reader.Conn(r.t.Context())
		r.must(err)
		r.must(conn.PingContext(r.t.Context()))
		pool := r.DB.DB // as gorm has it
		r.must(pool.Close())
		r.must(conn.Close()) // a call under way ends as it would have
		for _, s := range append(r.r, r.primary) {
			if got := s.opened(0); got != 0 {
				t.Errorf("%s: %d connections open, want 0", s.name, got)
			}
		}
		if err := reader.PingContext(r.t.Context()); err == nil {
			t.Error("ping after the close: no error")
		}
		if _, err := r.read(r.t.Context(), anywhere); err == nil {
			t.Error("read after the close: no error")
		}
		r.must(r.Reader(anywhere).Close())
	})
}

// There is one reader a requirement, and a closed one is made anew.
func TestReader(t *testing.T) {
	inBubble(t, 2, nil, func(r *rig) {
		first := r.Reader(anywhere)
		if r.Reader(anywhere) != first || r.Reader(only(r.r[0])) == first {
			t.Error("want one reader a requirement")
		}
		r.must(first.Close())
		_, err := r.read(r.t.Context(), anywhere)
		r.must(err)
	})
}

// Membership changes while running; what is under way on a removed replica ends well.
func TestAddAndRemoveReplicas(t *testing.T) {
	inBubble(t, 1, nil, func(r *rig) {
		added := newServer("r2", true)
		r.must(r.AddReplica(added.node()))
		for name, err := range map[string]error{
			"double":       r.AddReplica(added.node()),
			"no name":      r.AddReplica(sqlread.Node{Connector: added}),
			"no connector": r.AddReplica(sqlread.Node{Name: "r3"}),
			"unknown":      r.RemoveReplica("r3"),
			"primary":      r.RemoveReplica("primary"),
		} {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		time.Sleep(3 * time.Second)
		tx, err := r.Reader(only(r.r[0])).BeginTx(r.t.Context(), nil)
		r.must(err)
		r.must(r.RemoveReplica("r1"))
		_, err = all(tx.QueryContext(r.t.Context(), "rows 2"))
		r.must(err)
		r.must(tx.Commit())
		for range 5 {
			info, err := r.read(r.t.Context(), anywhere)
			if err != nil || info.Node != "r2" {
				t.Errorf("read on %q, error %v, want r2", info.Node, err)
			}
		}
		if got := r.r[0].opened(0); got != 0 {
			t.Errorf("%d connections to the removed replica, want 0", got)
		}
	})
}
