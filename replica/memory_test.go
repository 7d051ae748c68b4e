package replica

import (
	"math/rand/v2"
	"testing"
)

func TestMemoryExtendsARunOfEqualPositions(t *testing.T) {
	var m memory
	for i := range int64(1000) {
		m.record(100, 10*i, 10*i+1)
	}
	if len(m.runs) != 1 {
		t.Fatalf("an idle primary costs %d entries, want 1", len(m.runs))
	}
	if got := m.asOf(100); got != 9990 {
		t.Errorf("asOf = %d, want the last look's sending, 9990", got)
	}
	if got := m.asOf(99); got != never {
		t.Errorf("asOf before the oldest run = %d, want never", got)
	}
	if at, ok := m.missingSince(99); !ok || at != 1 {
		t.Errorf("missingSince = %d, %v; want the first look's return, 1", at, ok)
	}
}

func TestMemoryReportsAPositionThatWentBack(t *testing.T) {
	var m memory
	m.record(100, 0, 1)
	if m.record(99, 2, 3) {
		t.Error("a position that went back was recorded")
	}
}

// A thinned memory must stay on the safe side of a complete one: AsOf never later
// (so Hi never smaller), missingSince never earlier (so Lo never larger).
func TestMemoryThinningKeepsBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m, all memory
	position, now := uint64(1), int64(0)
	for range 3 * memoryRuns {
		position += r.Uint64N(3)
		now += 10
		m.record(position, now, now+2)
		all.runs = appendRun(all.runs, position, now)
	}
	if len(m.runs) > memoryRuns {
		t.Fatalf("%d runs, want at most %d", len(m.runs), memoryRuns)
	}
	for p := uint64(0); p <= position+1; p++ {
		if got, want := m.asOf(p), all.asOf(p); got > want {
			t.Fatalf("asOf(%d) = %d, after the true %d", p, got, want)
		}
		got, ok := m.missingSince(p)
		want, wantOK := all.missingSince(p)
		if ok && (!wantOK || got < want) {
			t.Fatalf("missingSince(%d) = %d, before the true %d", p, got, want)
		}
	}
	if got, want := m.asOf(position), all.asOf(position); got != want {
		t.Errorf("asOf of the newest position = %d, want the exact %d", got, want)
	}
}

// appendRun is the simple reference of record: it never thins.
func appendRun(runs []run, position uint64, now int64) []run {
	if n := len(runs); n > 0 && runs[n-1].position == position {
		runs[n-1].lastSent = now
		return runs
	}
	return append(runs, run{position, now + 2, now})
}

// REQ-R5: a machine that was suspended knows nothing until it has looked anew.
func TestSuspendedMachineForgets(t *testing.T) {
	s := &Set{}
	n := newNode(s, Node{Name: "r1"})
	nodes := []*node{n}
	s.replicas.Store(&nodes)
	s.settings.Store(new(withDefaults(Settings{})))
	n.last.ok = true
	l := looked{recv: 1}
	s.otherHistoryLocked(l) // sets the reference
	if s.otherHistoryLocked(l) {
		t.Fatal("a steady clock was taken for a suspended machine")
	}
	s.looks.wall -= 2 * suspendJump // the wall clock ran on while the monotonic one stood
	if !s.otherHistoryLocked(l) || n.last.ok {
		t.Errorf("after a jump of the wall clock the replica's look still counts")
	}
}
