package eventlog

import (
	"log/slog"
	"math"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// line is the record of an event.
func line(e *api.Event) slog.Record {
	r := slog.NewRecord(e.At, levelOfEvent(e), message(e), 0)
	r.AddAttrs(slog.Uint64("id", e.ID), slog.String("event", e.Kind))
	addTexts(&r, "scope", e.Scope, "name", e.Name, "from", e.From, "to", e.To)
	if e.Reason != nil {
		addReason(&r, e.Reason)
	}
	if e.Generation != 0 {
		r.AddAttrs(slog.Uint64("generation", e.Generation))
	}
	if e.Count != 0 {
		r.AddAttrs(slog.Uint64("count", e.Count))
	}
	addTexts(&r, "fault", e.Fault, "text", e.Text, "error", e.Error)
	return r
}

// missedLine is the record of events that were dropped before next.
func missedLine(next *api.Event, missed uint64) slog.Record {
	r := slog.NewRecord(next.At, slog.LevelWarn, "events were dropped before they could be logged", 0)
	r.AddAttrs(slog.Uint64("before", next.ID), slog.Uint64("missed", missed))
	return r
}

// addTexts adds those that are not empty.
func addTexts(r *slog.Record, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			r.AddAttrs(slog.String(pairs[i], pairs[i+1]))
		}
	}
}

// addReason adds what was measured, against which threshold (REQ-B14).
func addReason(r *slog.Record, reason *api.Reason) {
	addTexts(r, "rule", reason.Rule)
	addNumber(r, "value", reason.Value)
	addNumber(r, "threshold", reason.Threshold)
	addTexts(r, "unit", reason.Unit, "reason", reason.Text)
}

// addNumber adds a number; an infinite one is the word of it, as in the events, since JSON has none.
func addNumber(r *slog.Record, key string, n *api.Number) {
	if n == nil {
		return
	}
	switch f := float64(*n); {
	case math.IsNaN(f):
	case math.IsInf(f, 1):
		r.AddAttrs(slog.String(key, "Infinity"))
	case math.IsInf(f, -1):
		r.AddAttrs(slog.String(key, "-Infinity"))
	default:
		r.AddAttrs(slog.Float64(key, f))
	}
}

// levelOfEvent is by what it asks of whoever reads it: an ERROR is a fault of this process, a WARN that something is not as it should be.
func levelOfEvent(e *api.Event) slog.Level {
	switch e.Kind {
	case api.KindFault:
		return slog.LevelError
	case api.KindReload:
		if e.Error != "" {
			return slog.LevelError
		}
	case api.KindTransition:
		failedAgain := e.From == breaker.HalfOpen.String() && e.To == breaker.Open.String() // its opening was the warning
		return warnUnless(failedAgain || e.To == breaker.Closed.String() || e.To == breaker.HalfOpen.String())
	case api.KindCondition:
		return warnUnless(e.To == replica.Fit.String())
	case api.KindMode:
		return warnUnless(e.To != readpath.Degraded.String())
	case api.KindScenario:
		return warnUnless(e.To != "failed")
	case api.KindWouldOpen, api.KindOverBudget, api.KindShed, api.KindParked:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

func warnUnless(well bool) slog.Level {
	if well {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// message says in words what happened.
func message(e *api.Event) string {
	switch e.Kind {
	case api.KindTransition:
		return transitionMessage(e.To)
	case api.KindMode:
		return "read path is " + e.To
	case api.KindReload:
		if e.Error != "" {
			return "configuration was not taken, the one before stays in force"
		}
	}
	if m, ok := messages[e.Kind]; ok {
		return m
	}
	return e.Kind
}

var messages = map[string]string{
	api.KindWouldOpen:  "a rule on trial would have opened the breaker",
	api.KindCondition:  "condition of a node changed",
	api.KindOverBudget: "a critical endpoint is over the budget",
	api.KindShed:       "triggers were shed",
	api.KindParked:     "dead letters were parked",
	api.KindReload:     "configuration was taken",
	api.KindAction:     "an operator acted",
	api.KindFault:      "a part of this process failed",
	api.KindInjected:   "the lab acted",
	api.KindScenario:   "scenario",
	api.KindStop:       "stopping",
}

func transitionMessage(to string) string {
	switch to {
	case breaker.Open.String():
		return "breaker opened"
	case breaker.HalfOpen.String():
		return "breaker probes"
	case breaker.Closed.String():
		return "breaker closed"
	}
	return "breaker is " + to
}
