package pgxread_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// BenchmarkRead compares a read through pgxread with the same read on a bare pgxpool of
// the same node. The two take turns, read by read, each one first half of the time, so that
// whatever else the machine does hits both. The server's process of a connection is woken
// by the other processor or by the same one, as the kernel places it, which more than
// doubles the time of a read whoever makes it: so every round has new connections, and
// the ratio is the median of the rounds' ratios of medians. Run it alone:
//
//	go test -run '^$' -bench 'Read$' -benchtime 40x -count 5 .
func BenchmarkRead(b *testing.B) {
	var ours, theirs, ratios []float64
	for range b.N {
		read, bare := readRound(b)
		ours, theirs, ratios = append(ours, read), append(theirs, bare), append(ratios, read/bare)
	}
	b.ReportMetric(median(ours), "ns/read")
	b.ReportMetric(median(theirs), "ns/bare")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op") // a round: means nothing
}

// readRound is 1,000 reads each way over new connections; it returns the medians in ns.
func readRound(b *testing.B) (read, bare float64) {
	b.Helper()
	ctx := b.Context()
	pool, err := pgxpool.New(ctx, dsn("r1"))
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
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
	background := context.Background() // as most callers have: it cannot end
	through := func() error { return reader.QueryRow(background, sql, 7).Scan(&n) }
	direct := func() error { return pool.QueryRow(background, sql, 7).Scan(&n) }
	return inTurn(b, through, direct)
}

// inTurn makes 1,000 reads each way, read by read, each one first half of the time, and returns the medians in ns.
func inTurn(b *testing.B, through, direct func() error) (read, bare float64) {
	b.Helper()
	for range 200 { // both warm
		timed(b, through)
		timed(b, direct)
	}
	var ours, theirs []float64
	for i := range 1000 {
		if i%2 == 0 {
			ours = append(ours, timed(b, through))
		}
		theirs = append(theirs, timed(b, direct))
		if i%2 == 1 {
			ours = append(ours, timed(b, through))
		}
	}
	return median(ours), median(theirs)
}

// BenchmarkNormal compares a read through readpath.Get in Normal with the same read through pgxread alone, in
// the same way. Run it alone:
//
//	go test -run '^$' -bench 'Normal$' -benchtime 40x -count 4 .
func BenchmarkNormal(b *testing.B) {
	var ours, theirs, added, ratios []float64
	for range b.N {
		get, read := normalRound(b)
		ours, theirs = append(ours, get), append(theirs, read)
		added, ratios = append(added, get-read), append(ratios, get/read)
	}
	b.ReportMetric(median(ours), "ns/get")
	b.ReportMetric(median(theirs), "ns/read")
	b.ReportMetric(median(added), "ns/added")
	b.ReportMetric(median(ratios), "ratio")
	b.ReportMetric(0, "ns/op") // a round: means nothing
}

// normalRound is 1,000 reads each way over new connections; it returns the medians in ns.
func normalRound(b *testing.B) (get, read float64) {
	b.Helper()
	background := context.Background()
	db := exampleDB(background)
	defer db.Close()
	router, err := readpath.New(readpath.Config{
		Backend:   db.Backend(),
		Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer router.Close()
	const sql = "SELECT $1::int"
	var n int
	load := func(ctx context.Context) (n int, err error) {
		err = db.QueryRow(ctx, sql, 7).Scan(&n)
		return n, err
	}
	through := func() error {
		_, err := readpath.Get(background, router, readpath.Call{Endpoint: "balance"}, load)
		return err
	}
	reader := db.Reader(replica.Requirement{})
	direct := func() error { return reader.QueryRow(background, sql, 7).Scan(&n) }
	get, read = inTurn(b, through, direct)
	if got := router.Stats().Reads[readpath.Critical][readpath.FromReplica]; got != 1200 {
		b.Fatalf("%d reads of a replica, want 1,200: %+v", got, router.Stats())
	}
	return get, read
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
	router, err := readpath.New(readpath.Config{
		Backend:   db.Backend(),
		Endpoints: map[string]readpath.Endpoint{"balance": {Class: readpath.Critical}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer router.Close()
	reader := db.Reader(replica.Requirement{})
	var n int
	for name, read := range map[string]func() error{
		"through=pgxread": func() error { return reader.QueryRow(ctx, "SELECT 7").Scan(&n) },
		"through=readpath": func() error {
			_, err := readpath.Get(ctx, router, readpath.Call{Endpoint: "balance"}, func(ctx context.Context) (n int, err error) {
				err = db.QueryRow(ctx, "SELECT 7").Scan(&n)
				return n, err
			})
			return err
		},
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

// BenchmarkPosition shows what a position costs beside the transaction of one insert that it covers.
func BenchmarkPosition(b *testing.B) {
	ctx := context.Background()
	db := exampleDB(ctx)
	defer db.Close()
	insert := func(end func(pgx.Tx) error) error {
		transaction, err := db.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err = transaction.Exec(ctx, "INSERT INTO tick VALUES (1)"); err != nil {
			return err
		}
		return end(transaction)
	}
	commit := func(t pgx.Tx) error { return t.Commit(ctx) }
	for _, way := range []struct {
		name string
		run  func() error
	}{
		{"with=Commit", func() error { return insert(commit) }},
		{"with=CommitPosition", func() error {
			return insert(func(t pgx.Tx) error { _, err := pgxread.CommitPosition(ctx, t); return err })
		}},
		{"with=Commit,DB.Position", func() error {
			err := insert(commit)
			if err == nil {
				_, err = db.Position(ctx)
			}
			return err
		}},
		{"with=Commit,Set.Position", func() error {
			err := insert(commit)
			if err == nil {
				_, err = db.Set().Position(ctx)
			}
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				if err := way.run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
