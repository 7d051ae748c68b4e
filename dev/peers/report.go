package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// A report is one run.
type report struct {
	machine  machine
	contests []contest
	figures  []figure
}

// rounds is 0 of no figures.
func (r report) rounds() (n int) {
	for _, f := range r.figures {
		n = f.rounds
	}
	return n
}

// writeTable writes what people read: the figures and the aims, as Markdown.
func (r report) writeTable(w io.Writer) {
	fmt.Fprintf(w, "%s; medians of %d rounds; %s.\n", r.machine, r.rounds(), r.machine.versions())
	if spread := noise(r.figures); !math.IsNaN(spread) {
		fmt.Fprintf(w, "The same floor was measured in several contests; the highest of these figures is %s times the lowest: at least so much is noise.\n", number(spread))
	}
	for _, c := range r.contests {
		r.writeContest(w, c)
	}
	fmt.Fprint(w, "\n| aim, of medians | at most | this run | |\n| --- | --- | --- | --- |\n")
	for _, a := range aims() {
		value := a.value(resultsOf(r.figures))
		fmt.Fprintf(w, "| %s | %g | %s | %s |\n", a.title, a.atMost, number(value), a.judge(value))
	}
	for _, id := range []string{"closed.control", "closed.arithmetic"} {
		control := resultsOf(r.figures)[id]
		if over := quotient(control.two, control.one); over > scales {
			fmt.Fprintf(w, "\nEven the %s took %s times as long a call on two processors as on one, and not half as long: they were not free, or are "+
				"one core, and the column of two processors with its aim says little.\n", control.title, number(over))
		}
	}
}

// scales is where private counters show no more that there are two processors.
const scales = 0.75

func (r report) writeContest(w io.Writer, c contest) {
	fmt.Fprintf(w, "\n| %s | ns | over the floor | allocations |", c.title)
	parallel := c.contenders[0].parallel
	if parallel {
		fmt.Fprint(w, " two processors, ns | two over one |")
	}
	fmt.Fprintf(w, "\n|%s\n", strings.Repeat(" --- |", columns(parallel)))
	of := resultsOf(r.figures)
	floor := of[c.id+"."+c.contenders[0].id]
	for _, who := range c.contenders {
		f := of[c.id+"."+who.id]
		fmt.Fprintf(w, "| %s | %s | %s | %g |", f.title, number(f.one), number(quotient(f.one, floor.one)), rounded(f.allocs))
		if parallel {
			fmt.Fprintf(w, " %s | %s |", number(f.two), number(quotient(f.two, f.one)))
		}
		fmt.Fprintln(w)
	}
}

func columns(parallel bool) int {
	if parallel {
		return 6
	}
	return 4
}

// number has three digits that count, and no more decimals than that.
func number(x float64) string {
	switch {
	case math.IsNaN(x):
		return "–"
	case x >= 100:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	case x == 0:
		return "0"
	default:
		return fmt.Sprintf("%.3f", x)
	}
}

// noise is the highest over the lowest figure of one and the same floor; NaN: it was measured less than twice.
func noise(list []figure) float64 {
	var floors []float64
	for _, f := range list {
		if f.id == "floor" && f.title == theFloor().title {
			floors = append(floors, f.one)
		}
	}
	if len(floors) < 2 {
		return math.NaN()
	}
	return quotient(slices.Max(floors), slices.Min(floors))
}

// jsonAim is an aim in the JSON; a value that was not measured is null.
type jsonAim struct {
	Value  *float64 `json:"value"`
	AtMost float64  `json:"at_most"`
	Met    bool     `json:"met"`
}

// writeJSON writes what programs read, in one line: each figure by its contest, its contender and
// what it is.
func (r report) writeJSON(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Benchmark string             `json:"benchmark"`
		Machine   machine            `json:"machine"`
		Rounds    int                `json:"rounds"`
		Figures   map[string]float64 `json:"figures"`
		Aims      map[string]jsonAim `json:"aims"`
	}{"peers", r.machine, r.rounds(), r.jsonFigures(), r.jsonAims()})
}

func (r report) jsonFigures() map[string]float64 {
	named, of := map[string]float64{}, resultsOf(r.figures)
	setUnlessNaN(named, "noise", noise(r.figures))
	for _, f := range r.figures {
		named[f.name()+".ns"] = short(f.one)
		named[f.name()+".batch_calls"] = float64(f.calls)
		named[f.name()+".allocs"] = rounded(f.allocs)
		setUnlessNaN(named, f.name()+".over_floor", quotient(f.one, of[f.contest+".floor"].one))
		if f.parallel {
			named[f.name()+".two_processors_ns"] = short(f.two)
			setUnlessNaN(named, f.name()+".two_processors_over_one", quotient(f.two, f.one))
		}
	}
	return named
}

func (r report) jsonAims() map[string]jsonAim {
	named := map[string]jsonAim{}
	for _, a := range aims() {
		value := a.value(resultsOf(r.figures))
		j := jsonAim{AtMost: a.atMost, Met: a.judge(value) == met}
		if !math.IsNaN(value) {
			j.Value = new(short(value))
		}
		named[a.id] = j
	}
	return named
}

func setUnlessNaN(named map[string]float64, name string, value float64) {
	if !math.IsNaN(value) {
		named[name] = short(value)
	}
}

// short leaves digits out that say nothing.
func short(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// The marks between which the table stands in a page.
const (
	beginMark = "<!-- peers: begin -->\n"
	endMark   = "<!-- peers: end -->\n"
)

// replaceTable is page with another table between its marks.
func replaceTable(page, table string) (string, error) {
	before, rest, found := strings.Cut(page, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", fmt.Errorf("no lines %q and %q in this order: write them where the table belongs",
			strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return before + beginMark + table + endMark + after, nil
}

// A machine is what a run ran on.
type machine struct {
	Go         string            `json:"go"`
	Platform   string            `json:"platform"`
	Processor  string            `json:"processor"`
	Processors int               `json:"processors"`
	Modules    map[string]string `json:"modules"` // path to version
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %s, %d × %s", m.Go, m.Platform, m.Processors, m.Processor)
}

func (m machine) versions() string {
	var list []string
	for _, path := range slices.Sorted(maps.Keys(m.Modules)) {
		list = append(list, path+" "+m.Modules[path])
	}
	return strings.Join(list, ", ")
}
