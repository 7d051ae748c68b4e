package replica_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// Judge says of a replica what Pick does with it (REQ-R4, REQ-R5), and why.
func TestJudge(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		want := func(r replica.Requirement, condition replica.Condition, detail string) {
			t.Helper()
			v, known := c.Judge("r1", r)
			if !known || v.Condition != condition || !strings.Contains(v.Detail, detail) || (condition == replica.Fit) != (v.Detail == "") {
				t.Errorf("got %v %+v, want %v %q", known, v, condition, detail)
			}
			choice, err := c.Pick(r)
			if (err == nil) != (condition == replica.Fit) {
				t.Errorf("pick: got %v, though it is judged %v", err, condition)
			}
			choice.DoneAs(breaker.Ignored, nil)
		}
		c.writing(30*time.Second, c.r...)
		want(replica.Requirement{}, replica.Fit, "")
		want(replica.Requirement{MaxStaleness: -1}, replica.Stale, "staleness up to")
		if err := c.Breaker("r1").Force(breaker.ForcedOpen, "an operator"); err != nil {
			t.Fatal(err)
		}
		want(replica.Requirement{}, replica.Open, "an operator")
		if err := c.Breaker("r1").Force(breaker.Closed, "an operator"); err != nil {
			t.Fatal(err)
		}
		if v, _ := c.Judge("r1", replica.Requirement{}); v.Share >= 1 || v.Hi > 2250*time.Millisecond {
			t.Errorf("in its slow start: got %+v", v)
		}
		c.writing(4 * time.Second) // r1 falls behind
		want(replica.Requirement{}, replica.Late, "over 500ms")
		if v, _ := c.Judge("r1", replica.Requirement{}); v.RetryAfter != c.Breaker("r1").Stats().RetryAfter {
			t.Errorf("while it is open: got %+v", v)
		}
		c.r[0].fail(errors.New("connection refused"))
		c.writing(3 * time.Second)
		want(replica.Requirement{}, replica.Unreachable, "connection refused")
		if v, _ := c.Judge("r1", replica.Requirement{}); v.Err == nil || v.Err.Error() != "connection refused" {
			t.Errorf("unreachable: got the error %v, want that of the sample", v.Err)
		}
		for _, name := range []string{"primary", "r2", ""} {
			if v, known := c.Judge(name, replica.Requirement{}); known {
				t.Errorf("%q: got %+v", name, v)
			}
		}
		c.Close()
		if v, known := c.Judge("r1", replica.Requirement{}); known {
			t.Errorf("closed: got %+v", v)
		}
	})
}

func TestJudgeAllocatesNothingForAFitReplica(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.writing(30*time.Second, c.r...)
		if n := testing.AllocsPerRun(100, func() { c.Judge("r1", replica.Requirement{}) }); n != 0 {
			t.Errorf("got %v allocations, want 0", n)
		}
	})
}
