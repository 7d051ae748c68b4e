package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A reader sees the transition that is missing between two others, and which breaker's it is.
func TestHoles(t *testing.T) {
	r := newReader("")
	for _, data := range []string{
		`{"kind":"transition","scope":"replica","name":"r1","generation":1}`, `{"kind":"transition","scope":"replica","name":"r2","generation":1}`,
		`{"kind":"transition","scope":"replica","name":"r1","generation":2}`, `{"kind":"fault"}`,
	} {
		if r.take("event", data) {
			t.Errorf("%s says that the process ends", data)
		}
	}
	if r.holes != 0 || r.transitions != 3 {
		t.Errorf("got %d holes in %d transitions, want 0 in 3", r.holes, r.transitions)
	}
	r.take("event", `{"kind":"transition","scope":"replica","name":"r1","generation":4}`)
	if r.holes != 1 {
		t.Errorf("r1 went from 2 to 4: got %d holes, want 1", r.holes)
	}
	r.take("gap", `{"missed":3}`)
	if r.gaps != 1 || !r.take("event", `{"kind":"stop"}`) {
		t.Errorf("got %d gaps, want 1, and the end told", r.gaps)
	}
}

// Each expectation can fail.
func TestExpectations(t *testing.T) {
	good := summary{
		Emits: 30000, Acked: 30000, Replayed: 9, Transitions: 4, CutOff: 4, MuteClients: 6, Reloads: 5, ReloadsTaken: 5,
		MemorySecondQuarter: 100, MemoryLastQuarter: 105, GoroutinesSecondQuarter: 100, GoroutinesLastQuarter: 110,
	}
	s := &soak{options: options{emits: 500, length: time.Minute}}
	check := good
	if s.expect(&check); len(check.Failed) > 0 {
		t.Fatalf("a good run: got %q", check.Failed)
	}
	for want, change := range map[string]func(*summary){
		"1 triggers are lost":          func(s *summary) { s.Lost = 1 },
		"only 20000 emits":             func(s *summary) { s.Emits, s.Acked = 20000, 20000 },
		"1 of 30000 emits were not":    func(s *summary) { s.Acked-- },
		"the faults did nothing":       func(s *summary) { s.Replayed = 0 },
		"2 transitions and 0 gaps":     func(s *summary) { s.MissingTransitions = 2 },
		"0 transitions and 1 gaps":     func(s *summary) { s.Gaps = 1 },
		"3 of 6 clients that read":     func(s *summary) { s.CutOff = 3 },
		"1 clients that read were cut": func(s *summary) { s.Reconnects = 1 },
		"an emit took 5000 ms":         func(s *summary) { s.EmitMaxMS = 5000 },
		"a transition took 5000 ms":    func(s *summary) { s.TransitionMaxMS = 5000 },
		"of 5 reloads 4 were taken":    func(s *summary) { s.ReloadsTaken = 4 },
		"memory grew":                  func(s *summary) { s.MemoryLastQuarter = 106 },
		"goroutines grew":              func(s *summary) { s.GoroutinesLastQuarter = 111 },
	} {
		bad := good
		change(&bad)
		if s.expect(&bad); len(bad.Failed) != 1 || !strings.HasPrefix(bad.Failed[0], want) {
			t.Errorf("got %q, want %q", bad.Failed, want)
		}
	}
}

func TestQuarters(t *testing.T) {
	values := []float64{9, 9, 1, 2, 3, 9, 7, 8}
	if a, b := quarter(values, 1), quarter(values, 3); a != 2 || b != 8 {
		t.Errorf("got %v and %v, want 2 and 8", a, b)
	}
}

func TestPauseEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if pause(ctx, time.Hour) {
		t.Error("got true, want false once ctx has ended")
	}
}
