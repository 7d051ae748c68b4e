package playground

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/simfleet"
)

// short is a scenario's pace in tests.
var short = pace{calm: 1200 * time.Millisecond, hold: 300 * time.Millisecond, settle: 100 * time.Millisecond}

// opened is a Playground on a simulated fleet, under way until the test ends. What it publishes goes to the Hub.
func opened(t *testing.T, replicas int) (*Playground, *api.Hub) {
	t.Helper()
	fleet, err := simfleet.Start(t.Context(), replicas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Close() })
	hub := api.NewHub(nil)
	p, err := Open(t.Context(), Config{
		Fleet: fleet, Options: lab.Options{Replicas: replicas, Rate: 60, Started: time.Now()}, Child: child,
		Publish: func(e api.Event) { hub.Publish(e) }, Replica: hub.Replicas(), Path: hub.Path(), Emit: hub.Consumers(), pace: &short,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	p.begin(ctx) // so that a test may begin at once
	go func() {
		_, err := p.Run(ctx, nil)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want no error", err)
		}
	})
	return p, hub
}

// played plays a scenario to its end.
func played(t *testing.T, p *Playground, hub *api.Hub, name, prediction string) *api.LabRun {
	t.Helper()
	after := hub.Last()
	if err := p.Play(t.Context(), name, prediction); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		events, _, err := hub.Next(ctx, after)
		if err != nil {
			t.Fatalf("%v: %+v", err, p.Status().Running)
		}
		for i := range events {
			e := &events[i]
			after = e.ID
			if e.Kind == api.KindScenario && e.To != phaseBegin && e.To != "step" {
				return p.Status().Running
			}
		}
	}
}

// Each guided scenario passes on a simulated fleet, and tells what the request met that it asked about.
func TestScenarios(t *testing.T) {
	want := map[string][]string{
		"lagging-replica": {metOther, metPrimary}, "dead-replica": {metSecond, metWait, metOther}, "cut-off-replica": {metOther, metPrimary},
		"frozen-replica": {metWait}, "all-lagging": {metFlagged}, "slow-consumer": {keptAtOnce}, "failing-consumer": {keptAtOnce},
	}
	for name, answers := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, hub := opened(t, 3)
			run := played(t, p, hub, name, "")
			stalled := slices.ContainsFunc(run.Results, func(c api.LabCheck) bool { return strings.Contains(c.Seen, "not judged") })
			if run.State != passed || len(run.Results) == 0 || !stalled && !slices.Contains(answers, run.Answer) {
				t.Errorf("got %s, %q, want passed with one of %q", run.State, run.Answer, answers)
			}
			for _, c := range run.Results {
				t.Logf("held %v: %s: %s", c.Held, c.Expected, c.Seen)
			}
			if i := slices.IndexFunc(p.runs.list, func(s scenario) bool { return s.Name == name }); !slices.Contains(p.runs.list[i].Answers, run.Answer) {
				t.Errorf("what it met, %q, is none of the answers that are offered", run.Answer)
			}
		})
	}
}
