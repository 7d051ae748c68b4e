package main

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func sample() report {
	control := contender{id: "control", title: "control", parallel: true}
	floor := contender{id: "floor", title: "the floor", parallel: true}
	ours := contender{id: "breakwater_do", title: "**Do**", parallel: true, ours: true}
	rateAllow := contender{id: "rate_allow", title: "Allow"}
	clock := contender{id: "floor", title: "a clock"}
	return report{
		machine: machine{
			Go: "go1.26", Platform: "linux/amd64", Processor: "A", Processors: 2,
			Modules: map[string]string{"b.org/y": "v2", "a.org/x": "v1"},
		},
		contests: []contest{
			{"closed", "Closed", []contender{floor, control, ours}},
			{"bucket", "Bucket", []contender{clock, rateAllow}},
		},
		figures: []figure{
			{contest: "closed", contender: floor, one: 5, two: 10, rounds: 12},
			{contest: "closed", contender: control, one: 5, two: 2.5, rounds: 12},
			{contest: "closed", contender: ours, one: 12.345, two: 6.1725, rounds: 12},
			{contest: "bucket", contender: clock, one: 40, rounds: 12},
			{contest: "bucket", contender: rateAllow, one: 120, allocs: 13.996, rounds: 12},
		},
	}
}

func TestTable(t *testing.T) {
	var got strings.Builder
	sample().writeTable(&got)
	const begin = `go1.26, linux/amd64, 2 × A; medians of 12 rounds; a.org/x v1, b.org/y v2.

| Closed | ns | over the floor | allocations | two processors, ns | two over one |
| --- | --- | --- | --- | --- | --- |
| the floor | 5.00 | 1.00 | 0 | 10.0 | 2.00 |
| control | 5.00 | 1.00 | 0 | 2.50 | 0.500 |
| **Do** | 12.3 | 2.47 | 0 | 6.17 | 0.500 |

| Bucket | ns | over the floor | allocations |
| --- | --- | --- | --- |
| a clock | 40.0 | 1.00 | 0 |
| Allow | 120 | 3.00 | 14 |

| aim, of medians | at most | this run | |
| --- | --- | --- | --- |
| closed, Allow + Done over the floor | 2 | – | not measured |
| closed, Do over the floor | 3 | 2.47 | met |
`
	if !strings.HasPrefix(got.String(), begin) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got.String(), begin)
	}
	if n := strings.Count(got.String(), "\n"); n != strings.Count(begin, "\n")-2+len(aims()) {
		t.Errorf("got %d lines", n)
	}
}

func TestJSONIsOneLineThatNamesEveryFigure(t *testing.T) {
	var text strings.Builder
	if err := sample().writeJSON(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "\n") != 1 || !strings.HasSuffix(text.String(), "}\n") {
		t.Errorf("not one line: %q", text.String())
	}
	var got struct {
		Benchmark string
		Rounds    int
		Figures   map[string]float64
		Aims      map[string]struct {
			Value  *float64
			AtMost float64 `json:"at_most"`
			Met    *bool
		}
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Benchmark != "peers" || got.Rounds != 12 || len(got.Aims) != len(aims()) {
		t.Errorf("got %+v", got)
	}
	for name, want := range map[string]float64{
		"closed.breakwater_do.ns":                      12.345,
		"closed.breakwater_do.over_floor":              2.469,
		"closed.breakwater_do.allocs":                  0,
		"closed.breakwater_do.two_processors_ns":       6.1725,
		"closed.breakwater_do.two_processors_over_one": 0.5,
		"bucket.rate_allow.allocs":                     14,
	} {
		if value, ok := got.Figures[name]; !ok || value != want {
			t.Errorf("%s: got %v (there: %v), want %v", name, value, ok, want)
		}
	}
	if a := got.Aims["closed_do_over_floor"]; a.Value == nil || *a.Value != 2.469 || a.AtMost != 3 || !*a.Met {
		t.Errorf("closed_do_over_floor: got %+v", a)
	}
	if a := got.Aims["open_do_over_gobreaker_execute"]; a.Value != nil || *a.Met {
		t.Errorf("an aim that was not measured: got %+v", a)
	}
}

func TestTableSaysThatTheProcessorsWereBusy(t *testing.T) {
	for _, id := range []string{"control", "arithmetic"} {
		for two, want := range map[float64]bool{2.5: false, 5.5: true} {
			r, got := sample(), new(strings.Builder)
			r.figures[1].id, r.figures[1].title, r.figures[1].two = id, id, two
			r.writeTable(got)
			if said := strings.Contains(got.String(), "Even the "+id+" took 1.10 times"); said != want {
				t.Errorf("%s of %v on two processors and 5 on one: said so is %v, want %v", id, two, said, want)
			}
		}
	}
}

func TestNoise(t *testing.T) {
	f := func(one float64) figure { return figure{contender: theFloor(), one: one} }
	other := figure{contender: contender{id: "floor", title: "another"}, one: 1}
	if got := noise([]figure{f(8), other, f(10), f(9)}); got != 1.25 {
		t.Errorf("got %v, want 1.25", got)
	}
	if got := noise([]figure{f(8), other}); !math.IsNaN(got) {
		t.Errorf("of one floor: got %v, want NaN", got)
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.0494: "0.049", 2.345: "2.35", 12.34: "12.3", 1234.5: "1234", math.Inf(1): "+Inf"} {
		if got := number(x); got != want {
			t.Errorf("number(%v): got %q, want %q", x, got, want)
		}
	}
	if got := number(math.NaN()); got != "–" {
		t.Errorf("number(NaN): got %q", got)
	}
}

func TestReplaceTable(t *testing.T) {
	got, err := replaceTable("a\n"+beginMark+"old\n"+endMark+"b\n", "new\n")
	if want := "a\n" + beginMark + "new\n" + endMark + "b\n"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, page := range []string{"", beginMark, endMark, endMark + beginMark} {
		if got, err := replaceTable(page, "new\n"); err == nil {
			t.Errorf("page %q: got %q, want an error", page, got)
		}
	}
}

func TestProcessorOf(t *testing.T) {
	for info, want := range map[string]string{
		"processor\t: 0\nmodel name\t: EPYC 7: B\nmodel name\t: other\n": "EPYC 7: B",
		"": "unknown processor",
	} {
		if got := processorOf(info); got != want {
			t.Errorf("%q: got %q, want %q", info, got, want)
		}
	}
}

// The whole command, as short as it can be.
func TestPlay(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte(beginMark+endMark), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := play(plan{rounds: 1, batch: time.Microsecond}, page, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := strings.TrimSuffix(strings.TrimPrefix(string(text), beginMark), endMark)
	shown, line, _ := strings.Cut(out.String(), "\n{")
	if shown != table || !strings.HasPrefix(line, `"benchmark":"peers"`) {
		t.Errorf("the page has\n%s\nand was shown\n%s", table, out.String())
	}
	if again := play(plan{rounds: 1}, filepath.Join(t.TempDir(), "none.md"), io.Discard); again == nil {
		t.Error("a page that does not exist: got no error")
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "9"}, {"-rounds", "x"}, {"-nonsense"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}
