package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/readpath"
)

// describe is a line in words.
func describe(l lab.Line) string {
	switch l := l.(type) {
	case lab.SecondLine:
		return stamp(l.T) + describeSecond(l)
	case lab.Summary:
		return describeSummary(l)
	case emitlab.SecondLine:
		return stamp(l.T) + describeEmits(l)
	case emitlab.Summary:
		return describeEmitSummary(&l)
	}
	return describeEvent(l)
}

// describeEvent is what the table lists too; "" for lines that are no events.
func describeEvent(l lab.Line) string {
	switch l := l.(type) {
	case lab.FaultLine:
		s := fmt.Sprintf("%-8s %s %s", l.Node, l.Fault, l.Phase)
		if l.Error != "" {
			s += ": " + l.Error
		}
		return stamp(l.T) + "fault      " + strings.TrimRight(s, " ")
	case lab.WriterLine:
		return stamp(l.T) + "writer     " + l.Mode
	case lab.TransitionLine:
		s := fmt.Sprintf("transition %-8s %v → %v: %s", l.Node, l.From, l.To, l.Reason)
		if l.OpenPeriodMS != nil {
			s += "; open for " + plain(*l.OpenPeriodMS/1000) + " s"
		}
		return stamp(l.T) + s
	case lab.ConditionLine:
		s := fmt.Sprintf("condition  %-8s %v → %v", l.Node, l.From, l.To)
		if l.Detail != "" {
			s += ": " + l.Detail
		}
		return stamp(l.T) + s
	case lab.ModeLine:
		s := fmt.Sprintf("read path  %v → %v", l.From, l.To)
		if l.From == l.To {
			s = fmt.Sprintf("read path  %v", l.To)
		}
		if l.To == readpath.Recovering {
			s += ", replicas for " + classNames(l.Given)
		}
		return stamp(l.T) + s
	case lab.ErrorLine:
		return stamp(l.T) + "own fault  " + l.Node + ": " + l.Error
	}
	return describeEmitEvent(l)
}

func stamp(t int64) string { return fmt.Sprintf("%8.2f s  ", float64(t)/1000) }

func describeSecond(l lab.SecondLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d reads, %d errors, p50 %s ms, p99 %s ms, %d commits;", l.Reads, l.Errors, number(l.P50), number(l.P99), l.Commits)
	for _, name := range slices.Sorted(maps.Keys(l.Nodes)) {
		n := l.Nodes[name]
		fmt.Fprintf(&b, " %s %v %s %d;", name, n.State, interval(n.Lo, n.Hi), n.Reads)
	}
	if l.Path != nil {
		b.WriteString(" " + describePath(l.Path) + "; " + describeSources(l.BySource) + ";")
	}
	if l.FirstError != "" {
		b.WriteString(" first error: " + l.FirstError)
	}
	return strings.TrimSuffix(b.String(), ";")
}

// describePath is how the read path stands.
func describePath(p *lab.SecondPath) string {
	s := fmt.Sprintf("read path %v, %.0f budget tokens", p.Mode, p.BudgetTokens)
	if len(p.Withheld) > 0 {
		s += ", no replicas for " + classNames(p.Withheld)
	}
	return s
}

// describeSources is where a second's answers came from.
func describeSources(by lab.BySource) string {
	return fmt.Sprintf("by replicas %d, primary %d, cache %d, default %d, shed %d, failed %d",
		by.Replica, by.Primary, by.Cache, by.Default, by.Shed, by.Failed)
}

func classNames(classes []readpath.Class) string {
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = c.String()
	}
	return strings.Join(names, ", ")
}

func describeSummary(s lab.Summary) string {
	var b strings.Builder
	by := s.BySource
	fmt.Fprintf(&b, "\n%s: %d reads (%d by replicas, %d by the primary, %d from the cache, %d defaults, %d shed, %d failed), %d commits, %d transitions, %d faults\n",
		s.Fleet, s.Reads, by.Replica, by.Primary, by.Cache, by.Default, by.Shed, by.Failed, s.Commits, s.Transitions, s.Faults)
	fmt.Fprintf(&b, "answers too old and not flagged: %d (oldest answer %s ms); reads sent to a late replica: %d; bounds broken: %d of %d\n",
		s.StaleUnflagged, plain(s.MaxStaleness), s.LateReplicaReads, s.BoundViolations, s.BoundSamples)
	if s.Refused > 0 {
		fmt.Fprintf(&b, "refused by the library, of those shed and failed: %d\n", s.Refused)
	}
	if s.FallbackReads > 0 {
		fmt.Fprintf(&b, "reads sent to the primary: %d, intervals over their budget: %d; critical answers that were stale: %d; answers older than they said: %d\n",
			s.FallbackReads, s.BudgetViolations, s.CriticalStale, s.AgeViolations)
	}
	if len(s.Modes) > 0 {
		fmt.Fprintf(&b, "read path: normal → %s; not normal for %s s\n", strings.Join(s.Modes, " → "), plain(s.DegradedMS/1000))
	}
	if s.OwnReads > 0 {
		fmt.Fprintf(&b, "own writes read: %d, missing: %d, served by replicas: %d\n", s.OwnReads, s.OwnMisses, s.OwnByReplica)
	}
	if s.TimeToOpen != nil {
		fmt.Fprintf(&b, "opened after %s ms for %s, closed again after %s ms\n", number(s.TimeToOpen), s.OpenReason, number(s.TimeToClose))
	}
	fmt.Fprintf(&b, "first read after %s s%s; longest read %s ms; the lab itself sent a read up to %s ms late\n",
		plain(s.Ready/1000), atLoad(s.Load), plain(s.MaxWait), plain(s.WorstStall))
	if s.FirstError != "" {
		fmt.Fprintf(&b, "first error: %s\n", s.FirstError)
	}
	switch {
	case s.Scenario == "":
	case len(s.FailedExpectations) == 0:
		fmt.Fprintf(&b, "scenario %s: every expectation held\n", s.Scenario)
	default:
		fmt.Fprintf(&b, "scenario %s FAILED:\n", s.Scenario)
		for _, e := range s.FailedExpectations {
			fmt.Fprintf(&b, "  %s\n", e)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return plain(*v)
}

// plain is a figure to three digits, or whole from 100 on, and never with an exponent.
func plain(v float64) string {
	decimals := 0
	switch size := math.Abs(v); {
	case size < 10:
		decimals = 2
	case size < 100:
		decimals = 1
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func atLoad(load *float64) string {
	if load == nil {
		return ""
	}
	return " at a load of " + plain(*load)
}

// interval is a staleness interval in words.
func interval(lo, hi *float64) string {
	if hi == nil {
		return whole(lo) + "–∞ ms"
	}
	return fmt.Sprintf("%s–%s ms", whole(lo), whole(hi))
}

func whole(v *float64) string {
	if v == nil {
		return "∞"
	}
	return fmt.Sprintf("%.0f", *v)
}
