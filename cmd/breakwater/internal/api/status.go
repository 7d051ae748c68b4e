package api

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// The kinds of breakers: what they guard. They are the label "scope" of the metrics, and Breaker.Scope.
const (
	ScopeReplica  = "replica"
	ScopeConsumer = "consumer"
)

// Parts is what the process runs: any of them may be nil. The Router of emits is replaced when its priorities or
// its dead letters change.
type Parts struct {
	Set    *replica.Set
	Path   *readpath.Router
	Router *emit.Router
}

// Status is everything at one moment, as GET /api/v1/status and each event "status" of the stream show it. Durations are in
// milliseconds, in fields that end in _ms. It holds no DSN, no payload and no key.
type Status struct {
	At         time.Time  `json:"at"`
	Mode       string     `json:"mode"` // "serve" or "lab"
	Version    string     `json:"version"`
	Started    time.Time  `json:"started"`
	ConfigHash string     `json:"config_hash"` // of the settings in force; "" in the lab
	Fleet      string     `json:"fleet"`       // "postgres 15.18", "simulated", or "" where there are no nodes
	Simulated  bool       `json:"simulated"`
	Primary    *Primary   `json:"primary"`   // null: no nodes
	Replicas   []Replica  `json:"replicas"`  // in the order of the configuration
	ReadPath   *ReadPath  `json:"read_path"` // null: no degraded mode
	Consumers  []Consumer `json:"consumers"`
	// Absent is what is stored of consumers that are in the configuration no more: nobody delivers it.
	Absent   map[string]Depth `json:"absent,omitempty"`
	Settings *Settings        `json:"settings"` // of the replica set; null: no nodes
	Reload   *Reload          `json:"reload"`   // null in the lab
	Stream   Stream           `json:"stream"`
	Traffic  *Traffic         `json:"traffic,omitempty"` // of the lab's own load
	Lab      *LabStatus       `json:"lab,omitempty"`
}

// Breaker is one state machine (REQ-O7).
type Breaker struct {
	Name       string        `json:"name"`
	Scope      string        `json:"scope"`
	State      breaker.State `json:"state"`
	Since      time.Time     `json:"since"`
	InStateMS  float64       `json:"in_state_ms"`
	Generation uint64        `json:"generation"`
	Reason     Reason        `json:"reason"` // of the newest transition
	// LastTrip is why it opened last, kept after it has closed; null: it never has.
	LastTrip *Trip `json:"last_trip"`
	// OpenPeriodMS is the newest period before jitter, RetryAfterMS what is left of it ("sleep left").
	OpenPeriodMS float64 `json:"open_period_ms"`
	RetryAfterMS float64 `json:"retry_after_ms"`

	ProbesInFlight int `json:"probes_in_flight"`
	ProbeSuccesses int `json:"probe_successes"`
	ProbesOf       int `json:"probes_of"` // how many probes a verdict takes
	// Failures in a row against the threshold; 0 of 0 where no rule counts them.
	ConsecutiveFailures uint64 `json:"consecutive_failures"`
	ConsecutiveLimit    int    `json:"consecutive_limit"`
	// Breaches in a row of a signal, lag for a replica, against how many open; 0 of 0 where no signal can.
	Breaches    int `json:"breaches"`
	BreachLimit int `json:"breach_limit"`

	Successes uint64 `json:"successes"`
	Failures  uint64 `json:"failures"`
	Ignored   uint64 `json:"ignored"`
	Late      uint64 `json:"late"`
	Rejected  uint64 `json:"rejected"`
	Openings  uint64 `json:"openings"`
	WouldOpen uint64 `json:"would_open"`
	Faults    uint64 `json:"faults"`

	RefusingMS float64  `json:"refusing_ms"` // in all: open, half-open or forced open
	Flapping   bool     `json:"flapping"`    // REQ-O9
	RampShare  float64  `json:"ramp_share"`
	Latency    *Latency `json:"latency"` // null: not measured, or no call in the last Span
}

// Reason is why a state changed.
type Reason struct {
	Rule      string  `json:"rule"`
	Value     *Number `json:"value,omitempty"`
	Threshold *Number `json:"threshold,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	Text      string  `json:"text"` // for people: "lag 0.83 s > 0.5 s (3 in a row)"
}

// Trip is an opening.
type Trip struct {
	At     time.Time `json:"at"`
	Reason Reason    `json:"reason"`
}

// Latency is how long the calls of the last Span took.
type Latency struct {
	SpanMS float64 `json:"span_ms"`
	Calls  uint64  `json:"calls"`
	P50MS  float64 `json:"p50_ms"`
	P95MS  float64 `json:"p95_ms"`
	P99MS  float64 `json:"p99_ms"`
}

// Primary is what its samples tell.
type Primary struct {
	Name      string            `json:"name"`
	Condition replica.Condition `json:"condition"`
	Detail    string            `json:"detail,omitempty"`
	LastRun   *time.Time        `json:"last_run"` // null: never sampled
	InFlight  int               `json:"in_flight"`
}

// Replica is a node that reads go to.
type Replica struct {
	Primary
	LoMS         *float64 `json:"lag_lo_ms"` // null: unknown
	HiMS         *float64 `json:"lag_hi_ms"` // null: not bounded
	Reads        uint64   `json:"reads"`
	Share        float64  `json:"share"` // of its full share of traffic
	TakesReads   bool     `json:"takes_reads"`
	ReceiverDown bool     `json:"receiver_down"`
	ReplayPaused bool     `json:"replay_paused"`
	InDoubt      bool     `json:"in_doubt"`
	Breaker      Breaker  `json:"breaker"`
}

// Settings are those of the replica set in force, under the names of the configuration file. An infinite one is null.
type Settings struct {
	TripMS         *float64 `json:"trip_ms"`
	ReenterMS      float64  `json:"reenter_ms"`
	Breaches       int      `json:"breaches"`
	MaxStalenessMS *float64 `json:"max_staleness_ms"`
	CalmMS         float64  `json:"calm_ms"`
	FastMS         float64  `json:"fast_ms"`
	GraceMS        float64  `json:"grace_ms"`
	RampMS         float64  `json:"ramp_ms"`
	Failures       int      `json:"failures"`
	OpenBaseMS     float64  `json:"open_base_ms"`
	OpenMaxMS      float64  `json:"open_max_ms"`
}

// ReadPath is the degraded mode's machine.
type ReadPath struct {
	Mode          readpath.Mode                                 `json:"mode"`
	Degraded      bool                                          `json:"degraded"`
	Since         *time.Time                                    `json:"since"` // of the mode; null: since the start
	Withheld      []readpath.Class                              `json:"withheld"`
	DegradedForMS float64                                       `json:"degraded_for_ms"` // in all (REQ-D11)
	BudgetTokens  float64                                       `json:"budget_tokens"`
	RatePerSec    float64                                       `json:"rate_per_sec"` // as configured; this process has an n-th of it, and of Burst
	Burst         int                                           `json:"burst"`
	Processes     int                                           `json:"processes"` // the n
	InFallback    int                                           `json:"in_fallback"`
	Reads         map[readpath.Class]map[readpath.Source]uint64 `json:"reads"`
	Refused       map[readpath.Class]uint64                     `json:"refused"`
	Late          uint64                                        `json:"late_replica_reads"`
	Unknown       uint64                                        `json:"unknown_endpoints"`
	OverBudget    map[string]OverBudget                         `json:"over_budget,omitempty"` // critical endpoints that the budget will refuse (REQ-D13)
	Served        map[readpath.Class]string                     `json:"served"`                // in words: what a class gets now
}

// OverBudget is a critical endpoint whose rate is over the budget.
type OverBudget struct {
	RatePerSec   float64   `json:"rate_per_sec"`
	BudgetPerSec float64   `json:"budget_per_sec"`
	At           time.Time `json:"at"` // it is told every 10 s while it holds
}

// Consumer is a lane.
type Consumer struct {
	Name      string                 `json:"name"`
	Emitted   uint64                 `json:"emitted"` // = delivered + stored + shed + refused (REQ-E14)
	Delivered uint64                 `json:"delivered"`
	Stored    uint64                 `json:"stored"`
	Shed      uint64                 `json:"shed"`
	Refused   uint64                 `json:"refused"`
	Degraded  uint64                 `json:"degraded"`
	Replayed  uint64                 `json:"replayed"`
	Evicted   uint64                 `json:"evicted"`
	Discarded uint64                 `json:"discarded"`
	Reasons   map[emit.Reason]uint64 `json:"reasons"`
	InFlight  int                    `json:"in_flight"`
	Breaker   Breaker                `json:"breaker"`
	Depth     Depth                  `json:"depth"`
	// The settings in force, under the names of the configuration file.
	TimeoutMS float64 `json:"timeout_ms"`
	SlowMS    float64 `json:"slow_ms"`
	Bulkhead  int     `json:"bulkhead"`
}

// Depth is what a consumer's dead letters hold.
type Depth struct {
	Letters     int            `json:"letters"`
	Parked      int            `json:"parked"`
	Bytes       int64          `json:"bytes"`
	ByPriority  map[string]int `json:"by_priority"`
	OldestAgeMS *float64       `json:"oldest_age_ms"` // null: there are none
	Durability  string         `json:"durability"`    // "in_memory", "written" or "synced"
}

// Reload is how the newest reading of the configuration file ended.
type Reload struct {
	At       time.Time `json:"at"`
	OK       bool      `json:"ok"`
	Reloads  uint64    `json:"reloads"`  // that were taken, the start not counted
	Failures uint64    `json:"failures"` // that were not: the settings before stay in force
	Error    string    `json:"error,omitempty"`
	// NeedsRestart are the keys whose new values wait for a restart.
	NeedsRestart []string `json:"needs_restart,omitempty"`
}

// Stream is how the stream of events fares.
type Stream struct {
	Last    uint64 `json:"last"` // ID of the newest event; 0: none yet
	Boot    string `json:"boot"` // IDs of the stream are BOOT-ID
	Clients int    `json:"clients"`
	CutOff  uint64 `json:"cut_off"` // clients that did not read
}

// Traffic is what a load of the process's own saw in the last second: the lab's.
type Traffic struct {
	ReadsPerSec   float64            `json:"reads_per_sec"`
	BySource      map[string]float64 `json:"by_source"` // replica, primary, cache, default, shed, failed
	P50MS         float64            `json:"p50_ms"`
	P95MS         float64            `json:"p95_ms"`
	P99MS         float64            `json:"p99_ms"`
	StalePerSec   float64            `json:"stale_per_sec"` // answers older than their limit and not flagged so
	EmitsPerSec   float64            `json:"emits_per_sec"`
	EmitP99MS     float64            `json:"emit_p99_ms"`
	EmitDelivered float64            `json:"emit_delivered_per_sec"`
}
