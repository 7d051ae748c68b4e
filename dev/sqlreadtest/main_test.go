package sqlreadtest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// pg is the fleet that all tests share: primary, r1, r2. Whoever breaks it calls broken.
var pg *fleet.Fleet

const schema = `CREATE TABLE item (id bigserial PRIMARY KEY, note text NOT NULL UNIQUE);
CREATE TABLE tick (n bigint NOT NULL)`

func TestMain(m *testing.M) {
	os.Exit(leaks.Check(fleettest.Main(m, fleet.Config{Replicas: 2, SQL: runSQL}, begin)))
}

func begin(f *fleet.Fleet) error {
	pg = f
	return runSQL(context.Background(), dsn("primary"), schema)
}

func runSQL(ctx context.Context, dsn, query string) error {
	c, err := pq.NewConnector(dsn)
	if err != nil {
		return err
	}
	db := sql.OpenDB(c)
	defer db.Close()
	_, err = db.ExecContext(ctx, query)
	return err
}

func nodeOf(name string) fleet.Node { return fleettest.Node(pg, name) }

func dsn(name string) string { return nodeOf(name).DSN }

// drivers are those that each test runs with.
var drivers = map[string]func(dsn string) (driver.Connector, error){
	"pgx": func(dsn string) (driver.Connector, error) {
		c, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		return stdlib.GetConnector(*c), nil
	},
	"pq": func(dsn string) (driver.Connector, error) { return pq.NewConnector(dsn) },
}
