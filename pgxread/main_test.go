package pgxread_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// pg is the fleet that all tests share: primary, r1, r2, and r3 below r1. Whoever
// breaks it calls broken. It is nil when only tests without a server run.
var pg *fleet.Fleet

func TestMain(m *testing.M) {
	code := fleettest.Main(m, fleet.Config{Replicas: 3, Upstream: map[string]string{"r3": "r1"}, SQL: runSQL}, begin)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(leaks.Check(code))
}

func begin(f *fleet.Fleet) error {
	pg = f
	return runSQL(context.Background(), dsn("primary"), schema)
}

const schema = `CREATE TABLE item (id bigserial PRIMARY KEY, note text NOT NULL UNIQUE);
CREATE TABLE tick (n bigint NOT NULL)`

func runSQL(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
	return err
}

func nodeOf(name string) fleet.Node { return fleettest.Node(pg, name) }

func dsn(name string) string { return nodeOf(name).DSN }
