package pgxread_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// BenchmarkRead compares a read through pgxread with the same read on a bare pgxpool of
// the same node. The two take turns, read by read, each one first half of the time, so that
// whatever else the machine does hits both; the ratio is that of the medians. Run it alone:
//
//	go test -run '^$' -bench 'Read$' -benchtime 20000x -count 10 .
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	bare, err := pgxpool.New(ctx, dsn("r1"))
	if err != nil {
		b.Fatal(err)
	}
	defer bare.Close()
	db, err := pgxread.Open(ctx, pgxread.Config{
		Primary:  pgxread.Node{DSN: dsn("primary")},
		Replicas: []pgxread.Node{{Name: "r1", DSN: dsn("r1")}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	reader := db.Reader(replica.Requirement{})
	const sql = "SELECT $1::int"
	var n int
	through := func() error { return reader.QueryRow(ctx, sql, 7).Scan(&n) }
	direct := func() error { return bare.QueryRow(ctx, sql, 7).Scan(&n) }
	for range 500 { // both warm
		timed(b, through)
		timed(b, direct)
	}
	var ours, theirs []float64
	for i := range max(b.N, 1000) {
		if i%2 == 0 {
			ours = append(ours, timed(b, through))
		}
		theirs = append(theirs, timed(b, direct))
		if i%2 == 1 {
			ours = append(ours, timed(b, through))
		}
	}
	b.ReportMetric(median(ours), "ns/read")
	b.ReportMetric(median(theirs), "ns/bare")
	b.ReportMetric(median(ours)/median(theirs), "ratio")
	b.ReportMetric(0, "ns/op") // both together: means nothing
}

func timed(b *testing.B, f func() error) float64 {
	b.Helper()
	begin := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return float64(time.Since(begin))
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

// BenchmarkReadAllocs shows what one read allocates.
func BenchmarkReadAllocs(b *testing.B) {
	ctx := context.Background()
	db := exampleDB(ctx)
	defer db.Close()
	pool := db.Pool("r1")
	reader := db.Reader(replica.Requirement{})
	var n int
	for name, read := range map[string]func() error{
		"through=pgxread": func() error { return reader.QueryRow(ctx, "SELECT 7").Scan(&n) },
		"through=pgxpool": func() error { return pool.QueryRow(ctx, "SELECT 7").Scan(&n) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
