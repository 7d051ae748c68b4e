package lab

import (
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/readpath"
)

// held is a summary with which every scenario is content.
func held(scenario string) Summary {
	s := Summary{
		Scenario: scenario, Replicas: 3, Rate: 200, Ran: 20_000, Reads: 4000, BySource: BySource{Replica: 4000}, Commits: 1000, BoundSamples: 400,
		TimeToOpen: new(700.0), OpenReason: "lag", TimeToClose: new(2000.0), ProbesToClose: new(1), ClosedToOpen: 1,
		RampShareFirst: new(0.06), RampShareLast: new(0.33), P95Before: new(1.0), P95During: new(1.9),
		OpenPeriods: []float64{2000, 4000, 4000}, MaxWait: 2050, Waited: 4, InFlightAtFault: 1, FailureThreshold: 3, CallTimeout: 2000,
		Transitions: 5, Faults: 4, CommitsAsync: 100, WriterIdle: 2000,
	}
	if scenario == "healthy" {
		s.Transitions, s.ClosedToOpen, s.SegmentSwitches, s.WriterIdle = 0, 0, 1, 10_000
	}
	if sc, _ := find(scenario); sc.classes != nil {
		s.PathSummary = heldPath(scenario)
		s.Errors, s.Refused, s.RefusalP999 = 900, 900, new(0.5)
		s.PrimaryConnectionsMax, s.WriterP50Before, s.WriterP50During = 21, new(1.0), new(1.4)
	}
	return s
}

// heldPath is the part of it that the read path adds.
func heldPath(scenario string) PathSummary {
	p := PathSummary{
		ByClass: map[readpath.Class]*BySource{
			readpath.Critical:   {Replica: 1000, Primary: 300, Failed: 400},
			readpath.Degradable: {Replica: 1000, Cache: 800, Default: 200},
			readpath.Sheddable:  {Replica: 400, Shed: 500},
		},
		Modes: inOrder, RecoveryGaps: []float64{3000, 3001}, Resumed: []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable},
		Flagged: 800, LoadersMax: 1, CrowdWait: 251, PrimaryConnectionsBefore: 1, InFlightMax: 4, InFlightCap: 4,
		GoroutinesSecond: 40, GoroutinesLast: 40, HeapSecond: 3, HeapLast: 3, OwnReads: ownWrites, OwnByReplica: ownWrites / 2,
	}
	switch scenario {
	case "relapse":
		p.Modes = append(append([]string{}, inOrder[:2]...), inOrder...)
	case "primary-restart":
		p.ByClass[readpath.Sheddable].Shed = 0
	}
	return p
}

// without gives a class other counts.
func without(c readpath.Class, by BySource) func(*Summary) {
	return func(s *Summary) { s.ByClass[c] = &by }
}

func judge(t *testing.T, s Summary) []string {
	t.Helper()
	return verdictOn(t, s).failed
}

func verdictOn(t *testing.T, s Summary) *verdict {
	t.Helper()
	scenario, ok := find(s.Scenario)
	if !ok {
		t.Fatalf("no scenario %q", s.Scenario)
	}
	v := &verdict{}
	v.always(&s)
	scenario.expect(v, &s)
	return v
}

func TestExpectationsHold(t *testing.T) {
	for _, name := range Names() {
		if failed := judge(t, held(name)); len(failed) > 0 {
			t.Errorf("%s: got %q, want none", name, failed)
		}
	}
}

// On a machine that is loaded, or that does not tell, ready_ms is only told.
func TestReadyIsJudgedOnAQuietMachineOnly(t *testing.T) {
	for _, load := range []*float64{nil, new(2.0)} {
		s := held("healthy")
		s.Load, s.Ready = load, 60_000
		if failed := judge(t, s); len(failed) > 0 {
			t.Errorf("got %q, want none", failed)
		}
	}
}

// Only figures of speed, and only on a machine that stalled, let a run be tried again.
func TestOnlySpeedFailed(t *testing.T) {
	slow := func(s *Summary) { s.P95During = new(2.1) }
	tests := []struct {
		name  string
		spoil func(*Summary)
		stall float64
		want  bool
		words string
	}{
		{"nothing failed", func(*Summary) {}, 500, false, ""},
		{"slow on a busy machine", slow, 50, true, "p95_during_ms is 2.1, expected at most 2 (worst_stall_ms 50: the machine was busy)"},
		{"slow on a quiet machine", slow, 49, false, "p95_during_ms is 2.1, expected at most 2 (worst_stall_ms 49)"},
		{"waits", func(s *Summary) { s.Scenario, s.MaxWait = "frozen", 2101 }, 50, true, "max_wait_ms is 2101, expected at most 2100 (worst_stall_ms 50: the machine was busy)"},
		{"late to start", func(s *Summary) { s.Load, s.Ready = new(0.5), 20_000 }, 50, true, "ready_ms is 20000"},
		{"a late answer too", func(s *Summary) { slow(s); s.StaleUnflagged = 1 }, 500, false, "stale_unflagged is 1"},
		{"an error alone", func(s *Summary) { s.Errors = 1 }, 500, false, "errors is 1"},
		{"opened late", func(s *Summary) { s.TimeToOpen = new(2001.0) }, 500, false, "time_to_open_ms is 2001"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := held("one-lagging")
			s.WorstStall = tt.stall
			tt.spoil(&s)
			v := verdictOn(t, s)
			if got := v.onlySpeed(&s); got != tt.want {
				t.Errorf("only_speed_failed: got %t, want %t with %q", got, tt.want, v.failed)
			}
			if got := strings.Join(v.failed, "\n"); !strings.Contains(got, tt.words) {
				t.Errorf("got %q, want %q in it", got, tt.words)
			}
		})
	}
}

// expectation is one that must fail of a scenario, or with "" of all, once a summary was spoilt.
type expectation struct {
	scenario string
	spoil    func(*Summary)
	want     string
}

// Each expectation can fail, in words that name the field, its value and the bound.
func TestEachExpectationCanFail(t *testing.T) {
	tests := []expectation{
		{"", func(s *Summary) { s.StaleUnflagged = 1 }, "stale_unflagged is 1, expected at most 0"},
		{"", func(s *Summary) { s.LateReplicaReads = 2 }, "late_replica_reads is 2, expected at most 0"},
		{"", func(s *Summary) { s.OpenReplicaReads = 1 }, "open_replica_reads is 1, expected at most 0"},
		{"", func(s *Summary) { s.BoundViolations = 3 }, "bound_violations is 3, expected at most 0"},
		{"", func(s *Summary) { s.DialsAfterOpen = 1 }, "request_dials_after_open is 1, expected at most 0"},
		{"", func(s *Summary) { s.Skipped = 1 }, "skipped is 1, expected at most 0"},
		{"", func(s *Summary) { s.Reads = 3599 }, "reads is 3599, expected at least 3600"},
		{"", func(s *Summary) { s.BoundSamples = 0 }, "bound_samples is 0, expected at least 20"},

		{"", func(s *Summary) { s.Load, s.Ready = new(1.99), 15_001 }, "ready_ms is 15001, expected at most 15000"},

		{"healthy", func(s *Summary) { s.PrimaryReadsMax = 1 }, "primary_reads_max_per_s is 1, expected at most 0"},
		{"all-lagging", func(s *Summary) { s.WriterErrors = 1 }, "writer_errors is 1, expected at most 0"},
		{"random", func(s *Summary) { s.Commits = 1 }, "commits is 1, expected at least"},

		{"healthy", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"healthy", func(s *Summary) { s.Transitions = 1 }, "transitions is 1, expected at most 0"},
		{"healthy", func(s *Summary) { s.SegmentSwitches = 0 }, "segment_switches is 0, expected at least 1"},
		{"healthy", func(s *Summary) { s.WriterIdle = 8000 }, "writer_idle_ms is 8000, expected at least 9000"},

		{"one-lagging", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"one-lagging", func(s *Summary) { s.TimeToOpen = nil }, "time_to_open_ms is null"},
		{"one-lagging", func(s *Summary) { s.TimeToOpen = new(2001.0) }, "time_to_open_ms is 2001, expected at most 2000"},
		{"one-lagging", func(s *Summary) { s.OpenReason = "unreachable" }, `open_reason is "unreachable", expected "lag"`},
		{"one-lagging", func(s *Summary) { s.TimeToClose = nil }, "time_to_close_ms is null"},
		{"one-lagging", func(s *Summary) { s.ClosedToOpen = 2 }, "closed_to_open is 2, expected 1"},
		{"one-lagging", func(s *Summary) { s.ProbesToClose = new(2) }, "probes_to_close is 2, expected 1"},
		{"one-lagging", func(s *Summary) { s.ProbesToClose = nil }, "probes_to_close is null, expected 1"},
		{"one-lagging", func(s *Summary) { s.RampShareFirst = new(0.3) }, "ramp_share_first is 0.3, expected at most"},
		{"one-lagging", func(s *Summary) { s.RampShareFirst = nil }, "ramp_share_first is null"},
		{"one-lagging", func(s *Summary) { s.RampShareLast = new(0.1) }, "ramp_share_last is 0.1, expected at least"},
		{"one-lagging", func(s *Summary) { s.RampShareLast = nil }, "ramp_share_last is null"},
		{"one-lagging", func(s *Summary) { s.P95During = new(2.1) }, "p95_during_ms is 2.1, expected at most 2"},
		{"one-lagging", func(s *Summary) { s.P95Before = nil }, "p95_before_ms or p95_during_ms is null"},

		{"cut-off", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"cut-off", func(s *Summary) { s.TimeToOpen = new(2001.0) }, "time_to_open_ms is 2001, expected at most 2000"},
		{"cut-off", func(s *Summary) { s.TimeToClose = nil }, "time_to_close_ms is null"},

		{"one-dead", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"one-dead", func(s *Summary) { s.TimeToOpen = nil }, "time_to_open_ms is null"},
		{"one-dead", func(s *Summary) { s.TimeToClose = nil }, "time_to_close_ms is null"},

		{"frozen", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"frozen", func(s *Summary) { s.TimeToOpen = nil }, "time_to_open_ms is null"},
		{"frozen", func(s *Summary) { s.Waited = 5 }, "waited is 5, expected at most 4"},
		{"frozen", func(s *Summary) { s.MaxWait = 2101 }, "max_wait_ms is 2101, expected at most 2100"},

		{"flapping", func(s *Summary) { s.Errors = 1 }, "errors is 1, expected at most 0"},
		{"flapping", func(s *Summary) { s.ClosedToOpen = 0 }, "closed_to_open is 0, expected at least 1"},
		{"flapping", func(s *Summary) { s.ClosedToOpen = 4 }, "closed_to_open is 4, expected at most 3"},
		{"flapping", func(s *Summary) { s.OpenPeriods = []float64{2000, 4000, 2000} }, "open_periods_ms shrinks from 4000 to 2000 at opening 3"},

		{"random", func(s *Summary) { s.BySource.Replica = 399 }, "by_source.replica is 399, expected at least 400"},
		{"random", func(s *Summary) { s.Faults = 2 }, "faults is 2, expected at least 3"},
		{"random", func(s *Summary) { s.CommitsAsync = 0 }, "commits_async is 0, expected at least 1"},
		{"random", func(s *Summary) { s.WriterIdle = 0 }, "writer_idle_ms is 0, expected at least 1000"},
		{"random", func(s *Summary) { s.Transitions = 0 }, "transitions is 0, expected at least 1"},
	}
	tests = append(tests, pathExpectations...)
	for _, tt := range tests {
		names := []string{tt.scenario}
		if tt.scenario == "" {
			names = Names()
		}
		for _, name := range names {
			s := held(name)
			tt.spoil(&s)
			if got := strings.Join(judge(t, s), "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q in it", name, got, tt.want)
			}
		}
	}
}
