package sqlreadtest

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// REQ-D5, REQ-R4: with each driver a replica that is open because of lag takes the reads that accept it, and no other.
func TestLateReplica(t *testing.T) {
	for drv := range drivers {
		t.Run(drv, func(t *testing.T) {
			broken(t)
			w := open(t, drv, quick())
			w.usable(t, "r1", "r2")
			for _, n := range []string{"r1", "r2"} {
				must(t, pg.Pause(t.Context(), n))
				eventually(t, n+" is open because of lag", func() bool {
					_, err := w.ExecContext(t.Context(), "INSERT INTO tick VALUES (1)")
					must(t, err)
					b := w.stats(n).Breaker
					return b.State == breaker.Open && b.Reason.Rule == "lag"
				})
			}
			accepts := replica.Requirement{AcceptLate: time.Minute}
			for range 20 {
				info, err := w.port(t.Context(), accepts)
				if err != nil || info.Primary || !info.Late || info.Hi < 500*time.Millisecond {
					t.Fatalf("got %+v, %v; want a late replica", info, err)
				}
				if _, err := w.port(t.Context(), anywhere); !errors.Is(err, replica.ErrNoReplica) {
					t.Fatalf("without the choice: got %v, want ErrNoReplica", err)
				}
			}
			w.idle(t)
		})
	}
}
