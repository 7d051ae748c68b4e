package pgxread_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// REQ-R8, REQ-R15: a sampling role without the rights that it needs is a reason in words.
func TestSamplerWithoutRights(t *testing.T) {
	must(t, runSQL(t.Context(), nodeOf("primary").AdminDSN, "CREATE ROLE weak LOGIN PASSWORD 'weak'"))
	t.Cleanup(func() { must(t, runSQL(context.Background(), nodeOf("primary").AdminDSN, "DROP ROLE weak")) })
	must(t, pg.CatchUp(t.Context()))
	w := open(t, quick(), []string{"r1", "r2"}, func(c *pgxread.Config) {
		c.Replicas[0].SampleDSN = as(t, "r1", "weak", "weak")
	})
	w.usable(t, "r2")
	_, err := w.port(t.Context(), onR1)
	if r := reason(t, err, "r1", replica.NoRights); !strings.Contains(r.Detail, "GRANT pg_monitor TO") || !strings.Contains(r.Detail, "weak") {
		t.Errorf("reason %q, want it to say GRANT pg_monitor TO the role weak", r.Detail)
	}
	must(t, runSQL(t.Context(), nodeOf("primary").AdminDSN, "GRANT pg_monitor TO weak"))
	w.usable(t, "r1") // without a restart of ours
	must(t, runSQL(t.Context(), nodeOf("primary").AdminDSN, "REVOKE pg_monitor FROM weak"))
}

// as is the DSN of a node for another role.
func as(t *testing.T, node, user, password string) string {
	t.Helper()
	c, err := pgconn.ParseConfig(dsn(node))
	must(t, err)
	return strings.Replace(dsn(node), c.User+":"+c.Password, user+":"+password, 1)
}

// Two names for one server, and a replica of another cluster.
func TestNodesThatAreNotWhatTheyShouldBe(t *testing.T) {
	other, err := fleet.Start(t.Context(), fleet.Config{Replicas: 1, SQL: runSQL})
	must(t, err)
	t.Cleanup(func() { must(t, other.Close()) })
	w := open(t, quick(), []string{"r1", "r2"}, func(c *pgxread.Config) {
		c.Replicas = append(c.Replicas,
			pgxread.Node{Name: "twin", DSN: dsn("r1")},
			pgxread.Node{Name: "stranger", DSN: other.Nodes()[1].DSN},
			pgxread.Node{Name: "itself", DSN: dsn("primary")})
	})
	w.usable(t, "r1", "r2")
	for node, want := range map[string]replica.Condition{"twin": replica.Duplicate, "stranger": replica.OtherCluster} {
		eventually(t, node+" is known", func() bool { return w.stats(node).Condition == want })
	}
	eventually(t, "itself is barred", func() bool {
		c := w.stats("itself").Condition
		return c == replica.Promoted || c == replica.Duplicate
	})
	if at := w.spread(t, 60); at["r1"]+at["r2"] != 60 {
		t.Errorf("reads by node %v, want all on r1 and r2", at)
	}
	_, err = w.port(t.Context(), replica.Requirement{MaxStaleness: 1})
	r := reason(t, err, "stranger", replica.OtherCluster)
	if r.Detail == "" || reason(t, err, "twin", replica.Duplicate).Detail == "" {
		t.Errorf("reasons without words: %v", err)
	}
}

// REQ-R15: opening succeeds with every node down, and a read says so of each.
func TestOpenWithAllNodesDown(t *testing.T) {
	down := func(name string) pgxread.Node {
		return pgxread.Node{Name: name, DSN: "postgres://app:hunter2@127.0.0.1:1/app?sslmode=disable"}
	}
	db, err := pgxread.Open(t.Context(), pgxread.Config{
		Primary: down(""), Replicas: []pgxread.Node{down("a"), down("b")}, Settings: quick(),
	})
	must(t, err)
	defer db.Close()
	_, err = db.Reader(replica.Requirement{}).Exec(t.Context(), "SELECT 1")
	for _, n := range []string{"a", "b"} {
		if r := reason(t, err, n, replica.Unreachable); !strings.Contains(r.Detail, "refused") {
			t.Errorf("%s: %q, want the cause", n, r.Detail)
		}
	}
	_, errWrite := db.Exec(t.Context(), "SELECT 1")
	if _, ok := errors.AsType[*pgconn.ConnectError](errWrite); !ok {
		t.Errorf("write: %v, want a *pgconn.ConnectError", errWrite)
	}
	if all := err.Error() + errWrite.Error(); strings.Contains(all, "hunter2") {
		t.Errorf("a password in %s", all)
	}
}

// Membership changes at run time.
func TestAddAndRemoveReplicas(t *testing.T) {
	w := open(t, quick(), []string{"r1"})
	w.usable(t, "r1")
	for _, bad := range []pgxread.Node{{}, {Name: "r2"}, {Name: "r1", DSN: dsn("r1")}, {Name: "primary", DSN: dsn("r2")}, {Name: "r2", DSN: "port=x"}} {
		if err := w.AddReplica(bad); err == nil {
			t.Errorf("AddReplica(%s): nil, want an error", bad.Name)
		}
	}
	must(t, w.AddReplica(pgxread.Node{Name: "r2", DSN: dsn("r2")}))
	w.usable(t, "r2")
	eventually(t, "r2 takes reads", func() bool { return w.spread(t, 10)["r2"] > 0 })
	tx, err := w.Reader(onR2).Begin(t.Context()) // on r1
	must(t, err)
	must(t, tx.Commit(t.Context()))
	must(t, w.RemoveReplica("r1"))
	if at := w.spread(t, 20); at["r2"] != 20 {
		t.Errorf("reads after the removal by node %v, want all on r2", at)
	}
	if w.Pool("r1") != nil {
		t.Error("the pool of a removed replica is still there")
	}
	for _, bad := range []string{"r1", "primary", "nobody"} {
		if err := w.RemoveReplica(bad); err == nil {
			t.Errorf("RemoveReplica(%s): nil, want an error", bad)
		}
	}
	must(t, w.AddReplica(pgxread.Node{Name: "r1", DSN: dsn("r1")}))
	w.usable(t, "r1")
}

// After Close every call fails, and nothing hangs.
func TestClosed(t *testing.T) {
	w := open(t, quick(), []string{"r1"})
	w.usable(t, "r1")
	w.Close()
	if _, err := w.port(t.Context(), replica.Requirement{}); !errors.Is(err, replica.ErrClosed) {
		t.Errorf("read: %v, want ErrClosed", err)
	}
	if _, err := w.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("write: nil, want an error")
	}
	if err := w.AddReplica(pgxread.Node{Name: "r2", DSN: dsn("r2")}); !errors.Is(err, replica.ErrClosed) {
		t.Errorf("AddReplica: %v, want ErrClosed", err)
	}
	w.Close()
}

// Open gives up when its context ends, and leaves nothing.
func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if db, err := pgxread.Open(ctx, pgxread.Config{Primary: pgxread.Node{DSN: dsn("primary")}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v, %v, want context.Canceled", db, err)
	}
}

// An idle minimum is no way round the guard: the pool of an open replica fills up no more.
func TestMinConnsObeyTheGuard(t *testing.T) {
	broken(t)
	w := open(t, quick(), []string{"r1", "r2"}, func(c *pgxread.Config) {
		c.Replicas[0].DSN += "&pool_min_conns=2&pool_health_check_period=20ms"
	})
	w.usable(t, "r1", "r2")
	eventually(t, "r1 has its minimum", func() bool { return w.Pool("r1").Stat().IdleConns() >= 2 })
	must(t, w.Set().Breaker("r1").Force(breaker.ForcedOpen, "test"))
	eventually(t, "r1 has no connection", func() bool { return w.Pool("r1").Stat().TotalConns() == 0 })
	before := w.count("r1").requests
	w.spread(t, 200)
	if after := w.count("r1").requests; after != before {
		t.Errorf("%d dials to r1 while it was open, want 0", after-before)
	}
	must(t, w.Set().Breaker("r1").Force(breaker.Closed, "test"))
	eventually(t, "r1 has its minimum again", func() bool { return w.Pool("r1").Stat().IdleConns() >= 2 })
}
