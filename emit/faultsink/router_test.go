package faultsink_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/faultsink"
)

// runWith emits 200 triggers to each of billing and mail, which take 4 ms, with a fault of billing's.
func runWith(t *testing.T, fault faultsink.Faults, between emit.Sink) *faultsink.Run {
	t.Helper()
	sink := func(f faultsink.Faults) emit.Sink {
		s, err := faultsink.New(faultsink.Config{Seed: 1, Faults: f, Next: between})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	router, err := emit.New(emit.Config{Consumers: []emit.Consumer{
		{Name: "billing", Types: []string{"billing"}, Sink: sink(fault)},
		{Name: "mail", Types: []string{"mail"}, Sink: sink(wellFaults())},
	}})
	if err != nil {
		t.Fatal(err)
	}
	run := &faultsink.Run{}
	var all sync.WaitGroup
	for _, consumer := range []string{"billing", "mail"} {
		all.Go(func() {
			for i := range 200 {
				begin := time.Now()
				r, _ := router.Emit(t.Context(), emit.Trigger{ID: fmt.Sprint(consumer, i), Type: consumer}) // the receipt tells all
				run.Add(consumer, time.Since(begin), r.Of(consumer).Outcome)
			}
		})
	}
	all.Wait()
	if err := router.Close(); err != nil {
		t.Error(err)
	}
	return run
}

func wellFaults() faultsink.Faults {
	return faultsink.Faults{Latency: faultsink.Latency{Median: 4 * time.Millisecond}}
}

// Whatever fault billing has, a Router's lanes keep it from mail (REQ-E1, REQ-E13).
func TestARouterIsolates(t *testing.T) {
	for name, fault := range map[string]faultsink.Faults{
		"hangs":  {Hangs: 1},
		"slow":   {Latency: faultsink.Latency{Median: 180 * time.Millisecond}},
		"tail":   {Latency: faultsink.Latency{Median: 4 * time.Millisecond, SlowShare: 0.3, Slow: 150 * time.Millisecond}},
		"fails":  {Errors: 1},
		"panics": {Panics: 0.5},
	} {
		synctest.Test(t, func(t *testing.T) {
			isolation := faultsink.Isolation{Faulty: []string{"billing"}, MaxRatio: 1.01}
			report := isolation.Check(runWith(t, wellFaults(), nil), runWith(t, fault, nil))
			if err := report.Err(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// Where the consumers share something that only one can use at a time, the assertion finds it.
func TestIsolationFindsWhatIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 0 * time.Second
		turn := make(chan struct{}, 1)
		shared := emit.SinkFunc(func(_ context.Context, tr emit.Trigger) error {
			turn <- struct{}{}
			defer func() { <-turn }()
			if tr.Type == "billing" {
				time.Sleep(slow)
			}
			return nil
		})
		without := runWith(t, wellFaults(), shared)
		slow = 30 * time.Millisecond
		report := faultsink.Isolation{Faulty: []string{"billing"}, MaxRatio: 2}.Check(without, runWith(t, wellFaults(), shared))
		if err := report.Err(); err == nil || !strings.Contains(err.Error(), "mail: the latency grew from 4ms") {
			t.Errorf("got %v", err)
		}
	})
}
