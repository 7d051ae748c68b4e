package sqlreadtest

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// REQ-R8, lag.md: an idle primary that holds unflushed WAL is made to flush by its sampler, with each driver.
func TestUnflushedWALOnAnIdlePrimary(t *testing.T) {
	const hold = `BEGIN; SELECT pg_logical_emit_message(false, 'breakwater', repeat('x', 20000)); ROLLBACK`
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			w := open(t, drv, replica.Settings{})
			w.usable(t, "r1", "r2")
			before := w.Set().Stats().Primary.Position
			must(t, runSQL(t.Context(), dsn("primary"), hold)) // it had no transaction ID: nothing has it flushed
			begin := time.Now()
			for _, n := range []string{"r1", "r2"} {
				eventually(t, n+" has what was held", func() bool {
					if st := w.stats(n); st.Condition != replica.Fit || st.Breaker.State != breaker.Closed {
						t.Fatalf("%s after %v: %v (%s), breaker %v; want ok and closed throughout", n, time.Since(begin), st.Condition, st.Detail, st.Breaker.State)
					}
					return w.stats(n).Position > before+20_000
				})
			}
			t.Logf("held for at most %v", time.Since(begin))
		})
	}
}
