package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// longestFault is how long a fault may be asked to last, in seconds.
const longestFault = 3600

// mostPerSec bounds the load that can be asked for.
const mostPerSec = 10_000

func (s *Server) routeLab() {
	s.handle("POST /api/v1/faults", s.inject)
	s.handle("DELETE /api/v1/faults", s.heal)
	s.handle("POST /api/v1/scenarios", s.play)
	s.handle("DELETE /api/v1/scenarios", s.stop)
	s.handle("PATCH /api/v1/load", s.load)
}

// inject is POST /api/v1/faults.
func (s *Server) inject(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Target    string  `json:"target"`
		Fault     string  `json:"fault"`
		AmountMS  float64 `json:"amount_ms"`
		DurationS float64 `json:"duration_s"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	faults := checkTarget(s.conf.Lab.Status().Targets, asked.Target, asked.Fault)
	faults = append(faults, within("amount_ms", &asked.AmountMS, 0, longestFault*1000)...)
	if asked.DurationS != 0 { // until it is healed
		faults = append(faults, within("duration_s", &asked.DurationS, 0.001, longestFault)...)
	}
	if err := invalid(faults); err != nil {
		return err
	}
	f := FaultRequest{Target: asked.Target, Fault: asked.Fault, Amount: asked.AmountMS, Duration: time.Duration(asked.DurationS * float64(time.Second))}
	if err := s.conf.Lab.Inject(r.Context(), f); err != nil {
		return err
	}
	text := fmt.Sprintf("%s of %s", f.Fault, f.Target)
	if f.Duration > 0 {
		text += fmt.Sprintf(" for %v", f.Duration)
	}
	s.done(w, Event{Name: f.Target, Fault: f.Fault, Text: text}, nil)
	return nil
}

func checkTarget(targets []LabTarget, name, fault string) []FieldFault {
	var known []string
	for _, t := range targets {
		switch {
		case t.Name != name:
			known = append(known, t.Name)
		case slices.Contains(t.Faults, fault):
			return nil
		default:
			return []FieldFault{{"fault", quote(fault), "use " + strings.Join(t.Faults, ", ")}}
		}
	}
	return []FieldFault{{"target", quote(name), "use " + strings.Join(known, ", ")}}
}

// within checks a number; nil is none.
func within[N int | float64](field string, v *N, low, high N) []FieldFault {
	if v == nil || *v >= low && *v <= high {
		return nil
	}
	return []FieldFault{{field, fmt.Sprint(*v), fmt.Sprintf("use a number from %v to %v", low, high)}}
}

// heal is DELETE /api/v1/faults.
func (s *Server) heal(w http.ResponseWriter, r *http.Request) error {
	if err := s.conf.Lab.Heal(r.Context()); err != nil {
		return err
	}
	s.done(w, Event{Text: "everything is mended"}, nil)
	return nil
}

// play is POST /api/v1/scenarios.
func (s *Server) play(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Name       string `json:"name"`
		Prediction string `json:"prediction"`
	}
	if err := decode(r, &asked); err != nil {
		return err
	}
	if err := invalid(checkScenario(s.conf.Lab.Status().Scenarios, asked.Name, asked.Prediction)); err != nil {
		return err
	}
	if err := s.conf.Lab.Play(r.Context(), asked.Name, asked.Prediction); err != nil {
		return err
	}
	s.done(w, Event{Name: asked.Name, Text: "scenario " + asked.Name}, nil)
	return nil
}

func checkScenario(all []LabScenario, name, prediction string) []FieldFault {
	i := slices.IndexFunc(all, func(s LabScenario) bool { return s.Name == name })
	if i < 0 {
		var known []string
		for _, s := range all {
			known = append(known, s.Name)
		}
		return []FieldFault{{"name", quote(name), "use " + strings.Join(known, ", ")}}
	}
	if prediction != "" && !slices.Contains(all[i].Answers, prediction) {
		return []FieldFault{{"prediction", quote(prediction), "leave it out, or use one of: " + strings.Join(all[i].Answers, "; ")}}
	}
	return nil
}

// stop is DELETE /api/v1/scenarios.
func (s *Server) stop(w http.ResponseWriter, r *http.Request) error {
	if err := s.conf.Lab.Stop(r.Context()); err != nil {
		return err
	}
	s.done(w, Event{Text: "the scenario is stopped"}, nil)
	return nil
}

// load is PATCH /api/v1/load.
func (s *Server) load(w http.ResponseWriter, r *http.Request) error {
	var l LoadRequest
	if err := decode(r, &l); err != nil {
		return err
	}
	faults := slices.Concat(
		within("reads_per_sec", l.ReadsPerSec, 0, mostPerSec), within("emits_per_sec", l.EmitsPerSec, 0, mostPerSec),
		within("writes_per_sec", l.WritesPerSec, 0, mostPerSec), within("own_writes", l.OwnWrites, 0, 1),
	)
	if l == (LoadRequest{}) {
		faults = append(faults, FieldFault{"body", "{}", "give at least one field to change"})
	}
	if err := invalid(faults); err != nil {
		return err
	}
	if err := s.conf.Lab.Load(l); err != nil {
		return err
	}
	text := "load" + changed([]value{
		{"reads_per_sec", asNumber(l.ReadsPerSec)}, {"emits_per_sec", asNumber(l.EmitsPerSec)}, {"writes_per_sec", asNumber(l.WritesPerSec)}, {"own_writes", l.OwnWrites},
	})
	if l.Unprotected != nil {
		text += fmt.Sprintf(", unprotected %t", *l.Unprotected)
	}
	s.done(w, Event{Text: text}, nil)
	return nil
}
