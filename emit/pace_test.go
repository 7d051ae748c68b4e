package emit

import (
	"testing"
	"time"
)

// begins is how many attempts a pace lets begin until an instant, asked every millisecond.
func begins(p *pace, from, to time.Duration) (n int) {
	for now := from; now < to; now += time.Millisecond {
		more, _ := p.most(now, 1000)
		n += more
	}
	return n
}

func TestPaceDoublesAndHalves(t *testing.T) {
	p := testPace()
	if n := begins(&p, 0, time.Second); n != 16 {
		t.Errorf("%d in the first second; want 16", n)
	}
	now := time.Second
	for range 4 {
		p.ended(now, 0, false, false)
		now += paceWindow
	}
	if p.rate != 16*16 {
		t.Errorf("%v a second after four good windows; want 256", p.rate)
	}
	p.ended(now, 0, true, false)
	if p.rate != 128 {
		t.Errorf("%v a second after a slow one; want 128", p.rate)
	}
	p.ended(now, 0, false, true) // at once, not at the end of the window
	if p.rate != slowestPace {
		t.Errorf("%v a second after a failure; want %v", p.rate, slowestPace)
	}
}

func TestPaceKeepsToItsShare(t *testing.T) {
	p := testPace()
	p.rate = 1000
	for _, x := range []struct {
		live, handed uint64
		want         float64
	}{
		{0, 0, 1000},  // no live traffic
		{400, 0, 100}, // a fifth of 500
		{400, 80, 200},
		{1, 0, leastPace},
		{8000, 0, 1000},
	} {
		p.traffic.since, p.traffic.live, p.traffic.handed = 0, 0, 0
		p.measure(time.Second, x.live, x.handed)
		if got := p.limit(); got != x.want {
			t.Errorf("beside %d emits and %d hand-overs a second: %v; want %v", x.live, x.handed, got, x.want)
		}
	}
}

func TestPaceTakesBack(t *testing.T) {
	p := testPace()
	for range 100 {
		n, _ := p.most(time.Second, 3)
		p.giveBack(n)
	}
	if n, wait := p.most(time.Second, 3); n != 1 || wait <= 0 {
		t.Errorf("%d may begin, wait %v, after none did; want 1 and a wait", n, wait)
	}
}

func TestPaceLeavesRoom(t *testing.T) {
	p := testPace()
	for range 100 {
		p.ended(0, 20*time.Millisecond, false, false)
	}
	for _, x := range []struct {
		handed                  uint64 // a second
		bulkhead, inFlight, own int
		want                    int
	}{
		{0, 16, 0, 0, 3},
		{0, 16, 3, 3, 0},
		{0, 16, 13, 0, 3},
		{0, 16, 14, 0, 0},    // yields
		{200, 16, 0, 0, 8},   // a fifth of 16, and 1.25 × 200 calls of 20 ms
		{200, 16, 8, 8, 0},   // it has them
		{200, 16, 10, 4, 3},  // a fifth stays free
		{200, 16, 12, 1, 2},  // but what it always has it has
		{9999, 16, 0, 0, 13}, // never all of it
		{9999, 1, 0, 0, 1},
		{9999, 1, 1, 0, 0},
	} {
		p.traffic.since, p.traffic.live, p.traffic.handed = 0, 0, 0
		p.measure(time.Second, 0, x.handed)
		if got := p.room(x.bulkhead, x.inFlight, x.own); max(got, 0) != x.want {
			t.Errorf("%+v: room for %d", x, got)
		}
	}
}

func testPace() pace {
	p := newPace()
	p.share = 0.2
	return p
}
