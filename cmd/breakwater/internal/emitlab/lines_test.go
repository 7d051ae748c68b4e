package emitlab

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

var update = flag.Bool("update", false, "rewrite testdata/lines.golden")

// Scripts depend on the shape of the lines: fields, their order, their units.
func TestShapeOfLines(t *testing.T) {
	r := &run{opts: Options{Started: time.UnixMilli(0)}}
	head := func(kind string) lab.Head { return lab.Head{T: 7000, Kind: kind} }
	summary := held("all-consumers-down")
	summary.Head, summary.RefusedBy, summary.FailedExpectations = head("summary"), map[string]int{"open": 1}, []string{"lost is 1, expected at most 0"}
	several := held("slow-consumer")
	several.Head, several.Policy, several.Policies = head("summary"), "", map[string]*Summary{}
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	e.SetEscapeHTML(false)
	for _, l := range []lab.Line{
		PolicyLine{head("policy"), PolicyNone},
		FaultLine{head("fault"), "slow", slow, "begin"},
		r.transitionLine(breaker.Transition{
			Name: slow, From: breaker.Closed, To: breaker.Open, At: time.UnixMilli(7070), OpenPeriod: 100 * msec,
			Reason: breaker.Reason{Rule: "cusum", Value: 14.5, Threshold: 14, Detail: "12 of the last 12 calls"},
		}),
		r.transitionLine(breaker.Transition{Name: slow, From: breaker.Open, To: breaker.HalfOpen, At: time.UnixMilli(7170), Reason: breaker.Reason{Rule: "open_period_over"}}),
		ErrorLine{head("own_fault"), slow, "the store failed"},
		RoundLine{Head: head("round"), Round: 3, Fault: "slow", LivedMS: 700.5, Acknowledged: 600, Replayed: 50, Stored: 300},
		SecondLine{Head: head("second"), Emitted: 1000, Consumers: map[string]SecondConsumer{
			healthy: {Emitted: 500, Delivered: 500, P50: new(3.1), P99: new(8.2), InFlight: 2},
			slow:    {Emitted: 500, Stored: 490, Shed: 8, Refused: 2, Replayed: 1, State: breaker.Open, Letters: 490},
		}},
		several,
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
		t.Errorf("lines have changed; if that is meant: go test ./internal/emitlab -update, and CHANGELOG\ngot:\n%s\nwant:\n%s", got.Bytes(), want)
	}
}
