package faultsink

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Isolation asserts that the blast radius of a fault is the consumers that have it (REQ-E1, REQ-E13): it compares a run without the
// fault with one that has it.
//
//	report := faultsink.Isolation{Faulty: []string{"billing"}, MaxRatio: 2, Slack: time.Millisecond}.Check(&without, &with)
//	if err := report.Err(); err != nil {
//		t.Error(err) // the report as a table, and each finding
//	}
type Isolation struct {
	// Faulty names the consumers with the fault. All others are to be healthy. Required.
	Faulty []string
	// MaxRatio bounds the healthy consumers' latency with the fault over that without it, and the number of their emits without it over that
	// with it. Above 1. Required.
	MaxRatio float64
	// Slack is by how much a latency may grow whatever the ratio is, since short times differ by chance. Default: none.
	Slack time.Duration
	// Quantile is which latency is compared, above 0 and below 1. Both runs need 1/(1-Quantile) emits of each consumer, 100 for the
	// default, else there is no such quantile and the assertion fails. Default: 0.99.
	Quantile float64
}

// Check compares the runs. Its report holds a finding for each healthy consumer that had an emit diverted or failed, in either run, that
// became slower than allowed, or that got fewer emits; for one that too little is known of; and for a
// faulty one that nothing was to be seen of: the assertion would say nothing then.
func (i Isolation) Check(without, with *Run) Report {
	if i.Quantile == 0 {
		i.Quantile = 0.99
	}
	before, after := without.snapshot(), with.snapshot()
	r := Report{quantile: i.Quantile, Findings: i.faults()}
	for _, name := range i.names(before, after) {
		row := i.compare(name, before[name], after[name])
		r.Consumers = append(r.Consumers, row)
		r.Findings = append(r.Findings, i.judge(row)...)
	}
	return r
}

// faults of the Isolation itself are findings: an assertion that cannot be made has not held.
func (i Isolation) faults() (findings []string) {
	if len(i.Faulty) == 0 {
		findings = append(findings, "Isolation.Faulty is empty: name the consumers with the fault")
	}
	if !(i.MaxRatio > 1) {
		findings = append(findings, fmt.Sprintf("Isolation.MaxRatio is %v: use more than 1", i.MaxRatio))
	}
	if !(i.Quantile > 0 && i.Quantile < 1) {
		findings = append(findings, fmt.Sprintf("Isolation.Quantile is %v: use more than 0 and less than 1", i.Quantile))
	}
	if i.Slack < 0 {
		findings = append(findings, fmt.Sprintf("Isolation.Slack is %v: use a positive duration, or 0 for none", i.Slack))
	}
	return findings
}

func (i Isolation) names(before, after map[string]tally) []string {
	all := map[string]bool{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(after)), i.Faulty) {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// A Compared is one consumer in both runs.
type Compared struct {
	Consumer      string
	Faulty        bool
	Without, With Figures
}

// Figures are those of a consumer in one run.
type Figures struct {
	Emitted   int
	Delivered int
	Diverted  int           // stored in place of being delivered
	Failed    int           // shed, refused, or without an outcome
	Latency   time.Duration // the quantile; 0 without emits
}

// Ratio is the latency with the fault over that without, 0 if one of them is 0.
func (c Compared) Ratio() float64 {
	if c.Without.Latency == 0 {
		return 0
	}
	return float64(c.With.Latency) / float64(c.Without.Latency)
}

func (i Isolation) compare(name string, before, after tally) Compared {
	figures := func(t tally) Figures {
		return Figures{t.emitted(), t.delivered, t.stored, t.failed, t.quantile(i.Quantile)}
	}
	return Compared{name, slices.Contains(i.Faulty, name), figures(before), figures(after)}
}

func (i Isolation) judge(c Compared) (findings []string) {
	say := func(format string, args ...any) {
		findings = append(findings, c.Consumer+": "+fmt.Sprintf(format, args...))
	}
	slower := c.With.Latency > time.Duration(i.MaxRatio*float64(c.Without.Latency)) && c.With.Latency-c.Without.Latency > i.Slack
	if c.Faulty {
		if c.With.Diverted+c.With.Failed == 0 && !slower {
			say("nothing of its fault is to be seen, so the runs say nothing about isolation")
		}
		return findings
	}
	for _, run := range []struct {
		name string
		Figures
	}{{"without", c.Without}, {"with", c.With}} {
		if run.Diverted+run.Failed > 0 {
			say("%d diverted and %d failed %s the fault", run.Diverted, run.Failed, run.name)
		}
		if least := i.least(); run.Emitted < least {
			say("%d emits %s the fault are too few to judge by: %d are needed", run.Emitted, run.name, least)
		}
	}
	if slower {
		say("the latency grew from %v to %v, by more than the ratio of %v", c.Without.Latency, c.With.Latency, i.MaxRatio)
	}
	if float64(c.With.Emitted)*i.MaxRatio < float64(c.Without.Emitted) {
		say("only %d emits with the fault, after %d without", c.With.Emitted, c.Without.Emitted)
	}
	return findings
}

// least is how many emits a quantile needs.
func (i Isolation) least() int { return ceil(1 / (1 - i.Quantile)) }

// A Report is what Isolation found. Printed it is a table of all consumers, and the findings.
type Report struct {
	Consumers []Compared // sorted by name
	Findings  []string   // empty: the assertion holds

	quantile float64
}

// Err is nil if the assertion holds, else an error with the whole report.
func (r Report) Err() error {
	if len(r.Findings) == 0 {
		return nil
	}
	return errors.New(r.String())
}

// String is the report in lines.
func (r Report) String() string {
	var b strings.Builder
	b.WriteString("faultsink: isolation holds\n")
	if len(r.Findings) > 0 {
		b.Reset()
		b.WriteString("faultsink: isolation does not hold\n")
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "consumer\tfault\temitted\tdelivered\tdiverted\tfailed\tp%g\tratio\n", 100*r.quantile)
	for _, c := range r.Consumers {
		fmt.Fprintf(w, "%s\t%s\t%d → %d\t%d → %d\t%d → %d\t%d → %d\t%v → %v\t%.2f\n", c.Consumer, map[bool]string{false: "no", true: "yes"}[c.Faulty],
			c.Without.Emitted, c.With.Emitted, c.Without.Delivered, c.With.Delivered, c.Without.Diverted, c.With.Diverted,
			c.Without.Failed, c.With.Failed, c.Without.Latency, c.With.Latency, c.Ratio())
	}
	_ = w.Flush() // into a strings.Builder
	for _, f := range r.Findings {
		b.WriteString("- " + f + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
