package lab

import (
	"fmt"
	"slices"

	"github.com/breakwater-go/breakwater/readpath"
)

// path holds in every scenario whose reads have classes.
func (v *verdict) path(s *Summary) {
	v.zero("budget_violations", s.BudgetViolations)
	v.zero("critical_stale", s.CriticalStale)
	v.zero("age_violations", s.AgeViolations)
	v.zero("refused_without_retry_after", s.RefusedWithoutRetryAfter)
	v.zero("by_class.sheddable.primary", s.class(readpath.Sheddable).Primary)
	if s.Errors != s.Refused {
		v.failf("errors is %d and refused is %d, expected the same: first error %q", s.Errors, s.Refused, s.FirstError)
	}
	v.atMost("primary_connections_max", float64(s.PrimaryConnectionsMax), float64(s.PrimaryConnectionsBefore+budgetRoom))
}

// quick wants that refusals are decided at once. Where nodes die, some reads are refused that had waited for a dying one.
func (v *verdict) quick(s *Summary) {
	if s.RefusalP999 == nil {
		v.failf("refusal_p999_ms is null, expected refusals")
		return
	}
	v.speed(s, "refusal_p999_ms", *s.RefusalP999, 5)
}

func (s *Summary) class(c readpath.Class) BySource {
	if by := s.ByClass[c]; by != nil {
		return *by
	}
	return BySource{}
}

// outage wants that every class was answered by its policy while no replica was fresh.
func (v *verdict) outage(s *Summary) {
	critical, degradable, sheddable := s.class(readpath.Critical), s.class(readpath.Degradable), s.class(readpath.Sheddable)
	v.atLeast("by_class.critical.primary", float64(critical.Primary), budgetBurst)
	v.atLeast("by_class.critical.failed", float64(critical.Failed), 1)
	v.atLeast("by_class.degradable.cache", float64(degradable.Cache), 100)
	v.atLeast("by_class.sheddable.shed", float64(sheddable.Shed), 100)
	v.zero("by_class.degradable.failed", degradable.Failed)
	if s.WriterP50Before == nil || s.WriterP50During == nil {
		v.failf("writer_p50_before_ms or writer_p50_during_ms is null, expected both")
		return
	}
	v.speed(s, "writer_p50_during_ms", *s.WriterP50During, 1.5**s.WriterP50Before)
}

// flat wants that nothing in the process grew while the fault lasted.
func (v *verdict) flat(s *Summary) {
	v.atLeast("goroutines_last_quarter", float64(s.GoroutinesLast), 1)
	v.atMost("goroutines_last_quarter", float64(s.GoroutinesLast), float64(s.GoroutinesSecond+100))
	v.atMost("heap_live_last_quarter_mb", s.HeapLast, 1.2*s.HeapSecond+4)
}

// recovery wants that the classes came back in order, each after the sustained time, and the path is normal again.
func (v *verdict) recovery(s *Summary, modes ...string) {
	v.modes(s, modes...)
	if want := []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable}; !slices.Equal(s.Resumed, want) {
		v.failf("resumed is %v, expected %v", s.Resumed, want)
	}
	if len(s.RecoveryGaps) != 2 {
		v.failf("recovery_gaps_ms is %v, expected 2 of them", s.RecoveryGaps)
	}
	for i, gap := range s.RecoveryGaps {
		v.atLeast(fmt.Sprintf("recovery_gaps_ms[%d]", i), gap, ms(sustain))
	}
}

var inOrder = []string{"degraded", "recovering critical", "recovering critical degradable", "normal"}

func expectAllLagging(v *verdict, s *Summary) {
	v.path(s)
	v.quick(s)
	v.outage(s)
	v.flat(s)
	v.recovery(s, inOrder...)
	if s.OpenReason != "lag" {
		v.failf("open_reason is %q, expected \"lag\"", s.OpenReason)
	}
}

func expectAllDead(v *verdict, s *Summary) {
	v.path(s)
	v.outage(s)
	v.flat(s)
	v.recovery(s, inOrder...)
}

func expectRelapse(v *verdict, s *Summary) {
	v.path(s)
	v.quick(s)
	v.outage(s)
	v.recovery(s, slices.Concat(inOrder[:2], inOrder)...)
}

func expectColdCache(v *verdict, s *Summary) {
	v.path(s)
	v.quick(s)
	v.modes(s, inOrder...) // no degradable read comes that would show when it is back
	if s.LoadersMax != 1 {
		v.failf("loaders_max_per_key is %d, expected 1", s.LoadersMax)
	}
	degradable := s.class(readpath.Degradable)
	v.atLeast("by_class.degradable.cache", float64(degradable.Cache), callers/2)   // the second crowd on the quick key
	v.atLeast("by_class.degradable.default", float64(degradable.Default), callers) // the crowd on the slow one
	v.speed(s, "crowd_wait_max_ms", s.CrowdWait, ms(loaderWait)+100)
}

func (v *verdict) modes(s *Summary, want ...string) {
	if !slices.Equal(s.Modes, want) {
		v.failf("modes is %q, expected %q", s.Modes, want)
	}
}

func expectPrimaryRestart(v *verdict, s *Summary) {
	v.path(s)
	critical, degradable, sheddable := s.class(readpath.Critical), s.class(readpath.Degradable), s.class(readpath.Sheddable)
	v.atLeast("flagged", float64(s.Flagged), 100)
	v.atLeast("by_class.critical.failed", float64(critical.Failed), 1)
	v.zero("by_class.degradable.failed", degradable.Failed)
	v.zero("by_class.sheddable.shed", sheddable.Shed)
	v.zero("degraded_ms", int(s.DegradedMS))
}

func expectLastStanding(v *verdict, s *Summary) {
	v.path(s)
	v.atMost("in_flight_max", float64(s.InFlightMax), float64(s.InFlightCap))
	v.zero("degraded_ms", int(s.DegradedMS))
	critical, degradable, sheddable := s.class(readpath.Critical), s.class(readpath.Degradable), s.class(readpath.Sheddable)
	v.atLeast("by_class.critical.primary", float64(critical.Primary), 10)
	v.atLeast("by_class.degradable.cache", float64(degradable.Cache), 10)
	v.atLeast("by_class.sheddable.shed", float64(sheddable.Shed), 10)
	v.zero("last_node_transitions", s.LastNodeTransitions)
}

func expectOwnWrites(v *verdict, s *Summary) {
	v.path(s)
	if s.OwnReads != ownWrites {
		v.failf("own_reads is %d, expected %d", s.OwnReads, ownWrites)
	}
	v.zero("own_misses", s.OwnMisses)
	v.atLeast("own_by_replica", float64(s.OwnByReplica), ownWrites/2)
}
