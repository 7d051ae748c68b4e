package breaker

import (
	"testing"
	"time"
)

// A timer that fires while TripFor lengthens the open period, and waits for the lock, was taken for
// the new one: the breaker went half-open at once.
func TestTripForBesideTheTimer(t *testing.T) {
	clk := &fakeClock{}
	b, err := newBreaker(Config{Open: Backoff{Jitter: -1}}, clk)
	if err != nil {
		t.Fatal(err)
	}
	b.Trip(Reason{})
	fired := clk.timers[0].f
	clk.now += time.Second
	b.TripFor(5*time.Second, Reason{})
	fired()
	wantState(t, b, Open)
	clk.advance(5 * time.Second)
	wantState(t, b, HalfOpen)
}

// alarm is the number of the newest timer.
func (b *Breaker) alarm() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.alarm
}
