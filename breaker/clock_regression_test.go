package breaker

import (
	"testing"
	"time"
)

// A time window that begins clean while the clock is before its own base counted in a step below
// zero and panicked (REQ-B18). Found by FuzzReconfigure.
func TestTimeWindowBeforeTheBaseOfTheClock(t *testing.T) {
	clk := &fakeClock{}
	b, err := newBreaker(Config{Rules: []Rule{FailureRateByTime{MinCalls: 5}}, Open: Backoff{Jitter: -1}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	clk.now = -time.Hour
	if err := b.Force(Closed, ""); err != nil {
		t.Fatal(err)
	}
	runN(t, b, 1, nil)
	clk.now += 7 * time.Second
	runN(t, b, 4, errDown)
	wantState(t, b, Open)
}
