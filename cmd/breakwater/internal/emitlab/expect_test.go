package emitlab

import (
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

// held is a summary with which every scenario is content.
func held(scenario string) Summary {
	s := Summary{
		Scenario: scenario, Policy: PolicyLatency, Fleet: "none", Rate: 500, Outage: 10_000, Bulkhead: 16, BalanceChecks: 400,
		Counts:      Counts{Emitted: 20_000, Delivered: 20_000, Replayed: 5000, Diverted: 5000, SlowEmits: 32},
		Percentiles: Percentiles{P99During: new(12.0)}, WorstStall: 3,
		Consumers: map[string]*ConsumerSummary{
			healthy: {Percentiles: Percentiles{P50Before: new(3.0), P95Before: new(6.0), P50During: new(3.5), P95During: new(7.0)}},
			slow: {
				TimeToOpen: new(150.0), OpenReason: breaker.RuleCUSUM, TimeToClose: new(3000.0), FirstReturn: new(200.0), P99AfterOpen: new(12.0),
			},
		},
		Rounds: 5, Acknowledged: 4000, FailedExpectations: []string{},
	}
	switch scenario {
	case "failing-consumer":
		s.Consumers[slow].OpenReason, s.Consumers[slow].TimeToOpen = breaker.RuleFailureRateByTime, new(1500.0)
	case "all-consumers-down":
		s.Consumers[healthy].TimeToOpen, s.Consumers[healthy].TimeToClose = new(500.0), new(100.0)
		s.Shed, s.StoreBound, s.GoroutinesSecond, s.GoroutinesLast, s.HeapSecond, s.HeapLast = 300, 10_000, 40, 40, 20, 28
		s.ByPriority = map[string]*PrioritySummary{"compliance": {Emitted: 2000}, "normal": {Emitted: 10_000}, "idle-ping": {Emitted: 8000, Shed: 300}}
	}
	return s
}

func verdictOn(t *testing.T, s Summary) *verdict {
	t.Helper()
	scenario, ok := find(s.Scenario)
	if !ok {
		t.Fatalf("no scenario %q", s.Scenario)
	}
	v := &verdict{}
	v.judge(&s, scenario)
	return v
}

func TestExpectationsHold(t *testing.T) {
	for _, name := range Names() {
		if failed := verdictOn(t, held(name)).failed; len(failed) > 0 {
			t.Errorf("%s: got %q, want none", name, failed)
		}
	}
}

// Each expectation can fail, in words that name the field, its value and the bound.
func TestEachExpectationCanFail(t *testing.T) {
	sick := func(f func(*ConsumerSummary)) func(*Summary) { return func(s *Summary) { f(s.Consumers[slow]) } }
	well := func(f func(*ConsumerSummary)) func(*Summary) { return func(s *Summary) { f(s.Consumers[healthy]) } }
	all := Names()
	but := func(not ...string) (names []string) {
		for _, name := range all {
			if !strings.Contains(strings.Join(not, " "), name) {
				names = append(names, name)
			}
		}
		return names
	}
	one := but("all-consumers-down", "crash")
	quick := []string{"slow-consumer", "hanging-consumer"}
	for _, tt := range []struct {
		scenarios []string
		spoil     func(*Summary)
		want      string
	}{
		{all, func(s *Summary) { s.Lost = 1 }, "lost is 1, expected at most 0"},
		{all, func(s *Summary) { s.Skipped = 1 }, "skipped is 1, expected at most 0"},
		{all, func(s *Summary) { s.OwnFaults = 1 }, "own_faults is 1, expected at most 0"},
		{all, func(s *Summary) { s.BalanceViolations = 2 }, "balance_violations is 2, expected at most 0"},
		{all, sick(func(c *ConsumerSummary) { c.UnknownIDs = 1 }), "consumers.slow.unknown_ids is 1, expected at most 0"},
		{but("crash"), well(func(c *ConsumerSummary) { c.Stored = 3 }), "consumers.healthy.stored is 3, expected at most 0"},
		{but("crash"), func(s *Summary) { s.Emitted = 7000; s.Delivered = 7000 }, "emitted is 7000, expected at least 8000"},
		{but("crash"), func(s *Summary) { s.BalanceChecks = 9 }, "balance_checks is 9, expected at least 10"},

		{but("crash", "all-consumers-down"), sick(func(c *ConsumerSummary) { c.TimeToClose = new(3001.0) }), "consumers.slow.time_to_close_ms is 3001, expected at most 3000"},
		{but("crash"), sick(func(c *ConsumerSummary) { c.TimeToClose = nil }), "consumers.slow.time_to_close_ms is null"},
		{but("crash"), sick(func(c *ConsumerSummary) { c.OpenCalls = 1 }), "consumers.slow.calls_while_open is 1, expected at most 0"},
		{but("crash", "partly-slow"), sick(func(c *ConsumerSummary) { c.TimeToOpen = nil }), "consumers.slow.time_to_open_ms is null"},
		{quick, sick(func(c *ConsumerSummary) { c.TimeToOpen = new(151.0) }), "consumers.slow.time_to_open_ms is 151, expected at most 150"},
		{but("crash", "partly-slow", "all-consumers-down"), sick(func(c *ConsumerSummary) { c.OpeningsBefore = 1 }), "consumers.slow.openings_before is 1, expected at most 0"},

		{one, well(func(c *ConsumerSummary) { c.DivertedDuring = 1 }), "consumers.healthy.diverted_during is 1, expected at most 0"},
		{one, well(func(c *ConsumerSummary) { c.Transitions = 1 }), "consumers.healthy.transitions is 1, expected at most 0"},
		{one, well(func(c *ConsumerSummary) { c.P50During = new(3.7) }), "consumers.healthy.p50_during_ms is 3.7, expected at most 3.6"},
		{one, well(func(c *ConsumerSummary) { c.P95During = new(7.3) }), "consumers.healthy.p95_during_ms is 7.3, expected at most 7.2"},
		{one, well(func(c *ConsumerSummary) { c.P95Before = nil }), "a percentile of before or during is null"},
		{one, func(s *Summary) { s.Shed = 1 }, "shed is 1, expected at most 0"},
		{one, func(s *Summary) { s.Refused = 1 }, "refused is 1, expected at most 0"},
		{one, func(s *Summary) { s.Delivered-- }, "delivered is 19999, expected all 20000"},
		{but("crash", "partly-slow"), func(s *Summary) { s.P99During = new(12.1) }, "p99_during_ms is 12.1, expected at most 12"},
		{but("crash", "partly-slow"), func(s *Summary) { s.P99During = nil }, "p99_during_ms is null"},
		{quick, func(s *Summary) { s.SlowEmits = 33 }, "slow_emits is 33, expected at most 32"},

		{[]string{"partly-slow"}, sick(func(c *ConsumerSummary) { c.P99AfterOpen = nil }), "consumers.slow.p99_after_open_ms is null"},
		{[]string{"partly-slow"}, sick(func(c *ConsumerSummary) { c.P99AfterOpen = new(13.0) }), "consumers.slow.p99_after_open_ms is 13, expected at most 12"},
		{[]string{"hanging-consumer"}, sick(func(c *ConsumerSummary) { c.FirstReturn = new(149.0) }), "time_to_open_ms is 150, expected that it comes before first_return_ms, 149"},
		{[]string{"hanging-consumer"}, sick(func(c *ConsumerSummary) { c.FirstReturn = nil }), "first_return_ms, null"},
		{[]string{"failing-consumer"}, sick(func(c *ConsumerSummary) { c.OpenReason = "cusum" }), `consumers.slow.open_reason is "cusum", expected one of`},
		{[]string{"failing-consumer"}, sick(func(c *ConsumerSummary) { c.TimeToOpen = new(1501.0) }), "time_to_open_ms is 1501, expected at most 1500"},

		{[]string{"all-consumers-down"}, func(s *Summary) { s.PriorityViolations = 1 }, "priority_violations is 1, expected at most 0"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.ByPriority["compliance"].Shed = 1 }, "by_priority.compliance.shed is 1, expected at most 0"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.ByPriority["compliance"].Refused = 1 }, "by_priority.compliance.refused is 1, expected at most 0"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.ByPriority["idle-ping"].Shed = 0 }, "by_priority.idle-ping.shed is 0, expected at least 1"},
		{[]string{"all-consumers-down"}, well(func(c *ConsumerSummary) { c.TimeToOpen = nil }), "consumers.healthy.time_to_open_ms is null"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.GoroutinesLast = 0 }, "goroutines_last_quarter is 0, expected at least 1"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.GoroutinesLast = 141 }, "goroutines_last_quarter is 141, expected at most 140"},
		{[]string{"all-consumers-down"}, func(s *Summary) { s.HeapLast = 28.1 }, "heap_live_last_quarter_mb is 28.1, expected at most 28"},

		{[]string{"crash"}, func(s *Summary) { s.Rounds = 0 }, "rounds is 0, expected at least 1"},
		{[]string{"crash"}, func(s *Summary) { s.Acknowledged = 499 }, "acknowledged is 499, expected at least 500"},
		{[]string{"crash"}, func(s *Summary) { s.Diverted = 0 }, "diverted is 0, expected at least 1"},
		{[]string{"crash"}, func(s *Summary) { s.Replayed = 0 }, "replayed is 0, expected at least 1"},
	} {
		for _, name := range tt.scenarios {
			s := held(name)
			tt.spoil(&s)
			if got := strings.Join(verdictOn(t, s).failed, "\n"); !strings.Contains(got, tt.want) {
				t.Errorf("%s: got %q, want %q in it", name, got, tt.want)
			}
		}
	}
}

// What does not fit into the store any more may be refused, where all of it must not be shed.
func TestComplianceBeyondTheStore(t *testing.T) {
	s := held("all-consumers-down")
	s.ByPriority["compliance"].Emitted, s.ByPriority["compliance"].Refused = 10_001, 1
	if failed := verdictOn(t, s).failed; len(failed) > 0 {
		t.Errorf("got %q, want none", failed)
	}
}

// Of what people have today nothing is expected but that it was put to the test.
func TestOtherPoliciesAreNotJudged(t *testing.T) {
	s := held("slow-consumer")
	s.Policy, s.P99During, s.Skipped, s.Consumers[slow].TimeToOpen, s.BalanceChecks = PolicyNone, new(6000.0), 10, nil, 0
	if failed := verdictOn(t, s).failed; len(failed) > 0 {
		t.Errorf("got %q, want none", failed)
	}
	s.Emitted = 10
	if failed := verdictOn(t, s).failed; len(failed) != 1 {
		t.Errorf("got %q, want that too little was emitted", failed)
	}
}

// Only figures of speed, and only on a machine that stalled, let a run be tried again.
func TestOnlySpeedFailed(t *testing.T) {
	late := func(s *Summary) { s.P99During = new(13.0) }
	for _, tt := range []struct {
		name  string
		spoil func(*Summary)
		stall float64
		want  bool
		words string
	}{
		{"nothing failed", func(*Summary) {}, 500, false, ""},
		{"late on a busy machine", late, 12, true, "p99_during_ms is 13, expected at most 12 (worst_stall_ms 12: the machine was busy)"},
		{"late on a quiet machine", late, 11.9, false, "p99_during_ms is 13, expected at most 12 (worst_stall_ms 11.9)"},
		{"lost too", func(s *Summary) { late(s); s.Lost = 1 }, 500, false, "lost is 1"},
		{"never opened", func(s *Summary) { s.Consumers[slow].TimeToOpen = nil }, 500, false, "is null"},
	} {
		s := held("slow-consumer")
		s.WorstStall = tt.stall
		tt.spoil(&s)
		v := verdictOn(t, s)
		if got := v.onlySpeed(&s); got != tt.want || !strings.Contains(strings.Join(v.failed, "\n"), tt.words) {
			t.Errorf("%s: got %t with %q, want %t with %q", tt.name, got, v.failed, tt.want, tt.words)
		}
	}
}

// The last line of several policies holds each, with the library's figures and every fault by its policy.
func TestJoin(t *testing.T) {
	none, library := held("slow-consumer"), held("slow-consumer")
	none.Policy, none.Emitted, none.FailedExpectations = PolicyNone, 1, []string{"x"}
	library.FailedExpectations, library.OnlySpeedFailed = []string{"y"}, true
	for _, order := range [][]Summary{{none, library}, {library, none}} {
		all := Summary{Policies: map[string]*Summary{}, FailedExpectations: []string{}}
		for _, one := range order {
			all.join(one)
		}
		if all.Emitted != library.Emitted || all.Policy != "" || len(all.Policies) != 2 || all.OnlySpeedFailed {
			t.Errorf("got emitted %d, policy %q, %d policies, only_speed_failed %t", all.Emitted, all.Policy, len(all.Policies), all.OnlySpeedFailed)
		}
		if got := strings.Join(all.FailedExpectations, ","); !strings.Contains(got, "none: x") || !strings.Contains(got, "latency: y") {
			t.Errorf("failed_expectations: got %q", got)
		}
	}
}

// Every fault of the options at once, with flag, value and mend.
func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want []string
	}{
		{Options{Scenario: "slow-consumer", Policies: Policies()}, nil},
		{Options{Scenario: "crash", Dir: "/x", For: 2 * sec}, nil},
		{Options{Scenario: "slow-consumer", Rate: 5001, For: sec, Dir: "/x", Policies: []string{"none", "none", "fast"}}, []string{
			"--rate 5001: give 1 to 5000", "--for 1s: too short", `--dir "/x": scenario slow-consumer has no files`, `--policies "none": named twice`, `--policies "fast": not known`,
		}},
		{Options{Scenario: "crash", Policies: []string{"none", "latency"}}, []string{"--policies none,latency: scenario crash is about dead letters"}},
		{Options{Scenario: "x"}, []string{`--scenario "x": not known; take one of slow-consumer, partly-slow`}},
	} {
		err := tt.o.Check()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%+v: got %v", tt.o, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %q, want %q in it", err, want)
			}
		}
	}
}
