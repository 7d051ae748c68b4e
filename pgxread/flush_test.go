package pgxread_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// REQ-R8, lag.md: an idle primary that holds unflushed WAL makes no replica stale and opens no breaker, whether that
// ends in the page it began in, or its whole pages are flushed to within a record.
func TestUnflushedWALOnAnIdlePrimary(t *testing.T) {
	for name, bytes := range map[string]int{"within a page": 1, "across pages": 20_000} {
		t.Run(name, func(t *testing.T) {
			s := replica.Settings{Calm: 500 * time.Millisecond, MaxStaleness: 2250 * time.Millisecond} // the default limit, samples meanwhile
			w := open(t, s, []string{"r1", "r2", "r3"})
			w.usable(t, "r1", "r2", "r3")
			held := holdWAL(t, bytes)
			begin := time.Now()
			before := map[string]int{}
			for _, n := range []string{"r1", "r2", "r3"} {
				before[n] = len(w.samplesOf(n))
			}
			for _, n := range []string{"r1", "r2", "r3"} {
				eventually(t, n+" is as new as the primary", func() bool {
					if st := w.stats(n); st.Condition != replica.Fit {
						t.Fatalf("%s after %v: %v (%s), want ok throughout", n, time.Since(begin), st.Condition, st.Detail)
					}
					return w.stats(n).Position >= held
				})
				within(t, n+" as new as the primary", time.Since(begin), s.MaxStaleness)
				for _, c := range w.seen(n) {
					t.Errorf("%s became %v by %v", n, c.To, c.Reason)
				}
				for _, s := range w.samplesOf(n)[before[n]:] {
					if s.Lo > w.Set().Settings().Reenter {
						t.Errorf("%s: a sample says %v late, want next to nothing", n, s.Lo)
					}
				}
			}
			t.Logf("%d bytes were held for at most %v", bytes, time.Since(begin))
		})
	}
}

// holdWAL has the primary write WAL of that size, of no commit, and returns the position behind it, which is not flushed.
func holdWAL(t *testing.T, bytes int) uint64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn("primary"))
	must(t, err)
	defer conn.Close(context.Background())
	const unflushed = "SELECT pg_current_wal_insert_lsn()::text FROM pg_logical_emit_message(false, 'breakwater', repeat('x', $1))"
	for {
		tx, err := conn.Begin(t.Context())
		must(t, err)
		var end string
		must(t, tx.QueryRow(t.Context(), unflushed, bytes).Scan(&end))
		must(t, tx.Rollback(t.Context())) // it had no transaction ID: nothing has it flushed
		look, err := postgres.ScanLook(conn.QueryRow(t.Context(), postgres.SampleSQL))
		must(t, err)
		if held, err := postgres.ParseLSN(end); err == nil && look.Flushed < held {
			return held
		}
	}
}
