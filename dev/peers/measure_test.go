package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func counting(calls *int, wrong int) setup {
	return func() (loop, error) {
		return func(n int) int {
			*calls += n
			return n - wrong
		}, nil
	}
}

func contestOf(list ...contender) []contest { return []contest{{id: "c", contenders: list}} }

func TestMeasureRunsAllInTurn(t *testing.T) {
	var order []string
	say := func(what string) setup {
		return func() (loop, error) {
			return func(n int) int {
				if len(order) == 0 || order[len(order)-1] != what {
					order = append(order, what)
				}
				return n
			}, nil
		}
	}
	got, err := measure(contestOf(contender{id: "a", setup: say("a")}, contender{id: "b", setup: say("b")}), plan{rounds: 40, limit: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].name() != "c.a" || got[1].rounds != 40 || got[0].two != 0 {
		t.Errorf("got %+v", got)
	}
	if len(order) < 40 {
		t.Errorf("got %d changes between the two in 40 rounds: they are not measured in turn", len(order))
	}
}

func TestMeasureStopsAtItsLimit(t *testing.T) {
	var calls int
	got, err := measure(contestOf(contender{id: "a", setup: counting(&calls, 0)}), plan{rounds: 1000, limit: -1})
	if err != nil || got[0].rounds != minRounds {
		t.Errorf("got %+v, %v, want %d rounds", got, err, minRounds)
	}
}

func TestMeasureTellsWhoDoesOtherWork(t *testing.T) {
	var calls int
	_, err := measure(contestOf(contender{id: "a", setup: counting(&calls, 1)}), plan{rounds: 10})
	if err == nil || !strings.Contains(err.Error(), "c.a: only 15 of 16 calls") {
		t.Errorf("got %v", err)
	}
}

func TestMeasureTellsWhoCannotBegin(t *testing.T) {
	broken := errors.New("broken")
	_, err := measure(contestOf(contender{id: "a", setup: func() (loop, error) { return nil, broken }}), plan{rounds: 10})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "c.a") {
		t.Errorf("got %v", err)
	}
}

// A batch of few calls shows what surrounds it: a floor of 8 ns read 97 in one of two calls, and whatever
// is divided by such a floor looks cheaper than it is. An interruption while batches are sized must not make one.
func TestAnInterruptionDoesNotMakeABatchSmall(t *testing.T) {
	batches := 0
	e := &entrant{loops: [2]loop{func(n int) int {
		if n >= fewest { // not the quarter before
			batches++
		}
		if batches == 1 || n >= 4096 {
			spin(time.Millisecond)
		}
		return n
	}}}
	if err := e.size(100 * time.Microsecond); err != nil || e.calls < 4096 {
		t.Errorf("got %d calls, %v; want 4096, at which every batch is long", e.calls, err)
	}
}

func spin(d time.Duration) {
	for begin := time.Now(); time.Since(begin) < d; {
	}
}

func TestPrivateLoops(t *testing.T) {
	for _, private := range []bool{false, true} {
		made := 0
		e := &entrant{figure: figure{contender: contender{private: private, setup: func() (loop, error) {
			made++
			return func(n int) int { return n }, nil
		}}}}
		if err := e.setUp(); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{false: 1, true: 2}[private]; made != want {
			t.Errorf("private %v: got %d loops, want %d", private, made, want)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		list []float64
		want float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1, 2}, 2},
		{[]float64{9, 1, 2, 4}, 3},
	} {
		before := slices.Clone(test.list)
		if got := median(test.list); got != test.want || !slices.Equal(test.list, before) {
			t.Errorf("median of %v: got %v, want %v; the list is now %v", before, got, test.want, test.list)
		}
	}
}
