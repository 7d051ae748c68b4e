package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzAdmin sends anything to the whole interface: no panic, and no 5xx for bad input (REQ-O4).
func FuzzAdmin(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/livez", "", ""},
		{"GET", "/api/v1/status", "Authorization: Bearer x", ""},
		{"GET", "/api/v1/events?after=0-1", "Last-Event-ID: abc-1", ""},
		{"GET", "/api/v1/history?seconds=5", "", ""},
		{"GET", "/api/v1/export", "", ""},
		{"POST", "/api/v1/breakers/r1", "Origin: http://a", `{"state":"forced_open","reason":"r"}`},
		{"PATCH", "/api/v1/breakers/r1", "", `{"trip_ms":1e300,"breaches":2}`},
		{"PATCH", "/api/v1/breakers/ledger", "", `{"timeout_ms":0.001,"slow_ms":"never","bulkhead":1000000}`},
		{"PATCH", "/api/v1/read-path", "", `{"rate_per_sec":0.5,"burst":null}`},
		{"GET", "/api/v1/dead-letters?consumer=ledger&payload=1&limit=2&reason=open", "", ""},
		{"POST", "/api/v1/dead-letters/replay", "", `{"consumer":"ledger","filter":{"seq":1,"parked":true}}`},
		{"DELETE", "/api/v1/dead-letters", "", `{"consumer":"ledger","reason":"r","filter":{"types":["a"],"priorities":["normal"]}}`},
		{"POST", "/api/v1/faults", "", `{"target":"r1","fault":"lag","amount_ms":5,"duration_s":1e9}`},
		{"POST", "/api/v1/scenarios", "", `{"name":"lagging","prediction":"stale"}`},
		{"PATCH", "/api/v1/load", "", `{"reads_per_sec":1,"own_writes":0.5,"unprotected":false}`},
		{"CONNECT", "*", "Host: ", "["},
		{"OPTIONS", "//livez/../api", "Sec-Fetch-Site: cross-site", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	w := newWorld(f)
	server := w.serve(nil)
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		r, ok := request(method, target, headers, body)
		if !ok {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // of the stream
		defer cancel()
		answer := httptest.NewRecorder()
		server.Handler().ServeHTTP(answer, r.WithContext(ctx))
		if n := server.Stats().Panics; n > 0 {
			t.Fatalf("%s %q %q %q: %d panics", method, target, headers, body, n)
		}
		if answer.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q %q %q: got %d %s", method, target, headers, body, answer.Code, answer.Body)
		}
		if strings.Contains(answer.Body.String(), secret) {
			t.Errorf("a secret in %s", answer.Body)
		}
	})
}

// request is what net/http would make of it, if it would.
func request(method, target, headers, body string) (r *http.Request, ok bool) {
	defer func() {
		if recover() != nil { // httptest's refusal of what is no request
			ok = false
		}
	}()
	r = httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "localhost"
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	return r, true
}
