package api

import (
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/breakwater-go/breakwater/breaker"
)

// longestReason is how long a reason may be, in bytes.
const longestReason = 500

// Done is the answer to an action that was taken: the event that tells of it.
type Done struct {
	Event   uint64 `json:"event"` // its ID
	Text    string `json:"text"`
	Letters *int   `json:"letters,omitempty"` // how many it concerns
}

// done publishes an action, and answers.
func (s *Server) done(w http.ResponseWriter, e Event, letters *int) {
	e.Kind = KindAction
	e.Text = s.conf.Redact.Text(e.Text)
	answer(w, http.StatusOK, Done{Event: s.conf.Hub.Publish(e), Text: e.Text, Letters: letters})
}

// force is POST /api/v1/breakers/{name}.
func (s *Server) force(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		State  string `json:"state"`
		Reason string `json:"reason"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	var faults []FieldFault
	to, ok := forcible(asked.State)
	if !ok {
		faults = append(faults, FieldFault{"state", quote(asked.State), "use forced_open, forced_closed, disabled or auto"})
	}
	faults = append(faults, checkReason(asked.Reason, to != breaker.Closed)...)
	if err := invalid(faults); err != nil {
		return err
	}
	name := r.PathValue("name")
	if err := s.conf.Actions.Force(name, to, asked.Reason); err != nil {
		return err
	}
	s.done(w, Event{Name: name, To: asked.State, Text: because(name+" to "+asked.State, asked.Reason)}, nil)
	return nil
}

func forcible(word string) (breaker.State, bool) {
	switch word {
	case "forced_open":
		return breaker.ForcedOpen, true
	case "forced_closed":
		return breaker.ForcedClosed, true
	case "disabled":
		return breaker.Disabled, true
	case "auto":
		return breaker.Closed, true
	}
	return breaker.ForcedOpen, false
}

func checkReason(reason string, needed bool) []FieldFault {
	switch {
	case needed && strings.TrimSpace(reason) == "":
		return []FieldFault{{"reason", quote(reason), "say why, for those who see it later"}}
	case len(reason) > longestReason:
		return []FieldFault{{"reason", quote(reason), fmt.Sprintf("use at most %d bytes", longestReason)}}
	}
	return nil
}

func because(text, reason string) string {
	if reason == "" {
		return text
	}
	return text + ": " + reason
}

// asTuning is Tuning as it comes: two of its fields know a word, and go before those of the same name.
type asTuning struct {
	Tuning

	TripMS         *milliseconds `json:"trip_ms"`
	MaxStalenessMS *milliseconds `json:"max_staleness_ms"`
}

// tune is PATCH /api/v1/breakers/{name}.
func (s *Server) tune(w http.ResponseWriter, r *http.Request) error {
	var a asTuning
	name := r.PathValue("name")
	if err := decode(r, &a); err != nil {
		return suggestOnly(s.conf.Source.Parts(), name, err)
	}
	t := a.Tuning
	t.TripMS, t.MaxStalenessMS = (*float64)(a.TripMS), (*float64)(a.MaxStalenessMS)
	if err := s.conf.Actions.Tune(name, t); err != nil {
		return err
	}
	s.done(w, Event{Name: name, Text: "thresholds of " + name + changed(t.values())}, nil)
	return nil
}

// A value is one that was given, under its name.
type value struct {
	name string
	to   *float64
}

func (t *Tuning) values() []value {
	return []value{
		{"trip_ms", t.TripMS},
		{"reenter_ms", t.ReenterMS},
		{"breaches", asNumber(t.Breaches)},
		{"max_staleness_ms", t.MaxStalenessMS},
		{"failures", asNumber(t.Failures)},
		{"open_base_ms", t.OpenBaseMS},
		{"open_max_ms", t.OpenMaxMS},
		{"timeout_ms", t.TimeoutMS},
		{"slow_ms", t.SlowMS},
		{"bulkhead", asNumber(t.Bulkhead)},
	}
}

func asNumber(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// changed says which values were given.
func changed(values []value) string {
	var text strings.Builder
	for _, v := range values {
		switch {
		case v.to == nil:
		case math.IsInf(*v.to, 1):
			fmt.Fprintf(&text, ", %s never", v.name)
		default:
			fmt.Fprintf(&text, ", %s %s", v.name, number(*v.to))
		}
	}
	return strings.Replace(text.String(), ",", ":", 1)
}

// budget is PATCH /api/v1/read-path.
func (s *Server) budget(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		RatePerSec *float64 `json:"rate_per_sec"`
		Burst      *int     `json:"burst"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	if err := s.conf.Actions.Budget(asked.RatePerSec, asked.Burst); err != nil {
		return err
	}
	s.done(w, Event{Text: "budget of the read path" + changed([]value{{"rate_per_sec", asked.RatePerSec}, {"burst", asNumber(asked.Burst)}})}, nil)
	return nil
}

// replay is POST /api/v1/dead-letters/replay.
func (s *Server) replay(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Consumer string   `json:"consumer"`
		Filter   asFilter `json:"filter"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	filter, faults := asked.Filter.filter()
	if err := invalid(faults); err != nil {
		return err
	}
	n, err := s.conf.Actions.Replay(r.Context(), asked.Consumer, filter)
	if err != nil {
		return err
	}
	s.done(w, Event{Scope: ScopeConsumer, Name: asked.Consumer, Count: uint64(n), Text: "replay of " + lettersOf(asked.Consumer, n)}, &n)
	return nil
}

// discard is DELETE /api/v1/dead-letters.
func (s *Server) discard(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Consumer string    `json:"consumer"`
		Filter   *asFilter `json:"filter"`
		Reason   string    `json:"reason"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	faults := checkReason(asked.Reason, true)
	var filter LetterFilter
	if asked.Filter == nil {
		faults = append(faults, FieldFault{"filter", "missing", "say which letters: {} for all of them"})
	} else {
		var more []FieldFault
		filter, more = asked.Filter.filter()
		faults = append(faults, more...)
	}
	if err := invalid(faults); err != nil {
		return err
	}
	n, err := s.conf.Actions.Discard(r.Context(), asked.Consumer, filter, asked.Reason)
	if err != nil {
		return err
	}
	s.done(w, Event{
		Scope: ScopeConsumer, Name: asked.Consumer, Count: uint64(n), Text: because(lettersOf(asked.Consumer, n)+" discarded", asked.Reason),
	}, &n)
	return nil
}

func lettersOf(consumer string, n int) string {
	if n == 1 {
		return "1 letter of " + consumer
	}
	return fmt.Sprintf("%d letters of %s", n, consumer)
}

// asFilter is a LetterFilter as it comes: what is there and selects nothing is a fault, for it would select any.
type asFilter struct {
	Priorities []string `json:"priorities"`
	Types      []string `json:"types"`
	Key        *string  `json:"key"`
	Reasons    []string `json:"reasons"`
	Seq        *uint64  `json:"seq"`
	Parked     *bool    `json:"parked"`
}

func (a *asFilter) filter() (f LetterFilter, faults []FieldFault) {
	f = LetterFilter{Priorities: a.Priorities, Types: a.Types, Reasons: a.Reasons, Parked: a.Parked}
	for _, list := range []struct {
		name   string
		values []string
	}{{"priorities", a.Priorities}, {"types", a.Types}, {"reasons", a.Reasons}} {
		if list.values != nil && len(list.values) == 0 {
			faults = append(faults, FieldFault{"filter." + list.name, "[]", "list at least one, or leave it out for any"})
		}
	}
	switch {
	case a.Key == nil:
	case *a.Key == "":
		faults = append(faults, FieldFault{"filter.key", `""`, "give a key, or leave it out for any"})
	default:
		f.Key = *a.Key
	}
	switch {
	case a.Seq == nil:
	case *a.Seq == 0:
		faults = append(faults, FieldFault{"filter.seq", "0", "give the seq of a letter, or leave it out for any"})
	default:
		f.Seq = *a.Seq
	}
	return f, faults
}
