package sqlread_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/sqlread"
)

// connector stands for the driver's: stdlib.GetConnector of pgx, or pq.NewConnector.
func connector(name string) driver.Connector {
	return exampleServer{newServer(name, name != "primary")}
}

// exampleServer serves a node's reads and its sampler alike.
type exampleServer struct{ *server }

func (s exampleServer) Connect(context.Context) (driver.Conn, error) {
	return &fakeConn{s: s.server, sampler: true}, nil
}

func exampleDB(ctx context.Context) *sqlread.DB {
	db, err := sqlread.Open(ctx, sqlread.Config{
		Primary:  sqlread.Node{Connector: connector("primary")},
		Replicas: []sqlread.Node{{Name: "r1", Connector: connector("r1")}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return db
}

// Open a primary with two replicas, read with a bound of two seconds, and write.
func Example() {
	ctx := context.Background()
	db, err := sqlread.Open(ctx, sqlread.Config{
		Primary: sqlread.Node{Connector: connector("primary")},
		Replicas: []sqlread.Node{
			{Name: "r1", Connector: connector("r1")},
			{Name: "r2", Connector: connector("r2"), MaxConns: 20},
		},
	})
	if err != nil {
		log.Fatal(err) // every fault of the configuration; a node that is down is none
	}
	defer db.Close()

	fresh := db.Reader(replica.Requirement{MaxStaleness: 2 * time.Second}) // a *sql.DB
	var n int
	var node string
	err = fresh.QueryRowContext(ctx, "rows 1").Scan(&n, &node) // on a replica, at most 2 s behind
	if errors.Is(err, replica.ErrNoReplica) {
		log.Print(err) // names each replica's reason; nothing was sent to the primary
	}
	_, err = db.ExecContext(ctx, "write") // on the primary
	fmt.Println(n, node != "primary", err)
	// Output: 1 true <nil>
}

// A read-only transaction stays on the replica that it began on.
func ExampleDB() {
	ctx := context.Background()
	db := exampleDB(ctx)
	defer db.Close()

	var info sqlread.ReadInfo
	tx, err := db.BeginTx(sqlread.WithInfo(ctx, &info), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tx.Rollback()
	var n int
	var node string
	err = tx.QueryRowContext(ctx, "rows 1").Scan(&n, &node)
	fmt.Println(n, node, info.Node, err)
	// Output: 1 r1 r1 <nil>
}

// Code that takes a *sql.DB reads from a replica under WithRead.
func ExampleWithRead() {
	ctx := context.Background()
	db := exampleDB(ctx)
	defer db.Close()

	var info sqlread.ReadInfo
	ctx = sqlread.WithRead(sqlread.WithInfo(ctx, &info), replica.Requirement{})
	rows, err := all(db.QueryContext(ctx, "rows 3"))
	fmt.Println(rows, err, info.Node, info.Attempts)
	// Output: 3 <nil> r1 1
}
