package lab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

var update = flag.Bool("update", false, "rewrite testdata/lines.golden")

// Scripts depend on the shape of the lines: fields, their order, their units.
func TestShapeOfLines(t *testing.T) {
	r := &run{opts: Options{Started: time.UnixMilli(0)}}
	opened := breaker.Transition{
		Name: "r1", From: breaker.Closed, To: breaker.Open, At: time.UnixMilli(6500), OpenPeriod: 2 * sec,
		Reason: breaker.Reason{Rule: "lag", Value: 0.83, Threshold: 0.5, Unit: "s", Detail: "3 in a row"},
	}
	probed := breaker.Transition{Name: "r1", From: breaker.Open, To: breaker.HalfOpen, At: time.UnixMilli(8500), Reason: breaker.Reason{Rule: "open_period_over"}}
	source := BySource{Replica: 199, Failed: 1}
	summary := held("one-lagging")
	summary.Head, summary.FailedExpectations = Head{27_000, "summary"}, []string{"errors is 1, expected at most 0"}
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetEscapeHTML(false)
	for _, l := range []Line{
		FaultLine{Head: Head{5000, "fault"}, Fault: "replay_paused", Node: "r1", Phase: "begin"},
		FaultLine{Head: Head{5000, "fault"}, Fault: "segment_switch", Node: "primary"},
		WriterLine{Head{5000, "writer"}, writerAsync.String()},
		r.transitionLine(opened),
		r.transitionLine(probed),
		ConditionLine{Head: Head{1000, "condition"}, Node: "r1", From: replica.NoSample, To: replica.Fit},
		ErrorLine{Head: Head{1000, "own_fault"}, Node: "r1", Error: "OnSample: panic"},
		SecondLine{
			Head: Head{2000, "second"}, Reads: 200, Commits: 50, BySource: source, Errors: 1, P50: new(0.5), P99: new(2.5), PrimaryConnections: 1,
			Nodes: map[string]SecondNode{
				"r1": {Lo: Bound(0), Hi: Bound(150 * msec), Reads: 100, Share: 1},
				"r2": {Lo: Bound(3 * sec), Hi: Bound(replica.Never), State: breaker.Open, Condition: replica.Unreachable},
			},
			Path: &SecondPath{
				Mode: readpath.Recovering, Degraded: 1, Withheld: []readpath.Class{readpath.Sheddable}, BudgetTokens: 150, InFallback: 2,
				ByClass: map[readpath.Class]*BySource{readpath.Critical: &source},
			},
		},
		ModeLine{Head: Head{2000, "mode"}, From: readpath.Degraded, To: readpath.Recovering, Given: []readpath.Class{readpath.Critical}, Degraded: 1},
		summary,
	} {
		if err := e.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	golden := filepath.Join("testdata", "lines.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("lines have changed; if that is meant: go test ./internal/lab -update, and CHANGELOG\ngot:\n%s\nwant:\n%s", got.Bytes(), want)
	}
}
