package replica_test

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// Eligible agrees with Pick: it counts the replicas that would take the read, full or not.
func TestEligible(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		want := func(n int, r replica.Requirement) {
			t.Helper()
			if got := c.Eligible(r); got != n {
				t.Errorf("eligible for %+v: got %d, want %d", r, got, n)
			}
			if _, err := c.Pick(r); (err == nil) != (n > 0) {
				t.Errorf("pick for %+v: got %v, though %d are eligible", r, err, n)
			}
		}
		c.writing(3*time.Second, c.r...)
		if !c.Sampled() {
			t.Error("not sampled after 3 s")
		}
		want(2, replica.Requirement{})
		want(1, replica.Requirement{Except: "r1"})
		want(1, replica.Requirement{PrimaryOnly: true})
		want(0, replica.Requirement{MaxStaleness: -1})
		c.writing(4*time.Second, c.r[1]) // r1 falls behind
		want(1, replica.Requirement{})
		want(0, replica.Requirement{Except: "r2"})
		c.writing(4 * time.Second)
		want(0, replica.Requirement{})
		want(1, replica.Requirement{PrimaryOnly: true})
		c.primary.fail(errors.New("connection refused"))
		c.writing(time.Second)
		if got := c.Eligible(replica.Requirement{PrimaryOnly: true}); got != 0 {
			t.Errorf("a primary whose newest sample failed: got %d, want 0", got)
		}
	})
}
