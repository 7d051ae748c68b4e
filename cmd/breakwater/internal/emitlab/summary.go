package emitlab

import "github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"

// Counts are what became of triggers: Emitted is the sum of Delivered, Stored, Shed and Refused (REQ-E14).
type Counts struct {
	Emitted   int `json:"emitted"`
	Delivered int `json:"delivered"` // live, and Replayed
	Stored    int `json:"stored"`    // still in the dead letters
	Replayed  int `json:"replayed"`
	Shed      int `json:"shed"` // at once, and evicted
	Refused   int `json:"refused"`
	// Lost were acknowledged, as delivered or stored and not evicted since, and are in the end neither at the consumer nor stored.
	Lost       int `json:"lost"`
	Duplicates int `json:"duplicates"` // takes by the consumer of what it had taken before
	// Diverted were stored at the emit; SlowEmits took more than 50 ms, from the fault's begin to its end.
	Diverted  int `json:"diverted"`
	SlowEmits int `json:"slow_emits"`
}

// add adds those of a consumer.
func (c *Counts) add(o Counts) {
	c.Emitted += o.Emitted
	c.Delivered += o.Delivered
	c.Stored += o.Stored
	c.Replayed += o.Replayed
	c.Shed += o.Shed
	c.Refused += o.Refused
	c.Lost += o.Lost
	c.Duplicates += o.Duplicates
	c.Diverted += o.Diverted
	c.SlowEmits += o.SlowEmits
}

// Percentiles are of how long emits took, in ms, by when they began; null where there were none.
type Percentiles struct {
	P50Before *float64 `json:"p50_before_ms"`
	P50During *float64 `json:"p50_during_ms"`
	P50After  *float64 `json:"p50_after_ms"`
	P95Before *float64 `json:"p95_before_ms"`
	P95During *float64 `json:"p95_during_ms"`
	P95After  *float64 `json:"p95_after_ms"`
	P99Before *float64 `json:"p99_before_ms"`
	P99During *float64 `json:"p99_during_ms"`
	P99After  *float64 `json:"p99_after_ms"`
	MaxDuring *float64 `json:"max_during_ms"`
}

// ConsumerSummary is one consumer in a Summary.
type ConsumerSummary struct {
	Counts
	Percentiles

	DivertedDuring int      `json:"diverted_during"`   // of Diverted, from the fault's begin to its end
	P99AfterOpen   *float64 `json:"p99_after_open_ms"` // from the first opening to the fault's end
	TimeToOpen     *float64 `json:"time_to_open_ms"`   // from the fault's begin
	OpenReason     string   `json:"open_reason"`       // the rule of that opening
	TimeToClose    *float64 `json:"time_to_close_ms"`  // from the fault's end
	FirstReturn    *float64 `json:"first_return_ms"`   // from the fault's begin to the end of the first live call that it met
	OpeningsBefore int      `json:"openings_before"`   // before the fault
	Transitions    int      `json:"transitions"`
	// OpenCalls are live calls made although the breaker was open from before their emit began.
	OpenCalls  int `json:"calls_while_open"`
	Calls      int `json:"calls"`        // that the consumer saw, probes and replays too
	OutOfOrder int `json:"out_of_order"` // triggers taken after a later one of their key
	UnknownIDs int `json:"unknown_ids"`  // taken, and never emitted
	Skipped    int `json:"skipped"`
}

// PrioritySummary is one priority in a Summary; only in scenarios that mix them.
type PrioritySummary struct {
	Emitted int `json:"emitted"`
	Shed    int `json:"shed"`
	Refused int `json:"refused"`
}

// Summary is the last line of a run. Times are in milliseconds; what was not measured is null.
type Summary struct {
	lab.Head
	Scenario string `json:"scenario"`
	Policy   string `json:"policy"` // "" in the last line of several
	Seed     uint64 `json:"seed"`
	Fleet    string `json:"fleet"` // always "none"
	Rate     int    `json:"rate"`  // triggers a second for each consumer
	// Outage is how long the fault lasted.
	Outage float64  `json:"outage_ms"`
	Ready  float64  `json:"ready_ms"` // from the process's start to the first emit's end
	Load   *float64 `json:"load_at_start"`
	Ran    float64  `json:"ran_ms"` // from the first emit to the end of the last

	Counts
	RefusedBy map[string]int `json:"refused_by"` // by why
	Percentiles

	TimeToOpen  *float64 `json:"time_to_open_ms"` // of the consumer that broke; the longest, if several did
	OpenReason  string   `json:"open_reason"`
	TimeToClose *float64 `json:"time_to_close_ms"`
	Transitions int      `json:"transitions"`
	Bulkhead    int      `json:"bulkhead"` // calls at once to a consumer

	// BalanceViolations counts looks, of BalanceChecks, at which the counts did not add up.
	BalanceViolations int `json:"balance_violations"`
	BalanceChecks     int `json:"balance_checks"`
	OwnFaults         int `json:"own_faults"`
	// Skipped were due and not sent, since too many emits were under way.
	Skipped int `json:"skipped"`
	// WorstStall is how late the lab itself sent a trigger, or a consumer ended a call, at the worst.
	WorstStall float64 `json:"worst_stall_ms"`

	ByPriority map[string]*PrioritySummary `json:"by_priority"`
	// PriorityViolations counts triggers that were shed while a less important letter was stored.
	PriorityViolations int `json:"priority_violations"`
	StoreBound         int `json:"store_bound"` // letters
	// What the process held while the outage lasted: the most in its second quarter, the least in its last.
	GoroutinesSecond int     `json:"goroutines_second_quarter"`
	GoroutinesLast   int     `json:"goroutines_last_quarter"`
	HeapSecond       float64 `json:"heap_live_second_quarter_mb"`
	HeapLast         float64 `json:"heap_live_last_quarter_mb"`

	Rounds       int `json:"rounds"`       // of scenario crash: lives of the router, each ended by kill -9
	Acknowledged int `json:"acknowledged"` // in them

	Consumers map[string]*ConsumerSummary `json:"consumers"`
	// Policies are the summaries of several policies, in their last line.
	Policies map[string]*Summary `json:"policies,omitempty"`

	FailedExpectations []string `json:"failed_expectations"`
	// OnlySpeedFailed says that nothing failed but figures of speed, on a machine that was busy.
	OnlySpeedFailed bool `json:"only_speed_failed"`
}
