package replica

import (
	"math/rand/v2"
	"testing"
)

func TestMemoryExtendsARunOfEqualPositions(t *testing.T) {
	var m memory
	for i := range int64(1000) {
		m.record(100, 100, 10*i, 10*i+1)
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
	m.record(100, 100, 0, 1)
	if m.record(99, 99, 2, 3) {
		t.Error("a position that went back was recorded")
	}
}

// REQ-R8: what the primary has not flushed no replica can have, so it is evidence only from the return of the first look that
// saw it flushed. A flush position may lie inside a record.
func TestMemoryEvidenceBeginsAtTheFlush(t *testing.T) {
	looks := []struct {
		position, flushed uint64
		recv              int64
	}{{100, 100, 1}, {164, 100, 11}, {180, 100, 21}, {300, 170, 31}, {300, 299, 41}, {300, 300, 51}, {300, 400, 61}}
	asked := []uint64{99, 100, 163, 164, 179, 180, 299, 300}
	want := [][]int64{ // missingSince of those after each look, 0: no evidence
		{1, 0, 0, 0, 0, 0, 0, 0},
		{1, 0, 0, 0, 0, 0, 0, 0},
		{1, 0, 0, 0, 0, 0, 0, 0},
		{1, 31, 31, 0, 0, 0, 0, 0},
		{1, 31, 31, 41, 41, 0, 0, 0},
		{1, 31, 31, 41, 41, 51, 51, 0},
		{1, 31, 31, 41, 41, 51, 51, 0},
	}
	unflushed := []int64{0, 11, 11, 21, 31, 0, 0}
	var m memory
	for i, l := range looks {
		m.record(l.position, l.flushed, l.recv-1, l.recv)
		for j, p := range asked {
			if at, _ := m.missingSince(p); at != want[i][j] {
				t.Errorf("look %d: missingSince(%d) = %d, want %d", i, p, at, want[i][j])
			}
		}
		if at, _ := m.unflushedSince(); at != unflushed[i] {
			t.Errorf("look %d: unflushedSince = %d, want %d", i, at, unflushed[i])
		}
	}
	if got := m.asOf(299); got != 20 {
		t.Errorf("asOf(299) = %d, want 20: Hi does not depend on the flush position", got)
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
		m.record(position, position-position%1000, now, now+2)
		all.recordPlain(position, position-position%1000, now)
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
	if m.flushed == len(m.runs) || m.runs[m.flushed].position <= position-position%1000 || m.runs[m.flushed-1].position > position-position%1000 {
		t.Errorf("%d of %d runs are flushed: not those up to %d", m.flushed, len(m.runs), position-position%1000)
	}
	young := m.runs[len(m.runs)/2].position // flushed before the last thinning, which left it alone
	got, _ := m.missingSince(young - 1)
	if want, ok := all.missingSince(young - 1); !ok || got != want {
		t.Errorf("missingSince of a young position = %d, want the exact %d, %v", got, want, ok)
	}
	if got, want := m.asOf(position), all.asOf(position); got != want {
		t.Errorf("asOf of the newest position = %d, want the exact %d", got, want)
	}
}

// recordPlain is the simple reference of record: it never thins.
func (m *memory) recordPlain(position, flushed uint64, now int64) {
	if n := len(m.runs); n > 0 && m.runs[n-1].position == position {
		m.runs[n-1].lastSent = now
	} else {
		m.runs = append(m.runs, run{position, now + 2, now})
	}
	for ; m.flushed < len(m.runs) && m.runs[m.flushed].position <= flushed; m.flushed++ {
		m.runs[m.flushed].since = now + 2
	}
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
