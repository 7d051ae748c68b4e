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
		"one-lagging": {metOther, metPrimary}, "one-dead": {metSecond, metWait, metOther}, "cut-off": {metOther, metPrimary},
		"frozen": {metWait}, "all-lagging": {metFlagged}, "slow-consumer": {keptAtOnce}, "failing-consumer": {keptAtOnce},
	}
	for name, answers := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, hub := opened(t, 3)
			run := played(t, p, hub, name, "")
			stalled := slices.ContainsFunc(run.Results, func(c api.LabCheck) bool { return strings.Contains(c.Seen, "not judged") })
			broken := slices.ContainsFunc(run.Results, func(c api.LabCheck) bool { return !c.Held && !ofSpeed(c) })
			if (run.State != passed && run.State != failed) || broken || len(run.Results) == 0 || !stalled && !slices.Contains(answers, run.Answer) {
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

// ofSpeed tells what holds on a machine with time to spare only: here seven scenarios run at once, perhaps under the race detector.
func ofSpeed(c api.LabCheck) bool {
	return strings.Contains(c.Expected, "get through as before") || strings.Contains(c.Expected, "no emit takes longer")
}

// What is told before a scenario runs gives no answer away: each says what is done in one sentence, and the place of the usual
// answer differs from scenario to scenario, and is the same each time.
func TestNothingIsGivenAway(t *testing.T) {
	t.Parallel()
	p := &Playground{config: Config{Fleet: fleetOf{nodes: 4}}}
	first, all := 0, p.scenarios()
	for i, s := range p.scenarios() {
		if s.Does == "" || strings.Count(s.Does, ".") != 1 || strings.Contains(s.Shows, s.Does) {
			t.Errorf("%s: does is %q and shows %q, want one sentence, and nothing of it in the other", s.Name, s.Does, s.Shows)
		}
		if !slices.Equal(s.Answers, all[i].Answers) {
			t.Errorf("%s: got its answers in the order %q, then %q, want the same", s.Name, all[i].Answers, s.Answers)
		}
		if s.Answers[0] == p.unshuffled()[i].Answers[0] {
			first++
		}
	}
	if first > len(all)/2 {
		t.Errorf("the usual answer stands first in %d of %d, want half at the most", first, len(all))
	}
}

// fleetOf is a fleet of so many nodes that is only counted.
type fleetOf struct {
	lab.Fleet

	nodes int
}

func (f fleetOf) Nodes() []lab.Node { return make([]lab.Node, f.nodes) }
