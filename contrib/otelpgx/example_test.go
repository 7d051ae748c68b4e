package otelpgx_test

import (
	"context"
	"fmt"

	"github.com/breakwater-go/breakwater/contrib/otelpgx"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

func ExampleRead() {
	ctx := context.Background()
	tracer := otelpgx.New(otelpgx.Config{}) // OpenTelemetry's global provider
	db, err := pgxread.Open(ctx, pgxread.Config{
		Primary:   pgxread.Node{DSN: dsn("primary")},
		Replicas:  []pgxread.Node{{Name: "r1", DSN: dsn("r1")}},
		Configure: tracer.Configure,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fresh := db.Reader(replica.Requirement{MaxStaleness: replica.Never}) // any replica that is not late
	answer, err := otelpgx.Read(ctx, tracer, "get answer", func(ctx context.Context) (n int, err error) {
		err = fresh.QueryRow(ctx, "SELECT 42").Scan(&n)
		return n, err
	})
	fmt.Println(answer, err)
	// Output: 42 <nil>
}
