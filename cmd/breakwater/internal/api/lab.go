package api

import (
	"context"
	"time"
)

// Lab is what only the lab can do. Its errors are shown to whoever asked.
type Lab interface {
	// Status is how the lab stands, from memory.
	Status() LabStatus
	// Inject breaks something (POST /api/v1/faults).
	Inject(ctx context.Context, f FaultRequest) error
	// Heal mends everything (DELETE /api/v1/faults).
	Heal(ctx context.Context) error
	// Play begins a guided scenario with what the person predicted (POST /api/v1/scenarios); Stop ends it (DELETE).
	Play(ctx context.Context, name, prediction string) error
	Stop(ctx context.Context) error
	// Load changes the traffic (PATCH /api/v1/load): fields that are nil stay.
	Load(l LoadRequest) error
}

// FaultRequest says what to break, and for how long.
type FaultRequest struct {
	Target   string        `json:"target"` // a node or a consumer
	Fault    string        `json:"fault"`  // one of LabTarget.Faults
	Duration time.Duration `json:"-"`      // "duration_s"; 0: until it is mended
	// Amount is the lag in ms of fault "lag", the P99 in ms of "slow".
	Amount float64 `json:"amount_ms"`
}

// LoadRequest changes the traffic.
type LoadRequest struct {
	ReadsPerSec  *int     `json:"reads_per_sec"`
	EmitsPerSec  *int     `json:"emits_per_sec"`
	WritesPerSec *int     `json:"writes_per_sec"`
	Unprotected  *bool    `json:"unprotected"` // the same load without the library, beside
	OwnWrites    *float64 `json:"own_writes"`  // share of reads that ask for the newest write
}

// LabStatus is how the lab stands.
type LabStatus struct {
	Targets   []LabTarget   `json:"targets"`
	Faults    []LabFault    `json:"faults"` // that are in force
	Scenarios []LabScenario `json:"scenarios"`
	Running   *LabRun       `json:"running"` // null: none; the newest one stays after its end
	Load      LabLoad       `json:"load"`
	// Unprotected is what the same load without the library saw in the last second; null: it does not run.
	Unprotected *Traffic `json:"unprotected"`
}

// TargetPrimary is the scope of a target that has no breaker.
const TargetPrimary = "primary"

// LabTarget is what can be broken, and how.
type LabTarget struct {
	Name  string `json:"name"`
	Scope string `json:"scope"` // ScopeReplica, ScopeConsumer or TargetPrimary
	// Faults are pause, lag, cut, blackhole, freeze, kill of a replica; freeze, restart of the primary; slow, partly_slow, hang, fail of
	// a consumer; those of them that the fleet can.
	Faults []string `json:"faults"`
}

// LabFault is a fault in force.
type LabFault struct {
	Target   string     `json:"target"`
	Fault    string     `json:"fault"`
	Since    time.Time  `json:"since"`
	Until    *time.Time `json:"until"` // null: until it is mended
	AmountMS float64    `json:"amount_ms,omitempty"`
}

// LabScenario is a guided one.
type LabScenario struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Does    string `json:"does"`    // what is done, and nothing of its outcome: shown before it runs
	Shows   string `json:"shows"`   // what it teaches: shown after its end
	Seconds int    `json:"seconds"` // about
	// Question is what the page asks before it runs: what will the next request meet? One of Answers.
	Question string   `json:"question"`
	Answers  []string `json:"answers"`
}

// LabRun is a scenario under way, or the newest that ended.
type LabRun struct {
	Name       string     `json:"name"`
	Started    time.Time  `json:"started"`
	Step       string     `json:"step"`  // in words: what happens now
	State      string     `json:"state"` // "running", "passed", "failed" or "stopped"
	Prediction string     `json:"prediction,omitempty"`
	Answer     string     `json:"answer,omitempty"` // what the request met, once it is known
	Results    []LabCheck `json:"results"`
	// Beside is what the same load without the library met, in words; "": it did not run.
	Beside string `json:"beside,omitempty"`
}

// LabCheck is one expectation of a scenario.
type LabCheck struct {
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	Held     bool   `json:"held"`
}

// LabLoad is the traffic that is asked for.
type LabLoad struct {
	ReadsPerSec  int     `json:"reads_per_sec"`
	EmitsPerSec  int     `json:"emits_per_sec"`
	WritesPerSec int     `json:"writes_per_sec"`
	Unprotected  bool    `json:"unprotected"`
	OwnWrites    float64 `json:"own_writes"`
}
