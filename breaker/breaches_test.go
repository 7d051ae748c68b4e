package breaker_test

import (
	"math"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

// REQ-O7: how near a signal is to opening can be seen.
func TestStatsTellBreaches(t *testing.T) {
	b, err := breaker.New(breaker.Config{Rules: []breaker.Rule{
		breaker.Signal{Name: "inert", Trip: math.Inf(1)},
		breaker.DryRun{Rule: breaker.Signal{Name: "tried", Trip: 1, Reenter: 1}},
		breaker.Signal{Name: "far", Trip: 10, Reenter: 1, Breaches: 5},
		breaker.Signal{Name: "lag", Trip: 1, Reenter: 1, Breaches: 3},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := func(breaches, limit int) {
		t.Helper()
		if s := b.Stats(); s.Breaches != breaches || s.BreachLimit != limit {
			t.Errorf("got %d of %d, want %d of %d", s.Breaches, s.BreachLimit, breaches, limit)
		}
	}
	want(0, 3)
	b.Observe("lag", 2)
	b.Observe("lag", 2)
	want(2, 3)
	b.Observe("lag", 0.5)
	for range 4 {
		b.Observe("far", 11)
	}
	want(4, 5)
	b.Observe("far", 11)
	if b.State() != breaker.Open {
		t.Error("not open")
	}
}
