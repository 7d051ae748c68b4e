package emitlab

import (
	"fmt"
	"math"
	"slices"

	"github.com/breakwater-go/breakwater/breaker"
)

// busyStall is the worst_stall_ms from which on the machine was too busy for figures of speed to mean much: as long as
// the P99 that emits may have. In that time half a bulkhead of triggers comes.
const busyStall = emitP99

// What must hold, in ms.
const (
	emitP99     = 12   // of emits while a consumer is ill: 8 of a healthy one, and half as much again
	openWithin  = 150  // of a consumer that is slow or hangs, by the age of its calls
	failWithin  = 1500 // of one that fails: half of the window must have failed
	closeWithin = 3000
	spared      = 1.2 // the healthy consumer's emits during the outage, compared with before
	heapGrowth  = 1.2
	heapSlack   = 4.0 // MB
	fewGo       = 100 // goroutines
)

// verdict collects, in words, the expectations that did not hold.
type verdict struct {
	failed []string
	slow   int // of them, figures of speed
}

// judge holds a run against what its scenario promises. Of the policies that people have today nothing is promised but that the
// figures mean something.
func (v *verdict) judge(s *Summary, scenario Scenario) {
	v.always(s)
	if s.Policy != PolicyLatency {
		return
	}
	v.zero("lost", s.Lost)
	v.zero("skipped", s.Skipped)
	v.zero("own_faults", s.OwnFaults)
	v.zero("balance_violations", s.BalanceViolations)
	for name, c := range s.Consumers {
		v.zero("consumers."+name+".unknown_ids", c.UnknownIDs)
		if s.Scenario != "crash" { // there a letter may be parked: five kills in a row met it under way
			v.zero("consumers."+name+".stored", c.Stored)
		}
	}
	scenario.expect(v, s)
}

// always holds under every policy: enough was emitted.
func (v *verdict) always(s *Summary) {
	if s.Scenario == "crash" {
		return
	}
	v.atLeast("emitted", float64(s.Emitted+s.Skipped), 1.6*float64(s.Rate)*s.Outage/1000)
	if s.Policy == PolicyLatency {
		v.atLeast("balance_checks", float64(s.BalanceChecks), 10)
	}
}

func (v *verdict) failf(format string, args ...any) {
	v.failed = append(v.failed, fmt.Sprintf(format, args...))
}

func (v *verdict) atMost(field string, got, bound float64) {
	if got > bound {
		v.failf("%s is %v, expected at most %v", field, got, bound)
	}
}

func (v *verdict) atLeast(field string, got, bound float64) {
	if got < bound {
		v.failf("%s is %v, expected at least %v", field, got, bound)
	}
}

func (v *verdict) zero(field string, got int) { v.atMost(field, float64(got), 0) }

// within wants a figure that was measured, and of speed that it is at most the bound.
func (v *verdict) within(s *Summary, field string, got *float64, bound float64) {
	if got == nil {
		v.failf("%s is null: it never happened, expected at most %v", field, bound)
		return
	}
	v.speed(s, field, *got, bound)
}

// speed wants a figure that is the machine's as much as the library's, and tells beside a miss how the machine was.
func (v *verdict) speed(s *Summary, field string, got, bound float64) {
	if got <= bound {
		return
	}
	machine := ""
	if s.WorstStall >= busyStall {
		machine = ": the machine was busy"
	}
	v.slow++
	v.failf("%s is %v, expected at most %v (worst_stall_ms %v%s)", field, got, bound, s.WorstStall, machine)
}

// onlySpeed tells whether nothing failed but figures of speed, on a machine that was busy.
func (v *verdict) onlySpeed(s *Summary) bool {
	return v.slow > 0 && v.slow == len(v.failed) && s.WorstStall >= busyStall
}

// opened wants that a consumer was cut off in time, was not before, and came back.
func (v *verdict) opened(s *Summary, name string, bound float64) {
	c := s.Consumers[name]
	v.within(s, "consumers."+name+".time_to_open_ms", c.TimeToOpen, bound)
	v.within(s, "consumers."+name+".time_to_close_ms", c.TimeToClose, closeWithin)
	v.speed(s, "consumers."+name+".openings_before", float64(c.OpeningsBefore), 0)
	v.zero("consumers."+name+".calls_while_open", c.OpenCalls)
}

// isolated wants that the other consumer did not notice: REQ-E1.
func (v *verdict) isolated(s *Summary) {
	c := s.Consumers[healthy]
	v.speed(s, "consumers.healthy.diverted_during", float64(c.DivertedDuring), 0)
	v.speed(s, "consumers.healthy.transitions", float64(c.Transitions), 0)
	if c.P50Before == nil || c.P95Before == nil || c.P50During == nil || c.P95During == nil {
		v.failf("consumers.healthy: a percentile of before or during is null")
		return
	}
	v.speed(s, "consumers.healthy.p50_during_ms", *c.P50During, rounded(spared**c.P50Before))
	v.speed(s, "consumers.healthy.p95_during_ms", *c.P95During, rounded(spared**c.P95Before))
}

// whole wants that every trigger arrived in the end.
func (v *verdict) whole(s *Summary) {
	v.zero("shed", s.Shed)
	v.zero("refused", s.Refused)
	if s.Delivered != s.Emitted {
		v.failf("delivered is %d, expected all %d that were emitted", s.Delivered, s.Emitted)
	}
}

// reason wants that a consumer was cut off for what ails it. One that was open before has no such reason, and openings_before tells of it.
func (v *verdict) reason(s *Summary, name string, want ...string) {
	got := s.Consumers[name].OpenReason
	if slices.Contains(want, got) || s.Consumers[name].OpeningsBefore > 0 {
		return
	}
	v.failf("consumers.%s.open_reason is %q, expected one of %q", name, got, want)
}

func expectSlow(v *verdict, s *Summary) {
	v.opened(s, slow, openWithin)
	v.isolated(s)
	v.whole(s)
	v.within(s, "p99_during_ms", s.P99During, emitP99)
	v.speed(s, "slow_emits", float64(s.SlowEmits), float64(2*s.Bulkhead))
}

func expectPartly(v *verdict, s *Summary) {
	c := s.Consumers[slow]
	v.within(s, "consumers.slow.p99_after_open_ms", c.P99AfterOpen, emitP99)
	v.within(s, "consumers.slow.time_to_close_ms", c.TimeToClose, closeWithin)
	v.zero("consumers.slow.calls_while_open", c.OpenCalls)
	v.isolated(s)
	v.whole(s)
}

func expectHanging(v *verdict, s *Summary) {
	v.opened(s, slow, openWithin)
	v.isolated(s)
	v.whole(s)
	v.within(s, "p99_during_ms", s.P99During, emitP99)
	v.speed(s, "slow_emits", float64(s.SlowEmits), float64(2*s.Bulkhead))
	c := s.Consumers[slow]
	if c.OpeningsBefore > 0 { // so that it may have been open when the fault began, and is judged for that
		return
	}
	if c.FirstReturn == nil || c.TimeToOpen == nil || *c.TimeToOpen >= *c.FirstReturn {
		v.failf("consumers.slow.time_to_open_ms is %s, expected that it comes before first_return_ms, %s", show(c.TimeToOpen), show(c.FirstReturn))
	}
}

func expectFailing(v *verdict, s *Summary) {
	v.opened(s, slow, failWithin)
	v.isolated(s)
	v.whole(s)
	v.reason(s, slow, breaker.RuleFailureRateByTime, breaker.RuleFailureRateByCount)
	v.within(s, "p99_during_ms", s.P99During, emitP99)
}

func expectDown(v *verdict, s *Summary) {
	for _, name := range Consumers() {
		c := s.Consumers[name]
		if c.TimeToOpen == nil {
			v.failf("consumers.%s.time_to_open_ms is null, expected that it was cut off", name)
		}
		v.zero("consumers."+name+".calls_while_open", c.OpenCalls)
		v.within(s, "consumers."+name+".time_to_close_ms", c.TimeToClose, closeWithin)
	}
	v.zero("priority_violations", s.PriorityViolations)
	compliance, idle := s.priority(0), s.priority(2)
	v.zero("by_priority.compliance.shed", compliance.Shed)
	if compliance.Emitted <= s.StoreBound { // there was room for all of them
		v.zero("by_priority.compliance.refused", compliance.Refused)
	}
	v.atLeast("by_priority.idle-ping.shed", float64(idle.Shed), 1)
	v.within(s, "p99_during_ms", s.P99During, emitP99)
	v.atLeast("goroutines_last_quarter", float64(s.GoroutinesLast), 1)
	v.atMost("goroutines_last_quarter", float64(s.GoroutinesLast), float64(s.GoroutinesSecond+fewGo))
	v.atMost("heap_live_last_quarter_mb", s.HeapLast, heapGrowth*s.HeapSecond+heapSlack)
}

func (s *Summary) priority(n int) PrioritySummary {
	if p := s.ByPriority[priorities[n]]; p != nil {
		return *p
	}
	return PrioritySummary{}
}

func expectCrash(v *verdict, s *Summary) {
	v.atLeast("rounds", float64(s.Rounds), 1)
	v.atLeast("acknowledged", float64(s.Acknowledged), 0.2*float64(s.Rate)*float64(s.Rounds))
	v.atLeast("diverted", float64(s.Diverted), 1)
	v.atLeast("replayed", float64(s.Replayed), 1)
}

// rounded is a figure in ms to the microsecond.
func rounded(ms float64) float64 { return math.Round(1000*ms) / 1000 }

func show(v *float64) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}
