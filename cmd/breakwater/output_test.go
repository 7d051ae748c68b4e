package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/replica"
)

func aLive() lab.Live {
	return lab.Live{
		Fleet: "simulated", PrimaryConnections: 1,
		Stats: replica.Stats{
			Primary: replica.NodeStats{Name: "primary"},
			Replicas: []replica.NodeStats{
				{Name: "r1", Hi: 150 * time.Millisecond, Share: 1},
				{
					Name: "r2", Lo: 830 * time.Millisecond, Hi: replica.Never, Condition: replica.Late, Detail: "lag at least 830ms, over 500ms",
					Breaker: breaker.Stats{
						State: breaker.Open, RetryAfter: 1500 * time.Millisecond,
						Reason: breaker.Reason{Rule: "lag", Value: 0.83, Threshold: 0.5, Unit: "s", Detail: "3 in a row"},
					},
				},
			},
		},
		Second: lab.SecondLine{Head: lab.Head{Kind: "second"}, Reads: 200, Nodes: map[string]lab.SecondNode{"r1": {Reads: 200}}},
	}
}

// The table shows state, staleness interval, reads, and the reason with value and
// threshold; it redraws over itself.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	tb := &table{out: &out, scenario: "one-lagging"}
	tb.line(lab.FaultLine{Head: lab.Head{T: 6000, Kind: "fault"}, Fault: "replay_paused", Node: "r2", Phase: "begin"})
	tb.live(aLive())
	for _, want := range []string{
		"simulated · one-lagging", "200 reads/s", "0–150 ms", "830–∞ ms", "open", "lag 0.83 s > 0.5 s (3 in a row)", "probed in 1.5 s",
		"6.00 s  fault      r2       replay_paused begin",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, out.String())
		}
	}
	drawn := strings.Count(out.String(), "\n")
	out.Reset()
	tb.live(aLive())
	if want := fmt.Sprintf("\x1b[%dA", drawn); !strings.Contains(out.String(), want) {
		t.Errorf("second drawing: got %q, want %q in it", out.String(), want)
	}
	tb.line(lab.Summary{Scenario: "one-lagging", FailedExpectations: []string{"errors is 1, expected at most 0"}})
	tb.end()
	if !strings.Contains(out.String(), "scenario one-lagging FAILED:\n  errors is 1, expected at most 0") {
		t.Errorf("the verdict is missing:\n%s", out.String())
	}
}

func TestStatusInterface(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serveStatus(ln, "simulated")
	defer s.close()
	s.set(aLive())
	get := func(method, path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	if code, body := get("GET", "/livez"); code != 200 || body != "ok\n" {
		t.Errorf("/livez: got %d, %q", code, body)
	}
	if code, _ := get("POST", "/api/v1/status"); code != http.StatusMethodNotAllowed {
		t.Errorf("POST: got %d, want 405", code)
	}
	code, body := get("GET", "/api/v1/status")
	if !json.Valid([]byte(body)) || code != 200 {
		t.Fatalf("/api/v1/status: got %d: %s", code, body)
	}
	for _, want := range []string{`"fleet": "simulated"`, `"state": "open"`, `"lag_hi_ms": null`, `"condition": "late"`, `"retry_after_ms": 1500`} {
		if !strings.Contains(body, want) {
			t.Errorf("status lacks %s:\n%s", want, body)
		}
	}
	if strings.Contains(body, "postgres://") {
		t.Error("status shows a DSN")
	}
}

// A slow reader of standard output does not lose a line.
func TestScreenKeepsEveryLine(t *testing.T) {
	var out bytes.Buffer
	f := &labFlags{headless: true, json: true}
	s := f.screen(&out)
	for i := range 10_000 {
		s.line(lab.WriterLine{Head: lab.Head{T: int64(i), Kind: "writer"}, Mode: "idle"})
	}
	s.close()
	if got := strings.Count(out.String(), "\n"); got != 10_000 {
		t.Errorf("lines: got %d, want 10000", got)
	}
}
