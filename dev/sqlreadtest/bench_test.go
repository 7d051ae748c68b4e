package sqlreadtest

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/sqlread"
)

// BenchmarkRead compares a read through sqlread with the same read on a bare sql.DB of the
// same node. The two take turns, read by read, each one first half of the time, so that whatever
// else the machine does hits both. Every round has new connections, since the kernel places a
// server's process anew; the ratio is the median of the rounds' ratios of medians. Run it alone:
//
//	go test -run '^$' -bench 'Read$' -benchtime 20x ./sqlreadtest
func BenchmarkRead(b *testing.B) {
	for drv := range drivers {
		b.Run("driver="+drv, func(b *testing.B) {
			var ours, theirs, ratios []float64
			for range b.N {
				read, bare := readRound(b, drv)
				ours, theirs, ratios = append(ours, read), append(theirs, bare), append(ratios, read/bare)
			}
			b.ReportMetric(median(ours), "ns/read")
			b.ReportMetric(median(theirs), "ns/bare")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op") // a round: means nothing
		})
	}
}

// pair is a DB and a bare pool of the same replica.
func pair(b *testing.B, drv string) (db *sqlread.DB, bare *sql.DB) {
	b.Helper()
	connector := drivers[drv]
	primary, err := connector(dsn("primary"))
	if err != nil {
		b.Fatal(err)
	}
	r1, err := connector(dsn("r1"))
	if err != nil {
		b.Fatal(err)
	}
	db, err = sqlread.Open(b.Context(), sqlread.Config{
		Primary: sqlread.Node{Connector: primary}, Replicas: []sqlread.Node{{Name: "r1", Connector: r1}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return db, sql.OpenDB(r1)
}

// readRound is 1,000 reads each way over new connections; it returns the medians in ns.
func readRound(b *testing.B, drv string) (read, bare float64) {
	b.Helper()
	db, pool := pair(b, drv)
	defer db.Close()
	defer pool.Close()
	through, direct := oneRead(db.Reader(anywhere)), oneRead(pool)
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

func oneRead(db *sql.DB) func() error {
	var n int
	return func() error { return db.QueryRowContext(context.Background(), "SELECT $1::int", 7).Scan(&n) }
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
	for drv := range drivers {
		db, pool := pair(b, drv)
		for through, read := range map[string]func() error{"sqlread": oneRead(db.Reader(anywhere)), "bare": oneRead(pool)} {
			b.Run("driver="+drv+"/through="+through, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		db.Close()
		pool.Close()
	}
}
