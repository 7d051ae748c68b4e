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
	p := newPace(0.2)
	if n := begins(&p, 0, time.Second); n != 16 {
		t.Errorf("%d in the first second; want 16", n)
	}
	now := time.Second
	for range 4 {
		p.ended(now, false, false)
		now += paceWindow
	}
	if p.rate != 16*16 {
		t.Errorf("%v a second after four good windows; want 256", p.rate)
	}
	p.ended(now, true, false)
	if p.rate != 128 {
		t.Errorf("%v a second after a slow one; want 128", p.rate)
	}
	p.ended(now, false, true) // at once, not at the end of the window
	if p.rate != slowestPace {
		t.Errorf("%v a second after a failure; want %v", p.rate, slowestPace)
	}
}

func TestPaceKeepsToItsShare(t *testing.T) {
	p := newPace(0.2)
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
	p := newPace(0.2)
	for range 100 {
		n, _ := p.most(time.Second, 3)
		p.giveBack(n)
	}
	if n, wait := p.most(time.Second, 3); n != 1 || wait <= 0 {
		t.Errorf("%d may begin, wait %v, after none did; want 1 and a wait", n, wait)
	}
}
