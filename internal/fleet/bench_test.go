package fleet_test

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

// BenchmarkStartAndClose: from Start to a row of the primary seen on three
// replicas, and back to no process. Run with -benchtime=5x.
func BenchmarkStartAndClose(b *testing.B) {
	bin, err := fleet.Find(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	var ready, stop time.Duration
	for b.Loop() {
		begin := time.Now()
		f, err := fleet.Start(b.Context(), fleet.Config{SQL: psql(bin.Psql()).run})
		if err != nil {
			b.Fatal(err)
		}
		up := time.Now()
		if err := f.Close(); err != nil {
			b.Fatal(err)
		}
		ready += up.Sub(begin)
		stop += time.Since(up)
		b.Logf("ready in %v, stopped in %v", up.Sub(begin).Round(time.Millisecond), time.Since(up).Round(time.Millisecond))
	}
	b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ready-ms")
	b.ReportMetric(float64(stop.Milliseconds())/float64(b.N), "stop-ms")
}
