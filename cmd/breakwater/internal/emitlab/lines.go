package emitlab

import (
	"math"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// PolicyLine tells that a policy's run begins; only where there are several.
type PolicyLine struct {
	lab.Head
	Policy string `json:"policy"`
}

// FaultLine tells that a fault began or ended.
type FaultLine struct {
	lab.Head
	Fault    string `json:"fault"`
	Consumer string `json:"consumer"`
	Phase    string `json:"phase"` // begin or end
}

// TransitionLine is a change of state of a consumer's breaker.
type TransitionLine struct {
	lab.Head
	Consumer     string        `json:"consumer"`
	From         breaker.State `json:"from"`
	To           breaker.State `json:"to"`
	Rule         string        `json:"rule"`
	Value        *float64      `json:"value"` // null: not finite
	Threshold    float64       `json:"threshold"`
	Unit         string        `json:"unit"`
	Reason       string        `json:"reason"` // the same in words
	OpenPeriodMS *float64      `json:"open_period_ms"`
}

// ErrorLine is a fault of Breakwater's own parts.
type ErrorLine struct {
	lab.Head
	Consumer string `json:"consumer"`
	Error    string `json:"error"`
}

// RoundLine is one life of the router in scenario crash, after it was killed.
type RoundLine struct {
	lab.Head
	Round        int     `json:"round"`
	Fault        string  `json:"fault"` // of consumer slow: slow, failing, or none
	LivedMS      float64 `json:"lived_ms"`
	Acknowledged int     `json:"acknowledged"` // until it was killed
	Replayed     int     `json:"replayed"`
	Stored       int     `json:"stored"` // of Acknowledged
}

// SecondLine is what happened in one second, and how the consumers stand at its end.
type SecondLine struct {
	lab.Head
	Emitted   int                       `json:"emitted"`
	Consumers map[string]SecondConsumer `json:"consumers"`
}

// SecondConsumer is a consumer in a SecondLine. Counts are of emits that ended, by what they answered.
type SecondConsumer struct {
	Emitted   int           `json:"emitted"`
	Delivered int           `json:"delivered"`
	Stored    int           `json:"stored"`
	Shed      int           `json:"shed"`
	Refused   int           `json:"refused"`
	Replayed  int           `json:"replayed"` // letters delivered
	P50       *float64      `json:"p50_ms"`
	P99       *float64      `json:"p99_ms"`
	State     breaker.State `json:"state"` // closed where there is no breaker
	InFlight  int           `json:"in_flight"`
	Letters   int           `json:"letters"`
}

// Live is how things stand, for a person who watches.
type Live struct {
	Policy string
	Second SecondLine // the last whole one
}

func (r *run) head(kind string) lab.Head { return lab.Head{T: r.now().Milliseconds(), Kind: kind} }

func (r *run) faultLine(fault, consumer, phase string) FaultLine {
	return FaultLine{r.head("fault"), fault, consumer, phase}
}

func (r *run) transitionLine(t breaker.Transition) TransitionLine {
	return LineOf(t, r.opts.Started)
}

// LineOf is a transition of a consumer's breaker as a line, in a process that started then.
func LineOf(t breaker.Transition, started time.Time) TransitionLine {
	l := TransitionLine{
		Head: lab.Head{T: t.At.Sub(started).Milliseconds(), Kind: "transition"}, Consumer: t.Name, From: t.From, To: t.To,
		Rule: t.Reason.Rule, Value: finite(t.Reason.Value), Threshold: t.Reason.Threshold, Unit: t.Reason.Unit, Reason: t.Reason.String(),
	}
	if t.To == breaker.Open {
		l.OpenPeriodMS = new(ms(t.OpenPeriod))
	}
	return l
}

// finite is a value for JSON, which knows no infinity.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}
