package api

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A handler answers, or says by its error why not.
type handler func(w http.ResponseWriter, r *http.Request) error

// route registers all routes. A pattern that cannot be one, or is there twice, is an error.
func (s *Server) route() error {
	s.openRoute("GET /livez", s.livez)
	s.openRoute("GET /readyz", s.readyz)
	s.handle("GET /api/v1/status", s.getStatus)
	s.handle("GET /api/v1/events", s.events)
	s.handle("GET /api/v1/history", s.getHistory)
	s.handle("GET /api/v1/export", s.export)
	s.handle("GET /api/v1/dead-letters", s.letters)
	if s.conf.Actions != nil {
		s.handle("POST /api/v1/breakers/{name}", s.force)
		s.handle("PATCH /api/v1/breakers/{name}", s.tune)
		s.handle("PATCH /api/v1/read-path", s.budget)
		s.handle("POST /api/v1/dead-letters/replay", s.replay)
		s.handle("DELETE /api/v1/dead-letters", s.discard)
	}
	if s.conf.Lab != nil {
		s.routeLab()
	}
	var errs []error
	for i, r := range s.conf.Routes {
		if err := s.mount(r); err != nil {
			errs = append(errs, fmt.Errorf("api: Routes[%d].Pattern is %q: %w", i, r.Pattern, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Server) handle(pattern string, h handler) {
	s.routes.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			s.refuse(w, err)
		}
	})
}

func (s *Server) openRoute(pattern string, h handler) {
	s.open[pattern] = true
	s.handle(pattern, h)
}

// mount registers a route of others; http.ServeMux panics where it cannot.
func (s *Server) mount(r Route) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%v", v)
		}
	}()
	s.routes.Handle(r.Pattern, r.Handler)
	s.open[r.Pattern], s.intakes[r.Pattern] = r.Open, r.Intake
	return nil
}

// refuse answers with an error, by what it is.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	if bad, ok := errors.AsType[*InvalidError](err); ok {
		s.fail(w, http.StatusBadRequest, err, bad.Fields)
		return
	}
	status := http.StatusConflict // it makes sense, but not now
	if _, ok := errors.AsType[*UnknownError](err); ok {
		status = http.StatusNotFound
	}
	if errors.Is(err, ErrBusy) {
		status = http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "5")
	}
	s.fail(w, status, err, nil)
}

func (s *Server) livez(w http.ResponseWriter, _ *http.Request) error {
	said(w, http.StatusOK, "ok")
	return nil
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) error {
	if s.conf.Ready != nil {
		if err := s.conf.Ready(); err != nil {
			said(w, http.StatusServiceUnavailable, s.conf.Redact.Text(err.Error()))
			return nil
		}
	}
	said(w, http.StatusOK, "ok")
	return nil
}

// said answers with a line of text.
func said(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // the client may have gone
}

func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) error {
	text, err := s.status()
	if err != nil {
		panic(err) // caught tells it
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may have gone
	return nil
}

// getHistory is GET /api/v1/history?seconds=N.
func (s *Server) getHistory(w http.ResponseWriter, r *http.Request) error {
	seconds, given := historySize, r.URL.Query().Get("seconds")
	if given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 || n > historySize {
			return &InvalidError{[]FieldFault{{"seconds", quote(given), fmt.Sprintf("use a whole number from 1 to %d", historySize)}}}
		}
		seconds = n
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	if writeList(out, s.history.last(seconds)) == nil {
		_ = out.Flush() // the client may have gone
	}
	return nil
}

// export is GET /api/v1/export: what the page opens again.
func (s *Server) export(w http.ResponseWriter, _ *http.Request) error {
	now := time.Now()
	events, err := json.Marshal(s.conf.Hub.Kept())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="breakwater-`+now.UTC().Format("20060102T150405Z")+`.json"`)
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `{"kind":"breakwater-run","version":1,"at":%q,"events":%s,"history":`, now.Format(time.RFC3339Nano), events)
	if writeList(out, s.history.last(historySize)) == nil {
		fmt.Fprintln(out, "}")
		_ = out.Flush() // the client may have gone
	}
	return nil
}
