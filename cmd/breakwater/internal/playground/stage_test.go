package playground

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

func aStage() *stage {
	p := &Playground{}
	p.config.fill()
	p.runs.mu.newest = &api.LabRun{}
	return &stage{p: p, begun: time.Now()}
}

// A scenario fails by any of its expectations; a figure of speed is not judged where the machine stalled.
func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name        string
		do          func(*stage)
		interrupted bool
		err         error
		want        string
	}{
		{"all held", func(s *stage) { s.check(true, "a", "b"); s.unless(slowStall, true, "a", "b") }, false, nil, passed},
		{"one did not", func(s *stage) { s.check(true, "a", "b"); s.check(false, "a", "b") }, false, nil, missed},
		{"speed", func(s *stage) { s.stall = slowStall - 1; s.unless(slowStall, false, "a", "b") }, false, nil, missed},
		{"speed of a machine that stalled", func(s *stage) { s.stall = slowStall; s.unless(slowStall, false, "a", "b") }, false, nil, passed},
		{"it could not be played", func(s *stage) { s.check(true, "a", "b") }, false, errors.New("no"), missed},
		{"stopped", func(s *stage) { s.check(false, "a", "b") }, true, errors.New("no"), stopped},
	} {
		s := aStage()
		tt.do(s)
		if got, step := s.verdict(tt.interrupted, tt.err); got != tt.want || step == "" {
			t.Errorf("%s: got %s, %q, want %s", tt.name, got, step, tt.want)
		}
	}
}

// What is wrong with reads, or with a degraded path, fails the expectation that is about it, and no other.
func TestExpectationsOfReads(t *testing.T) {
	good := sample{what: "replica", of: "r2", good: true}
	for _, tt := range []struct {
		name  string
		wrong sample
		unfit int
		want  int // expectations that fail
	}{
		{"nothing", good, 0, 0},
		{"an old answer", sample{what: "replica", stale: true, good: true}, 0, 1},
		{"an error", sample{what: failed}, 0, 1},
		{"a read that was sent to an open replica", good, 1, 1},
	} {
		s, c := aStage(), newCounts()
		c.add(good)
		c.add(tt.wrong)
		s.checkReads(measured{reads: c, unfit: tt.unfit})
		if s.failed != tt.want {
			t.Errorf("%s: got %d that failed, want %d: %+v", tt.name, s.failed, tt.want, s.p.runs.newest().Results)
		}
	}
}

// The time of an opening counts from the measurement's begin, and one that came too late did not hold.
func TestTrip(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration // 0: none
		want  bool
	}{{0, false}, {time.Second, true}, {openBudget + time.Second, false}} {
		s := aStage()
		s.p.seen.open()
		if tt.after > 0 {
			tell := s.p.seen.transition(nil)
			tell(breaker.Transition{Name: "r1", To: breaker.Open, At: s.begun.Add(tt.after)})
			tell(breaker.Transition{Name: "r1", To: breaker.Open, At: s.begun}) // not the first
		}
		if held, seen := s.trip("r1"); held != tt.want {
			t.Errorf("opened after %v: got held %v, %q, want %v", tt.after, held, seen, tt.want)
		}
	}
}

// What a request met is named as it was.
func TestMet(t *testing.T) {
	for _, tt := range []struct {
		a    lab.Answer
		want string
	}{
		{lab.Answer{Node: "r2", Attempts: 1}, metOther},
		{lab.Answer{Node: "r2", Attempts: 2}, metSecond},
		{lab.Answer{Node: "r2", Attempts: 2, Took: 2 * time.Second}, metWait},
		{lab.Answer{Node: "r1", Attempts: 1}, metSame},
		{lab.Answer{Node: "r1", Stale: true}, metOld},
		{lab.Answer{Source: readpath.FromCache, Flagged: true}, metFlagged},
		{lab.Answer{Source: readpath.FromPrimary, Node: "primary"}, metPrimary},
		{lab.Answer{Err: errors.New("no")}, metError},
	} {
		if got := met(tt.a, "r1"); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.a, got, tt.want)
		}
	}
	for _, tt := range []struct {
		r    emit.Result
		took time.Duration
		want string
	}{
		{emit.Result{Outcome: emit.Delivered}, time.Second, gotThrough},
		{emit.Result{Outcome: emit.Stored}, time.Millisecond, keptAtOnce},
		{emit.Result{Outcome: emit.Stored}, time.Second, keptAfter},
		{emit.Result{Outcome: emit.Shed}, 0, lost},
	} {
		if got := metTrigger(tt.r, tt.took); got != tt.want {
			t.Errorf("%+v after %v: got %q, want %q", tt.r, tt.took, got, tt.want)
		}
	}
}

// The classes that were given back, in order; a relapse begins anew.
func TestGivenBack(t *testing.T) {
	step := func(from, to readpath.Mode, given ...readpath.Class) readpath.ModeChange {
		return readpath.ModeChange{From: from, To: to, Given: given}
	}
	steps := []readpath.ModeChange{
		step(readpath.Normal, readpath.Degraded),
		step(readpath.Degraded, readpath.Recovering, readpath.Sheddable),
		step(readpath.Recovering, readpath.Degraded),
		step(readpath.Degraded, readpath.Recovering, readpath.Critical),
		step(readpath.Recovering, readpath.Recovering, readpath.Critical, readpath.Degradable),
	}
	if got := givenBack(steps); len(got) != 2 || got[0] != "critical" || got[1] != "degradable" {
		t.Errorf("got %q, want critical, degradable", got)
	}
}
