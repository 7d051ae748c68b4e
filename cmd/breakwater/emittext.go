package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// describeEmitEvent is describeEvent for scenarios of consumers.
func describeEmitEvent(l lab.Line) string {
	switch l := l.(type) {
	case emitlab.PolicyLine:
		return stamp(l.T) + "policy     " + l.Policy
	case emitlab.FaultLine:
		return stamp(l.T) + fmt.Sprintf("fault      %-8s %s %s", l.Consumer, l.Fault, l.Phase)
	case emitlab.TransitionLine:
		s := fmt.Sprintf("transition %-8s %v → %v: %s", l.Consumer, l.From, l.To, l.Reason)
		if l.OpenPeriodMS != nil {
			s += "; open for " + plain(*l.OpenPeriodMS/1000) + " s"
		}
		return stamp(l.T) + s
	case emitlab.RoundLine:
		return stamp(l.T) + fmt.Sprintf("round %-4d killed after %s ms (%s: %s): %d acknowledged, %d of them stored; %d replayed",
			l.Round, plain(l.LivedMS), "slow", l.Fault, l.Acknowledged, l.Stored, l.Replayed)
	case emitlab.ErrorLine:
		return stamp(l.T) + "own fault  " + l.Consumer + ": " + l.Error
	}
	return ""
}

func describeEmits(l emitlab.SecondLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d emits;", l.Emitted)
	for _, name := range slices.Sorted(maps.Keys(l.Consumers)) {
		c := l.Consumers[name]
		fmt.Fprintf(&b, " %s %v p50 %s ms, p99 %s ms, %d delivered, %d stored, %d shed, %d refused, %d replayed, %d letters;",
			name, c.State, number(c.P50), number(c.P99), c.Delivered, c.Stored, c.Shed, c.Refused, c.Replayed, c.Letters)
	}
	return strings.TrimSuffix(b.String(), ";")
}

func describeEmitSummary(s *emitlab.Summary) string {
	var b strings.Builder
	switch {
	case len(s.Policies) > 0:
		compare(&b, s.Policies)
	case s.Rounds > 0:
		fmt.Fprintf(&b, "\n%d times killed: %d acknowledged, %d lost; %d replayed, %d duplicates by their IDs, %d left in the dead letters\n",
			s.Rounds, s.Acknowledged, s.Lost, s.Replayed, s.Duplicates, s.Stored)
	default:
		describeOutage(&b, s)
	}
	switch {
	case len(s.FailedExpectations) == 0 && s.Policy != "" && s.Policy != emitlab.PolicyLatency:
		fmt.Fprintf(&b, "scenario %s under policy %s: figures to compare with, nothing is expected of them\n", s.Scenario, s.Policy)
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

func describeOutage(b *strings.Builder, s *emitlab.Summary) {
	fmt.Fprintf(b, "\npolicy %s: %d emitted = %d delivered (%d of them replayed) + %d stored + %d shed + %d refused; lost: %d; duplicates: %d\n",
		s.Policy, s.Emitted, s.Delivered, s.Replayed, s.Stored, s.Shed, s.Refused, s.Lost, s.Duplicates)
	fmt.Fprintf(b, "emits before, during, after the outage: p50 %s, %s, %s ms; p99 %s, %s, %s ms; %d over 50 ms while it lasted\n",
		number(s.P50Before), number(s.P50During), number(s.P50After), number(s.P99Before), number(s.P99During), number(s.P99After), s.SlowEmits)
	for _, name := range slices.Sorted(maps.Keys(s.Consumers)) {
		c := s.Consumers[name]
		fmt.Fprintf(b, "%-8s p50 %s → %s ms, p95 %s → %s ms, p99 %s → %s ms; %d stored meanwhile", name,
			number(c.P50Before), number(c.P50During), number(c.P95Before), number(c.P95During), number(c.P99Before), number(c.P99During), c.DivertedDuring)
		if c.TimeToOpen != nil {
			fmt.Fprintf(b, "; opened after %s ms for %s, closed again after %s ms", number(c.TimeToOpen), c.OpenReason, number(c.TimeToClose))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "the counts added up at %d of %d looks; the machine stalled for up to %s ms\n", s.BalanceChecks-s.BalanceViolations, s.BalanceChecks, plain(s.WorstStall))
}

// compare is the table of several policies.
func compare(b *strings.Builder, policies map[string]*emitlab.Summary) {
	const row = "%-8s %10s %10s %12s %12s %8s %8s %7v %10v %8v %8v %6v\n"
	fmt.Fprintf(b, "\n"+row, "POLICY", "P99 ms", "SLOW P99", "HEALTHY P50", "HEALTHY P99", "OPEN ms", "CLOSE ms", ">50 ms", "DELIVERED", "REFUSED", "SKIPPED", "LOST")
	for _, name := range emitlab.Policies() {
		s, ok := policies[name]
		if !ok {
			continue
		}
		slow, healthy := s.Consumers["slow"], s.Consumers["healthy"]
		fmt.Fprintf(b, row, name, number(s.P99During), number(slow.P99During), number(healthy.P50During), number(healthy.P99During),
			number(s.TimeToOpen), number(s.TimeToClose), s.SlowEmits, s.Delivered, s.Refused, s.Skipped, s.Lost)
	}
	b.WriteString("\nOf emits while the outage lasted: P99, of the slow and the healthy consumer's, and how many took over 50 ms. The library is \"latency\";\n" +
		"the others are what people have today: a pool of 64 workers for all consumers, with a timeout of 200 ms, and with a breaker by errors.\n")
}

// renderEmits is render for scenarios of consumers.
func (t *table) renderEmits(l emitlab.Live, room int) []string {
	s := l.Second
	lines := []string{fmt.Sprintf("breakwater lab · %s · policy %s · %.0f s", t.scenario, l.Policy, time.Since(started).Seconds())}
	if len(s.Consumers) == 0 { // before the first second; in scenario crash, whose rounds are events, always
		return t.withEvents(lines, room)
	}
	lines = append(lines, fmt.Sprintf("%d emits/s", s.Emitted), "",
		fmt.Sprintf("%-9s %-13s %8s %8s %10s %8s %6s %8s %9s %7s %8s", "CONSUMER", "STATE", "P50 ms", "P99 ms", "DELIVERED", "STORED", "SHED", "REFUSED", "REPLAYED", "FLIGHT", "LETTERS"))
	for _, name := range slices.Sorted(maps.Keys(s.Consumers)) {
		c := s.Consumers[name]
		lines = append(lines, fmt.Sprintf("%-9s %s %8s %8s %10d %8d %6d %8d %9d %7d %8d", name, t.state(c.State), number(c.P50), number(c.P99),
			c.Delivered, c.Stored, c.Shed, c.Refused, c.Replayed, c.InFlight, c.Letters))
		if reason, ok := t.opened[name]; ok && c.State != breaker.Closed {
			lines = append(lines, pad("", 10)+"opened for "+reason)
		}
	}
	return t.withEvents(lines, room)
}
