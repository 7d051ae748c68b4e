package otelpgx_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/fleettest"
)

// pg is the fleet that all tests share: primary and r1.
var pg *fleet.Fleet

func TestMain(m *testing.M) {
	code := fleettest.Main(m, fleet.Config{Replicas: 1, SQL: runSQL}, func(f *fleet.Fleet) error {
		pg = f
		return nil
	})
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func runSQL(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
	return err
}

func dsn(name string) string { return fleettest.Node(pg, name).DSN }
