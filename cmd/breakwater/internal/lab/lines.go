package lab

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// Line is one event of a run: with --json each is one object on a line of its own.
// Every line carries t_ms, since the process's start, and kind.
type Line interface{ kind() string }

// Head is what every line begins with.
type Head struct {
	T    int64  `json:"t_ms"`
	Kind string `json:"kind"`
}

func (h Head) kind() string { return h.Kind }

// WriterLine tells that the writer changed how it commits.
type WriterLine struct {
	Head
	Mode string `json:"mode"` // sync, async (synchronous_commit=off) or idle
}

// FaultLine tells that a fault began or ended, or happened.
type FaultLine struct {
	Head
	Fault string `json:"fault"`
	Node  string `json:"node,omitempty"`
	Phase string `json:"phase,omitempty"` // begin or end
	Error string `json:"error,omitempty"`
}

// TransitionLine is a breaker's change of state.
type TransitionLine struct {
	Head
	Node         string        `json:"node"`
	From         breaker.State `json:"from"`
	To           breaker.State `json:"to"`
	Rule         string        `json:"rule"`
	Value        *float64      `json:"value"` // null: not finite
	Threshold    float64       `json:"threshold"`
	Unit         string        `json:"unit"`
	Reason       string        `json:"reason"` // the same in words
	OpenPeriodMS *float64      `json:"open_period_ms"`
}

// ConditionLine tells that what a node's samples say about it has changed.
type ConditionLine struct {
	Head
	Node   string            `json:"node"`
	From   replica.Condition `json:"from"`
	To     replica.Condition `json:"to"`
	Detail string            `json:"detail,omitempty"`
}

// ErrorLine is a fault of Breakwater's own parts.
type ErrorLine struct {
	Head
	Node  string `json:"node"`
	Error string `json:"error"`
}

// BySource counts answers by where they came from.
type BySource struct {
	Replica int `json:"replica"`
	Primary int `json:"primary"`
	Cache   int `json:"cache"`
	Default int `json:"default"`
	Shed    int `json:"shed"`
	Failed  int `json:"failed"`
}

// count counts one read. Shed and Failed are those without an answer.
func (b *BySource) count(a *answer) {
	switch {
	case a.shed:
		b.Shed++
	case a.err != nil:
		b.Failed++
	case a.source == readpath.FromPrimary:
		b.Primary++
	case a.source == readpath.FromCache:
		b.Cache++
	case a.source == readpath.FromDefault:
		b.Default++
	default:
		b.Replica++
	}
}

// ModeLine is a step of the read path's mode.
type ModeLine struct {
	Head
	From     readpath.Mode    `json:"from"`
	To       readpath.Mode    `json:"to"`
	Given    []readpath.Class `json:"given"` // classes that the replicas serve
	Degraded int              `json:"read_path_degraded"`
}

// SecondLine is what happened in one second, and how the nodes stand at its end.
type SecondLine struct {
	Head
	Reads              int                   `json:"reads"`
	Commits            int                   `json:"commits"`
	BySource           BySource              `json:"by_source"`
	Errors             int                   `json:"errors"`
	P50                *float64              `json:"p50_ms"`
	P99                *float64              `json:"p99_ms"`
	PrimaryReads       int                   `json:"primary_reads"`
	PrimaryConnections int                   `json:"primary_connections"`
	Nodes              map[string]SecondNode `json:"nodes"`
	FirstError         string                `json:"first_error,omitempty"`
	// Path is how the read path stands; only in scenarios whose reads have classes.
	Path *SecondPath `json:"path,omitempty"`
}

// SecondPath is the read path in a SecondLine.
type SecondPath struct {
	Mode         readpath.Mode                `json:"mode"`
	Degraded     int                          `json:"read_path_degraded"` // 1 while a class is withheld
	Withheld     []readpath.Class             `json:"withheld"`           // classes that the replicas do not serve
	BudgetTokens float64                      `json:"budget_tokens"`
	InFallback   int                          `json:"in_fallback"` // reads that run on the primary
	ByClass      map[readpath.Class]*BySource `json:"by_class"`
}

// SecondNode is a node in a SecondLine.
type SecondNode struct {
	Lo        *float64          `json:"lag_lo_ms"`
	Hi        *float64          `json:"lag_hi_ms"` // null: not bounded
	State     breaker.State     `json:"state"`
	Reads     int               `json:"reads"`
	InFlight  int               `json:"in_flight"`
	Share     float64           `json:"share"`
	Condition replica.Condition `json:"condition"`
}

// Bound is a staleness bound in ms, null if there is none.
func Bound(d time.Duration) *float64 {
	if d == replica.Never {
		return nil
	}
	return new(ms(d))
}
