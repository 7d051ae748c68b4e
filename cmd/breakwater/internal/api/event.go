package api

import (
	"math"
	"strconv"
	"time"
)

// The kinds of events.
const (
	KindTransition = "transition" // a breaker changed its state: From, To, Reason
	KindWouldOpen  = "would_open" // a rule on trial would have opened a breaker: Reason
	KindCondition  = "condition"  // what the samples of a node tell changed: From, To, Text
	KindMode       = "mode"       // the read path's mode changed: From, To, Text
	KindOverBudget = "over_budget"
	KindShed       = "shed"     // a trigger was shed, or a letter evicted: Name is the consumer; told at most once a second each, with Count
	KindParked     = "parked"   // a letter was parked; as above
	KindReload     = "reload"   // the configuration file was read again: Text, Error
	KindAction     = "action"   // an operator did something: Text, with the reason that was given
	KindFault      = "fault"    // a part of the process failed: Text
	KindInjected   = "injected" // the lab broke or mended something: Name, To is "begin" or "end", Fault
	KindScenario   = "scenario" // a guided scenario: Name, To is "begin", "step", "passed" or "failed"
	KindStop       = "stop"     // the process ends
)

// Event is one thing that happened. Fields that do not concern its kind are left out.
type Event struct {
	ID         uint64    `json:"id"` // 1 is the first of the process; set by the Hub
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"`
	Scope      string    `json:"scope,omitempty"` // of a breaker
	Name       string    `json:"name,omitempty"`
	From       string    `json:"from,omitempty"`
	To         string    `json:"to,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Reason     *Reason   `json:"reason,omitempty"`
	Fault      string    `json:"fault,omitempty"`
	Count      uint64    `json:"count,omitempty"` // of what happened alike since it was told last
	Text       string    `json:"text,omitempty"`  // for people
	Error      string    `json:"error,omitempty"`
}

// Number is a measured value. JSON knows no infinity: it is the text "Infinity" there.
type Number float64

// MarshalJSON writes the number, or the word of an infinite one.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	switch {
	case math.IsNaN(f):
		return []byte("null"), nil
	case math.IsInf(f, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Infinity"`), nil
	}
	return strconv.AppendFloat(nil, f, 'g', 6, 64), nil
}
