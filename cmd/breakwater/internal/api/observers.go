package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// Replicas is the Observer that tells the Hub of a replica.Set.
func (h *Hub) Replicas() replica.Observer {
	return replica.Observer{
		OnTransition: func(t breaker.Transition) { h.transition(ScopeReplica, t) },
		OnCondition: func(c replica.ConditionChange) {
			h.Publish(Event{Kind: KindCondition, At: c.At, Scope: ScopeReplica, Name: c.Node, From: c.From.String(), To: c.To.String(), Text: c.Detail})
		},
		OnFault: func(f breaker.Fault) { h.breakerFault(ScopeReplica, f) },
	}
}

// Path is the Observer that tells the Hub of a readpath.Router.
func (h *Hub) Path() readpath.Observer {
	return readpath.Observer{
		OnMode:       h.mode,
		OnOverBudget: h.overBudget,
		OnFault: func(f readpath.Fault) {
			h.Fault("read path: "+f.Part, fmt.Errorf("it panicked: %v", f.Panic))
		},
	}
}

// Consumers is the Observer that tells the Hub of an emit.Router. What is shed and parked is told at most once a second for each consumer (REQ-E4).
func (h *Hub) Consumers() emit.Observer {
	return emit.Observer{
		OnTransition: func(t breaker.Transition) { h.transition(ScopeConsumer, t) },
		OnShed: func(l emit.Letter, why error) {
			h.fold("", Event{Kind: KindShed, Scope: ScopeConsumer, Name: l.Consumer, Text: "shed", Error: why.Error()})
		},
		OnParked: func(l emit.Letter) {
			h.fold("", Event{Kind: KindParked, Scope: ScopeConsumer, Name: l.Consumer, Text: "parked: " + string(l.Reason)})
		},
		OnFault: func(consumer string, err error) {
			h.fold("", Event{Kind: KindFault, Scope: ScopeConsumer, Name: consumer, Text: "emit", Error: err.Error()})
		},
	}
}

// WouldOpen tells the Hub of a rule on trial: a function for breaker.Observer.OnWouldOpen.
func (h *Hub) WouldOpen(scope string) func(breaker.WouldOpen) {
	return func(w breaker.WouldOpen) {
		r := h.reason(w.Reason)
		h.Publish(Event{Kind: KindWouldOpen, At: w.At, Scope: scope, Name: w.Name, Reason: &r})
	}
}

// Fault tells the Hub that a part of the process failed; of those of one part one a second, with their count.
func (h *Hub) Fault(part string, err error) {
	h.fold(part, Event{Kind: KindFault, Text: part, Error: err.Error()})
}

// transition is never folded: none is missing from the stream (REQ-B14). The breaker tells its own in order.
func (h *Hub) transition(scope string, t breaker.Transition) {
	r := h.reason(t.Reason)
	h.Publish(Event{
		Kind: KindTransition, At: t.At, Scope: scope, Name: t.Name, From: t.From.String(), To: t.To.String(), Generation: t.Generation, Reason: &r,
	})
}

func (h *Hub) breakerFault(scope string, f breaker.Fault) {
	said := f.Detail
	if f.Panic != nil {
		said = strings.TrimPrefix(fmt.Sprintf("%s: it panicked: %v", said, f.Panic), ": ")
	}
	h.fold(f.Part, Event{Kind: KindFault, At: f.At, Scope: scope, Name: f.Name, Text: f.Part, Error: said})
}

func (h *Hub) mode(c readpath.ModeChange) {
	given := make([]string, len(c.Given))
	for i, class := range c.Given {
		given[i] = class.String()
	}
	text := "no class has the replicas"
	if len(given) > 0 {
		text = "the replicas serve " + strings.Join(given, ", ")
	}
	h.Publish(Event{Kind: KindMode, At: c.At, From: c.From.String(), To: c.To.String(), Text: text})
}

// overBudgetHolds is for how long an endpoint counts as over the budget after it was told so: it is told every 10 s while it holds.
const overBudgetHolds = 25 * time.Second

// overBudget keeps what is told every 10 s, and publishes its begin.
func (h *Hub) overBudget(o readpath.OverBudget) {
	now := time.Now()
	h.mu.Lock()
	before := h.mu.over[o.Endpoint]
	h.mu.over[o.Endpoint] = OverBudget{RatePerSec: o.Rate, BudgetPerSec: o.Budget, At: now}
	h.mu.Unlock()
	if now.Sub(before.At) < overBudgetHolds {
		return
	}
	h.Publish(Event{
		Kind: KindOverBudget, At: now, Name: o.Endpoint,
		Text: fmt.Sprintf("%.0f critical reads a second: the budget of %.0f will refuse some while the path is degraded", o.Rate, o.Budget),
	})
}

// OverBudget are the critical endpoints whose rate is over the budget (REQ-D13).
func (h *Hub) OverBudget() map[string]OverBudget {
	h.mu.Lock()
	defer h.mu.Unlock()
	over := map[string]OverBudget{}
	for name, o := range h.mu.over {
		if time.Since(o.At) < overBudgetHolds {
			over[name] = o
		}
	}
	return over
}

// reason is a breaker's reason without the secrets in it: each part by itself, since the text goes on behind an error that was cut off.
func (h *Hub) reason(r breaker.Reason) Reason { return reasonOf(r, h.redact) }

func reasonOf(r breaker.Reason, redact *Redactor) Reason {
	r.Detail = redact.Text(r.Detail)
	out := Reason{Rule: r.Rule, Unit: r.Unit, Text: redact.Text(r.String())}
	if r.Value != 0 || r.Threshold != 0 {
		out.Value, out.Threshold = new(Number(r.Value)), new(Number(r.Threshold))
	}
	return out
}
