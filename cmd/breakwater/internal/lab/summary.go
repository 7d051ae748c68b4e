package lab

import "github.com/breakwater-go/breakwater/readpath"

// PathSummary is of scenarios whose reads have classes; null or 0 elsewhere.
type PathSummary struct {
	ByClass       map[readpath.Class]*BySource `json:"by_class"`
	DegradedMS    float64                      `json:"degraded_ms"`
	Modes         []string                     `json:"modes"`            // in order, with the classes given back: "recovering critical"
	RecoveryGaps  []float64                    `json:"recovery_gaps_ms"` // from one class given back to the next, of the last recovery
	Resumed       []readpath.Class             `json:"resumed"`          // by each class's first answer of a replica in the last recovery
	Flagged       int                          `json:"flagged"`          // answers that said that they are stale or unverified
	CriticalStale int                          `json:"critical_stale"`   // critical answers flagged, or older than their bound
	// AgeViolations counts answers that were older than they said.
	AgeViolations            int      `json:"age_violations"`
	RefusedWithoutRetryAfter int      `json:"refused_without_retry_after"`
	FallbackReads            int      `json:"fallback_reads"`    // begun on the primary
	BudgetViolations         int      `json:"budget_violations"` // those that end an interval with more of them than burst + rate × t
	BudgetMost               *float64 `json:"budget_most"`       // the largest of those numbers less rate × t
	LoadersMax               int      `json:"loaders_max_per_key"`
	CrowdWait                float64  `json:"crowd_wait_max_ms"` // of 200 callers on one key
	PrimaryConnectionsBefore int      `json:"primary_connections_before_max"`
	InFlightMax              int      `json:"in_flight_max"` // statements at once on the last replica
	InFlightCap              int      `json:"in_flight_cap"`
	LastNodeTransitions      int      `json:"last_node_transitions"` // of its breaker
	// What the process held while the fault lasted: the most in its second quarter, the least in its last.
	GoroutinesSecond int     `json:"goroutines_second_quarter"`
	GoroutinesLast   int     `json:"goroutines_last_quarter"`
	HeapSecond       float64 `json:"heap_live_second_quarter_mb"`
	HeapLast         float64 `json:"heap_live_last_quarter_mb"`
	OwnReads         int     `json:"own_reads"`  // of rows just written, with their positions
	OwnMisses        int     `json:"own_misses"` // of them without the row
	OwnByReplica     int     `json:"own_by_replica"`
}

// Summary is the last line of a run. Times are in milliseconds; what was not
// measured is null, and fields of parts that do not exist yet are left out
// (docs/adr/0007-lab.md lists them).
type Summary struct {
	Head
	Scenario string  `json:"scenario"`
	Seed     uint64  `json:"seed"`
	Fleet    string  `json:"fleet"`
	Replicas int     `json:"replicas"`
	Rate     int     `json:"rate"`
	Ready    float64 `json:"ready_ms"`
	// Load is the machine's load average over a minute when the process started; null: not told.
	Load *float64 `json:"load_at_start"`
	Ran  float64  `json:"ran_ms"` // from the first read to the last

	Reads    int      `json:"reads"`
	BySource BySource `json:"by_source"`
	Errors   int      `json:"errors"`
	// FirstError is the text of the first read error.
	FirstError string `json:"first_error,omitempty"`
	// Skipped counts reads that were due but not sent, because too many were in flight.
	Skipped int `json:"skipped"`
	// WorstStall is how late the lab itself sent a read at the worst: what the machine adds to every figure.
	WorstStall float64 `json:"worst_stall_ms"`
	Commits    int     `json:"commits"`
	// CommitsAsync were made with synchronous_commit=off. WriterIdle is how long the writer idled.
	CommitsAsync int     `json:"commits_async"`
	WriterIdle   float64 `json:"writer_idle_ms"`
	WriterErrors int     `json:"writer_errors"`

	StaleUnflagged   int      `json:"stale_unflagged"`
	MaxStaleness     float64  `json:"max_staleness_unflagged_ms"`
	LateReplicaReads int      `json:"late_replica_reads"`
	OpenReplicaReads int      `json:"open_replica_reads"` // sent to a replica whose breaker was open or half-open
	BoundViolations  int      `json:"bound_violations"`
	BoundSamples     int      `json:"bound_samples"`
	BoundWorst       *float64 `json:"bound_worst_ms"` // the largest true staleness less Hi; negative: Hi held

	PrimaryReadsMax       int `json:"primary_reads_max_per_s"`
	PrimaryConnectionsMax int `json:"primary_connections_max"`

	Faults           int       `json:"faults"`
	SegmentSwitches  int       `json:"segment_switches"`
	TimeToOpen       *float64  `json:"time_to_open_ms"`
	OpenReason       string    `json:"open_reason"` // the rule of the first opening
	TimeToClose      *float64  `json:"time_to_close_ms"`
	ProbesToClose    *int      `json:"probes_to_close"`  // by the library, after the fault ended
	RampShareFirst   *float64  `json:"ramp_share_first"` // of the reads, in the first 2 s after the close
	RampShareLast    *float64  `json:"ramp_share_last"`  // the same, in the last 2 s of the run
	Transitions      int       `json:"transitions"`
	ClosedToOpen     int       `json:"closed_to_open"`
	OpenPeriods      []float64 `json:"open_periods_ms"` // of the openings in order, before jitter
	MaxWait          float64   `json:"max_wait_ms"`
	Waited           int       `json:"waited"`             // reads that took 250 ms or more for a node: tried on a second one, or on the one that was hit
	InFlightAtFault  int       `json:"in_flight_at_fault"` // on the node that was hit
	FailureThreshold int       `json:"failure_threshold"`
	DialsAfterOpen   int       `json:"request_dials_after_open"`

	Refused     int      `json:"refused"`
	RefusalP999 *float64 `json:"refusal_p999_ms"`

	PathSummary

	P50Before *float64 `json:"p50_before_ms"`
	P50During *float64 `json:"p50_during_ms"`
	P50After  *float64 `json:"p50_after_ms"`
	P95Before *float64 `json:"p95_before_ms"`
	P95During *float64 `json:"p95_during_ms"`
	P95After  *float64 `json:"p95_after_ms"`
	P99Before *float64 `json:"p99_before_ms"`
	P99During *float64 `json:"p99_during_ms"`
	P99After  *float64 `json:"p99_after_ms"`

	WriterP50Before *float64 `json:"writer_p50_before_ms"`
	WriterP50During *float64 `json:"writer_p50_during_ms"`

	CallTimeout float64 `json:"call_timeout_ms"`

	FailedExpectations []string `json:"failed_expectations"`
	// OnlySpeedFailed says that nothing failed but figures of speed, on a machine that was busy.
	OnlySpeedFailed bool `json:"only_speed_failed"`
}
