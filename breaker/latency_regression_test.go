package breaker

import (
	"testing"
	"time"
)

// A caller that looked at the clock, and judges the ticks only after others have begun newer ones, took those
// for very old ones: calls under way were slow. Found by TestLatencyStress on a busy machine.
func TestJudgingForAnInstantThatIsOver(t *testing.T) {
	b, clk := newHooked(t, slowConfig(SlowCallRate{Rate: 0.1, MinCalls: 1}))
	runN(t, b, 1, nil)
	stale := clk.now
	clk.now += 10 * ms
	start(t, b)
	b.mu.Lock()
	moved := b.judgeLatencyLocked(stale)
	b.mu.Unlock()
	if moved {
		t.Error("a call that has just begun is slow")
	}
	wantBegun(t, b, 2)
}

// A tick is known again after any idle time, though a cell holds its number modulo 2^19.
func TestTickIsKnownAfterLongIdle(t *testing.T) {
	for _, ticks := range []uint64{40, 1 << 18, 1<<18 + 1, 1<<19 - 1, 1 << 19, 1<<19 + 16, 1 << 30} {
		l := newLatencyWindow(50*ms, 0)
		began := 3 * l.tick()
		l.begin(began)
		l.begin(began + l.tick() - 1) // its last is in the next tick
		var got []ripe
		l.harvest(began+time.Duration(ticks)*l.tick(), func(r ripe) bool { got = append(got, r); return false })
		if len(got) != 1 || got[0] != (ripe{at: began, calls: 2, slow: 2}) {
			t.Errorf("%d ticks later: got %+v", ticks, got)
		}
	}
}
