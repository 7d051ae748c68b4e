package lab

import (
	"fmt"
	"strconv"
)

// busyStall is the worst_stall_ms from which on the machine was too busy for figures of speed to
// mean much: half of what max_wait_ms may take above the call timeout.
const busyStall = 50

// judgedLoad is the load at the process's start below which ready_ms is judged.
const judgedLoad = 2

// verdict collects, in words, the expectations that did not hold.
type verdict struct {
	failed []string
	slow   int // of them, figures of speed
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

// within wants a figure that was measured and is at most the bound.
func (v *verdict) within(field string, got *float64, bound float64) {
	if got == nil {
		v.failf("%s is null: it never happened, expected at most %v", field, bound)
		return
	}
	v.atMost(field, *got, bound)
}

func (v *verdict) happened(field string, got *float64) {
	if got == nil {
		v.failf("%s is null, expected that it happened", field)
	}
}

// speed wants a figure that is the machine's as much as the library's, and tells beside a miss
// how the machine was.
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

func (v *verdict) zero(field string, got int) { v.atMost(field, float64(got), 0) }

// always holds in every scenario: no late answer, and enough was done to see one.
func (v *verdict) always(s *Summary) {
	v.zero("stale_unflagged", s.StaleUnflagged)
	v.zero("late_replica_reads", s.LateReplicaReads)
	v.zero("open_replica_reads", s.OpenReplicaReads)
	v.zero("bound_violations", s.BoundViolations)
	v.zero("request_dials_after_open", s.DialsAfterOpen)
	v.zero("skipped", s.Skipped)
	seconds := s.Ran / 1000
	v.atLeast("reads", float64(s.Reads), 0.9*float64(s.Rate)*seconds)
	if s.Scenario != "primary-restart" {
		v.zero("writer_errors", s.WriterErrors)
		v.atLeast("commits", float64(s.Commits), 0.8*writeRate*(seconds-s.WriterIdle/1000))
	}
	if len(s.ByClass) == 0 { // no class sends its reads there
		v.zero("primary_reads_max_per_s", s.PrimaryReadsMax)
	}
	v.atLeast("bound_samples", float64(s.BoundSamples), seconds)
	if s.Load != nil && *s.Load < judgedLoad {
		v.speed(s, "ready_ms", s.Ready, 15_000)
	}
}

func expectHealthy(v *verdict, s *Summary) {
	v.zero("errors", s.Errors)
	v.zero("transitions", s.Transitions)
	v.atLeast("segment_switches", float64(s.SegmentSwitches), 1)
	v.atLeast("writer_idle_ms", s.WriterIdle, 0.45*s.Ran)
}

func expectLagging(v *verdict, s *Summary) {
	v.lagFault(s)
	v.oneOpening(s)
	v.ramp(s)
	if s.P95Before == nil || s.P95During == nil {
		v.failf("p95_before_ms or p95_during_ms is null, expected both")
		return
	}
	v.speed(s, "p95_during_ms", *s.P95During, 2**s.P95Before)
}

// lagFault wants that a replica that fell behind was opened for its lag, in time.
func (v *verdict) lagFault(s *Summary) {
	v.zero("errors", s.Errors)
	v.within("time_to_open_ms", s.TimeToOpen, 2000)
	if s.OpenReason != "lag" {
		v.failf("open_reason is %q, expected \"lag\"", s.OpenReason)
	}
	v.happened("time_to_close_ms", s.TimeToClose)
}

func (v *verdict) oneOpening(s *Summary) {
	if s.ClosedToOpen != 1 {
		v.failf("closed_to_open is %d, expected 1", s.ClosedToOpen)
	}
	if s.ProbesToClose == nil || *s.ProbesToClose != 1 {
		v.failf("probes_to_close is %s, expected 1", show(s.ProbesToClose))
	}
}

// ramp wants that the replica came back with a small share that grew: REQ-R9.
func (v *verdict) ramp(s *Summary) {
	fair := 1 / float64(s.Replicas)
	v.within("ramp_share_first", s.RampShareFirst, fair/2)
	if s.RampShareLast == nil {
		v.failf("ramp_share_last is null, expected at least %.3f", fair/2)
		return
	}
	v.atLeast("ramp_share_last", *s.RampShareLast, fair/2)
}

func expectCutOff(v *verdict, s *Summary) { v.lagFault(s) }

func expectDead(v *verdict, s *Summary) {
	v.zero("errors", s.Errors)
	v.happened("time_to_open_ms", s.TimeToOpen)
	v.happened("time_to_close_ms", s.TimeToClose)
}

func expectFrozen(v *verdict, s *Summary) {
	expectDead(v, s)
	v.atMost("waited", float64(s.Waited), float64(s.InFlightAtFault+s.FailureThreshold))
	v.speed(s, "max_wait_ms", s.MaxWait, s.CallTimeout+100)
}

func expectFlapping(v *verdict, s *Summary) {
	v.zero("errors", s.Errors)
	v.atLeast("closed_to_open", float64(s.ClosedToOpen), 1)
	v.atMost("closed_to_open", float64(s.ClosedToOpen), 3)
	for i := 1; i < len(s.OpenPeriods); i++ {
		if s.OpenPeriods[i] < s.OpenPeriods[i-1] {
			v.failf("open_periods_ms shrinks from %v to %v at opening %d, expected that it never shrinks",
				s.OpenPeriods[i-1], s.OpenPeriods[i], i+1)
		}
	}
}

func expectRandom(v *verdict, s *Summary) {
	// Refusals are right while every replica is out, but no answer proves nothing.
	v.atLeast("by_source.replica", float64(s.BySource.Replica), 0.1*float64(s.Reads))
	v.atLeast("faults", float64(s.Faults), 3)
	v.atLeast("commits_async", float64(s.CommitsAsync), 1)
	v.atLeast("writer_idle_ms", s.WriterIdle, 1000)
	v.atLeast("transitions", float64(s.Transitions), 1)
}

func show(n *int) string {
	if n == nil {
		return "null"
	}
	return strconv.Itoa(*n)
}
