package main

import (
	"iter"
	"math"
	"strings"
	"testing"
)

// all yields each contender with its contest.
func all() iter.Seq2[contest, contender] {
	return func(yield func(contest, contender) bool) {
		for _, c := range contests() {
			for _, who := range c.contenders {
				if !yield(c, who) {
					return
				}
			}
		}
	}
}

func ready(t *testing.T, who contender) loop {
	t.Helper()
	run, err := who.setup()
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Closed ones admit every call and go on doing so; open and half-open ones, which their own rule has
// opened, refuse every call.
func TestEachContenderDoesTheWorkOfItsContest(t *testing.T) {
	for c, who := range all() {
		t.Run(c.id+"/"+who.id, func(t *testing.T) {
			run := ready(t, who)
			for range 3 {
				if good := run(50); good != 50 {
					t.Fatalf("got %d calls of 50 that went as the contest wants", good)
				}
			}
		})
	}
}

// REQ-B3, REQ-B4.
func TestOursAllocateNothing(t *testing.T) {
	for c, who := range all() {
		if !who.ours {
			continue
		}
		run := ready(t, who)
		if got := testing.AllocsPerRun(10, func() { run(100) }); got != 0 {
			t.Errorf("%s.%s: got %v allocations in 100 calls, want 0", c.id, who.id, got)
		}
	}
}

// The aims name contenders that exist; those of what is not in the tree yet are the only ones not
// measured.
func TestAimsNameContenders(t *testing.T) {
	r := results{}
	for c, who := range all() {
		f := figure{contest: c.id, contender: who, one: 4, two: 2}
		if _, dup := r[f.name()]; dup {
			t.Errorf("two contenders are called %s", f.name())
		}
		r[f.name()] = f
	}
	for _, a := range aims() {
		pending := strings.HasPrefix(a.id, "bucket_") && len(oursBucket()) == 0
		if got := a.judge(a.value(r)) == notMeasured; got != pending {
			t.Errorf("%s: not measured is %v, want %v", a.id, got, pending)
		}
	}
}

func TestEachContestBeginsWithItsFloor(t *testing.T) {
	for _, c := range contests() {
		if first := c.contenders[0].id; first != "floor" {
			t.Errorf("%s: begins with %s", c.id, first)
		}
	}
}

func TestAims(t *testing.T) {
	r := resultsOf([]figure{
		{contest: "closed", contender: contender{id: "floor"}, one: 5},
		{contest: "closed", contender: contender{id: "control"}, one: 4, two: 2},
		{contest: "closed", contender: contender{id: "breakwater_allow_done", ours: true}, one: 10, two: 8, allocs: 0.004},
		{contest: "closed", contender: contender{id: "breakwater_do", ours: true}, one: 16, allocs: 0.02},
		{contest: "closed", contender: contender{id: "gobreaker_execute"}, one: 100, allocs: 7},
	})
	for _, test := range []struct {
		id      string
		value   float64
		verdict verdict
	}{
		{"closed_allow_done_over_floor", 2, met},
		{"closed_do_over_floor", 3.2, missed},
		{"closed_do_over_gobreaker_execute", 0.16, missed},
		{"open_do_over_gobreaker_execute", math.NaN(), notMeasured},
		{"allocations", 0.02, missed},
		{"parallel_over_control", 1.6, missed}, // 0.8 over 0.5
	} {
		a := aimOf(t, test.id)
		value := a.value(r)
		if value != test.value && !(math.IsNaN(value) && math.IsNaN(test.value)) {
			t.Errorf("%s: got %v, want %v", test.id, value, test.value)
		}
		if got := a.judge(value); got != test.verdict {
			t.Errorf("%s: got %s, want %s", test.id, got, test.verdict)
		}
	}
}

func aimOf(t *testing.T, id string) aim {
	t.Helper()
	for _, a := range aims() {
		if a.id == id {
			return a
		}
	}
	t.Fatalf("no aim %s", id)
	return aim{}
}
