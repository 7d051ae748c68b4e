package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/readpath"
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
	tb := newTable(&out, "one-lagging", terminal(120, 40))
	tb.colour = false
	tb.line(lab.FaultLine{Head: lab.Head{T: 6000, Kind: "fault"}, Fault: "replay_paused", Node: "r2", Phase: "begin"})
	tb.live(aLive())
	for _, want := range []string{
		"simulated · one-lagging", "200 reads/s", "0–150 ms", "830–∞ ms", "open", "lag 0.83 s > 0.5 s (3 in a row)", "probed in 1.5 s",
		"6.00 s  fault      r2       replay_paused begin", "probed in 1.5 s; opened for lag 0.83 s > 0.5 s (3 in a row)",
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

func terminal(width, height int) func() (int, int) {
	return func() (int, int) { return width, height }
}

// With classes the table shows where each had its answers from, in rows that fit the smallest usual terminal (REQ-D7).
func TestTableShowsTheClasses(t *testing.T) {
	var out bytes.Buffer
	tb := newTable(&out, "all-lagging", terminal(80, 24))
	l := aLive()
	l.Second.Path = &lab.SecondPath{
		Mode: readpath.Recovering, BudgetTokens: 21, Withheld: []readpath.Class{readpath.Degradable, readpath.Sheddable},
		ByClass: map[readpath.Class]*lab.BySource{readpath.Critical: {Primary: 180, Failed: 360}, readpath.Degradable: {Cache: 999}},
	}
	tb.live(l)
	for _, want := range []string{
		"read path recovering, 21 budget tokens, no replicas for degradable, sheddable\n",
		"ANSWERS/s    REPLICA  PRIMARY    CACHE  DEFAULT     SHED   FAILED\n",
		"critical           0      180        0        0        0      360\n",
		"degradable         0        0      999        0        0        0\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, out.String())
		}
	}
	given := lab.ModeLine{From: readpath.Recovering, To: readpath.Recovering, Given: []readpath.Class{readpath.Critical, readpath.Degradable}}
	if got, want := describe(given), "read path  recovering, replicas for critical, degradable"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
	if got := out.String(); strings.Contains(got, "sheddable  ") {
		t.Errorf("a class without reads has a row:\n%s", got)
	}
}

// A half-open breaker's newest reason is that its open period is over; what a person asks is
// why it was opened.
func TestTableSaysWhyItWasOpened(t *testing.T) {
	var out bytes.Buffer
	tb := newTable(&out, "", terminal(120, 40))
	l := aLive()
	tb.line(lab.TransitionLine{Node: "r2", From: breaker.Closed, To: breaker.Open, Reason: "lag 0.9 s > 0.5 s"})
	l.Stats.Replicas[1].Breaker.State = breaker.HalfOpen
	l.Stats.Replicas[1].Breaker.Reason = breaker.Reason{Rule: "open_period_over"}
	tb.live(l)
	if got := out.String(); !strings.Contains(got, "opened for lag 0.9 s > 0.5 s") || strings.Contains(got, "open_period_over") {
		t.Errorf("got:\n%s", got)
	}
}

// The table shows the first error of a second in which reads failed, on one line.
func TestTableShowsTheFirstError(t *testing.T) {
	var out bytes.Buffer
	tb := newTable(&out, "", terminal(120, 40))
	l := aLive()
	l.Second.Errors, l.Second.FirstError = 3, "no replica\n\tr1: late\x1b[2J"
	tb.live(l)
	if got, want := out.String(), "first error: no replica  r1: late [2J\n"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// On the smallest usual terminal nothing wraps and nothing scrolls, whatever there is to tell:
// each drawing takes fewer rows than the terminal has, and goes back to its first.
func TestTableFitsTheTerminal(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 10}, {20, 2}, {200, 60}} {
		width, height := size[0], size[1]
		var out bytes.Buffer
		tb := newTable(&out, "random", terminal(width, height))
		tb.colour = true
		l := aLive()
		for len(l.Stats.Replicas) < 8 {
			l.Stats.Replicas = append(l.Stats.Replicas, l.Stats.Replicas[1])
		}
		l.Second.Errors, l.Second.FirstError = 9, strings.Repeat("an error ", 50)
		for range 60 {
			tb.line(lab.FaultLine{Head: lab.Head{T: 1, Kind: "fault"}, Fault: strings.Repeat("long ", 60), Node: "r1"})
		}
		for round := range 3 {
			out.Reset()
			tb.live(l)
			rows := strings.Split(out.String(), "\n")
			if len(rows) > height {
				t.Errorf("%v, drawing %d: got %d rows, want at most %d", size, round, len(rows), height)
			}
			if up := fmt.Sprintf("\x1b[%dA", len(rows)-1); round > 0 && !strings.Contains(rows[0], up) {
				t.Errorf("%v, drawing %d: got %q, want %q in it", size, round, rows[0], up)
			}
			for _, row := range rows {
				if n := utf8.RuneCountInString(sequences.ReplaceAllString(row, "")); n > width {
					t.Errorf("%v: got a row of %d columns, want at most %d: %q", size, n, width, row)
				}
			}
		}
	}
}

var sequences = regexp.MustCompile("\r|\x1b\\[[0-9;?]*[A-Za-z]")

// A terminal that was made wider or narrower has broken its lines anew: the table begins on a clear one.
func TestTableClearsWhenTheWidthChanges(t *testing.T) {
	var out bytes.Buffer
	width := 100
	tb := newTable(&out, "", func() (int, int) { return width, 24 })
	tb.live(aLive())
	width = 60
	out.Reset()
	tb.live(aLive())
	if !strings.Contains(out.String(), "\x1b[2J\x1b[H") {
		t.Errorf("got %q, want the screen cleared", out.String())
	}
}

// Figures for people have no exponent.
func TestPlainFigures(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.1234: "0.12", 2: "2", 9.5: "9.5", 12.34: "12.3", 99.96: "100", 100.4: "100", 1990: "1990", 1234567: "1234567", -3.2: "-3.2",
	} {
		if got := plain(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
	if got := describe(lab.Summary{MaxStaleness: 1990.4, TimeToOpen: new(12345.6), TimeToClose: new(1e6)}); strings.Contains(got, "e+") {
		t.Errorf("got %q, want no exponent", got)
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
	s := f.screen(t.Context(), &out)
	for i := range 10_000 {
		s.line(lab.WriterLine{Head: lab.Head{T: int64(i), Kind: "writer"}, Mode: "idle"})
	}
	s.close()
	if got := strings.Count(out.String(), "\n"); got != 10_000 {
		t.Errorf("lines: got %d, want 10000", got)
	}
}

// An interrupted run does not wait for an output that nobody reads: its servers would run on.
func TestBlockedOutputDoesNotHoldAnInterruptedRun(t *testing.T) {
	nobody, w := io.Pipe()
	defer nobody.Close()
	ctx, cancel := context.WithCancel(t.Context())
	f := labFlags{headless: true, json: true}
	s := f.screen(ctx, w)
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 * queued {
			s.line(lab.FaultLine{})
		}
		s.close()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("still waiting for the reader of a blocked pipe")
	}
}
