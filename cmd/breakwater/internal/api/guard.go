package api

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// contentPolicy lets the page load what this server serves, and nobody frame it.
const contentPolicy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// guard is what each request passes before its route: limits, the Host and origin it comes from, its credential.
func (s *Server) guard() http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(s.always(http.StatusForbidden, "a page of another origin may not do that"))
	inner := origin.Handler(http.HandlerFunc(s.dispatch))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := &tracked{ResponseWriter: w}
		defer s.caught(t, r)
		h := t.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		limitTime(w, r)
		if !s.guarded() && !isOwnHost(r.Host) {
			s.fail(t, http.StatusForbidden, fmt.Errorf("host is %s: use localhost, or configure a credential", quote(r.Host)), nil)
			return
		}
		if isForeignFetch(r) {
			s.fail(t, http.StatusForbidden, errors.New("a page of another origin may not ask that"), nil)
			return
		}
		inner.ServeHTTP(t, r)
	})
}

// isForeignFetch says that a script of another site asks. It could read no answer, but hold all places of the stream. A link that a person
// follows is none.
func isForeignFetch(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" && strings.HasPrefix(r.URL.Path, "/api/")
}

// limitTime bounds how long a request may take; a response of a test may have no deadlines. A body that nobody asks for, since the request is refused, is
// waited for by net/http: no longer than any other.
func limitTime(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(answerTimeout))
	if hasBody(r) {
		_ = out.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// isOwnHost says that a Host header names this machine: a page elsewhere whose name was made to resolve to it names itself. A browser always
// sends one; checks of proxies may not.
func isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// dispatch finds the route, asks for the credential, and reads the body.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	h, pattern := s.routes.Handler(r)
	page := pattern == "" && s.isPage(r, h)
	if !page && !s.open[pattern] && !s.admitted(r) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="breakwater"`)
		s.fail(w, http.StatusUnauthorized, errors.New("a credential is needed: send the header Authorization: Bearer TOKEN"), nil)
		return
	}
	_, unread := url.ParseQuery(r.URL.RawQuery)
	switch {
	case page:
		s.page(w, r, h)
	case pattern == "":
		s.nowhere(w, r, h)
	case unread != nil: // URL.Query passes over what it cannot read: a filter would select more than it says
		s.refuse(w, &InvalidError{[]FieldFault{{"query", quote(r.URL.RawQuery), "write it as name=value&name=value, percent-encoded, without semicolons"}}})
	case s.intakes[pattern]:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it sets one of its own
		s.routes.ServeHTTP(w, r)
	default:
		if status, err := readBody(w, r); err != nil {
			s.fail(w, status, err, nil)
			return
		}
		s.routes.ServeHTTP(w, r)
	}
}

// isPage says that a request which no route takes is for the page.
func (s *Server) isPage(r *http.Request, h http.Handler) bool {
	if s.conf.Page == nil || r.URL.Path == "" || strings.HasPrefix(r.URL.Path, "/api/") || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	var probe header
	h.ServeHTTP(&probe, r)
	return probe.status == http.StatusNotFound
}

// page serves the page, or says in the words of the interface that it has no such part.
func (s *Server) page(w http.ResponseWriter, r *http.Request, h http.Handler) {
	var probe header
	s.conf.Page.ServeHTTP(&probe, r)
	if probe.status == http.StatusNotFound {
		s.nowhere(w, r, h)
		return
	}
	s.conf.Page.ServeHTTP(w, r)
}

// nowhere answers a request that no route takes in the words of the interface.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request, h http.Handler) {
	var said header
	h.ServeHTTP(&said, r)
	if said.status == http.StatusMethodNotAllowed {
		allow := said.Header().Get("Allow")
		w.Header().Set("Allow", allow)
		s.fail(w, said.status, fmt.Errorf("method %s is not for this path: use %s", quote(r.Method), allow), nil)
		return
	}
	s.fail(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s", quote(r.URL.Path)), nil)
}

// A header is a response of which only the status and the header are looked at.
type header struct {
	h      http.Header
	status int
}

// Header is that of the response.
func (h *header) Header() http.Header {
	if h.h == nil {
		h.h = http.Header{}
	}
	return h.h
}

// WriteHeader keeps the status.
func (h *header) WriteHeader(status int) { h.status = status }

// Write drops the text.
func (h *header) Write(p []byte) (int, error) { return len(p), nil }

// admitted checks the credential, in a time that says nothing of how much of it is right (REQ-O4).
func (s *Server) admitted(r *http.Request) bool {
	if s.conf.Token == nil {
		return true // a client's certificate was checked by TLS
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want := s.conf.Token()
	a, b := sha256.Sum256([]byte(strings.TrimSpace(given))), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && want != "" && strings.EqualFold(scheme, "Bearer")
}

// readBody reads the whole body, within its limit and its time, before anything is done.
func readBody(w http.ResponseWriter, r *http.Request) (status int, err error) {
	if !hasBody(r) {
		return 0, nil
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil { // the deadline stays, for net/http reads on
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return http.StatusRequestEntityTooLarge, fmt.Errorf("body is over %d bytes: send less", maxBody)
		}
		return http.StatusBadRequest, errors.New("body could not be read whole: send it at once, in the length that the header says")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(text))
	return 0, nil
}

// caught ends a panic of a handler: it is told, and the process goes on. It must be deferred.
func (s *Server) caught(w *tracked, r *http.Request) {
	v := recover() //nolint:revive // caught is deferred itself
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // the very value
		panic(v) // net/http ends the connection
	}
	s.panics.Add(1)
	s.conf.Hub.Fault("http "+r.Pattern, fmt.Errorf("a handler panicked: %v", v))
	if w.begun {
		panic(http.ErrAbortHandler) // half an answer must not look whole
	}
	s.fail(w, http.StatusInternalServerError, errors.New("a fault of the program: see the events"), nil)
}

// A tracked response knows whether it has begun.
type tracked struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer.
func (t *tracked) WriteHeader(status int) {
	t.begun = t.begun || status >= http.StatusOK
	t.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (t *tracked) Write(p []byte) (int, error) {
	t.begun = true
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *tracked) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// always is a handler that refuses.
func (s *Server) always(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.fail(w, status, errors.New(text), nil) })
}

// failure is how every error is told.
type failure struct {
	Error  string       `json:"error"`
	Fields []FieldFault `json:"fields"`
}

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, status int, err error, fields []FieldFault) {
	f := failure{Error: s.conf.Redact.Text(err.Error()), Fields: []FieldFault{}}
	for _, one := range fields {
		f.Fields = append(f.Fields, FieldFault{one.Field, s.conf.Redact.Text(one.Value), s.conf.Redact.Text(one.Mend)})
	}
	answer(w, status, &f)
}

// answer writes JSON.
func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // caught tells it
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
