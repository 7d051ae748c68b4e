package api

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// Each route, with what it says to good and to bad requests; the budget is an operator's first aid (REQ-D9).
func TestRoutes(t *testing.T) {
	w := newWorld(t)
	w.park(emit.Trigger{Type: "order", Key: "k1", Data: []byte(`{"a":1}`)})
	h := w.serve(func(c *Config) {
		c.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" && r.URL.Path != "/app.js" {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte("the page"))
		})
	}).Handler()
	for _, c := range []struct {
		name, method, target, body string
		status                     int
		want                       []string // all of them in the body
	}{
		{"live", "GET", "/livez", "", 200, []string{"ok"}},
		{"ready", "GET", "/readyz", "", 200, []string{"ok"}},
		{"head", "HEAD", "/livez", "", 200, nil},
		{"status", "GET", "/api/v1/status", "", 200, []string{`"mode":"serve"`, `"name":"r1"`, `"name":"ledger"`, `"config_hash":"abc"`, `"durability":"in_memory"`}},
		{"stream, head", "HEAD", "/api/v1/events", "", 200, nil},
		{"stream, bad place", "GET", "/api/v1/events?after=x", "", 400, []string{`"field":"after"`}},
		{"history", "GET", "/api/v1/history?seconds=1", "", 200, []string{`[{"at":`}},
		{"history, bad", "GET", "/api/v1/history?seconds=901", "", 400, []string{"from 1 to 900"}},
		{"export", "GET", "/api/v1/export", "", 200, []string{`{"kind":"breakwater-run","version":1,`, `"events":[`, `"history":[{`}},
		{"force", "POST", "/api/v1/breakers/r1", `{"state":"forced_open","reason":"test"}`, 200, []string{`"text":"r1 to forced_open: test"`}},
		{"force back", "POST", "/api/v1/breakers/r1", `{"state":"auto"}`, 200, []string{"auto"}},
		{"force a consumer", "POST", "/api/v1/breakers/mailer", `{"state":"disabled","reason":"test"}`, 200, nil},
		{"force, all faults", "POST", "/api/v1/breakers/r1", `{"state":"shut","because":1,"reason":2}`, 400, []string{`"field":"because"`, `"field":"reason"`, "use a text"}},
		{"force, no reason", "POST", "/api/v1/breakers/r1", `{"state":"disabled"}`, 400, []string{`"field":"reason"`}},
		{"force, unknown", "POST", "/api/v1/breakers/r9", `{"state":"auto"}`, 404, []string{"use one of r1, ledger, mailer"}},
		{"tune", "PATCH", "/api/v1/breakers/r1", `{"trip_ms":600,"breaches":4}`, 200, []string{"trip_ms 600, breaches 4"}},
		{"tune never", "PATCH", "/api/v1/breakers/r1", `{"trip_ms":"never","max_staleness_ms":"never"}`, 200, []string{"trip_ms never"}},
		{"tune, in the words of the interface", "PATCH", "/api/v1/breakers/r1", `{"trip_ms":600,"reenter_ms":900}`, 400, []string{`"field":"reenter_ms"`}},
		{"tune, all faults", "PATCH", "/api/v1/breakers/r1", `{"trip_ms":0,"breaches":-1,"bulkhead":3}`, 400, []string{`"trip_ms"`, `"breaches"`, `"bulkhead"`}},
		{"tune, of the other kind", "PATCH", "/api/v1/breakers/r1", `{"slow_ms":30}`, 400, []string{"of a replica use breaches, failures, max_staleness_ms, open_base_ms, open_max_ms, reenter_ms, trip_ms\""}},
		{"tune, unknown key", "PATCH", "/api/v1/breakers/r1", `{"trip":30}`, 400, []string{"unknown: use breaches, failures, max_staleness_ms, open_base_ms, open_max_ms, reenter_ms, trip_ms\""}},
		{"tune a consumer, unknown key", "PATCH", "/api/v1/breakers/ledger", `{"trip":30}`, 400, []string{"unknown: use bulkhead, open_base_ms, open_max_ms, slow_ms, timeout_ms\""}},
		{"tune nothing", "PATCH", "/api/v1/breakers/r1", `{}`, 400, []string{"at least one field"}},
		{"tune, of which nothing is left", "PATCH", "/api/v1/breakers/r1", `{"trip_ms":1e-9,"open_base_ms":0.0005}`, 400, []string{`"trip_ms"`, `"open_base_ms"`, "from 0.001 to"}},
		{"tune, unknown", "PATCH", "/api/v1/breakers/r9", `{"trip_ms":600}`, 404, []string{"r1"}},
		{"budget", "PATCH", "/api/v1/read-path", `{"rate_per_sec":400}`, 200, []string{"rate_per_sec 400"}},
		{"budget, bad", "PATCH", "/api/v1/read-path", `{"rate_per_sec":-1,"burst":0}`, 400, []string{`"rate_per_sec"`, `"burst"`}},
		{"letters", "GET", "/api/v1/dead-letters?consumer=ledger&parked=true", "", 200, []string{`"type":"order"`, `"reason":"rejected"`, `"key":"k1"`, `no: …`}},
		{"letters with payload", "GET", "/api/v1/dead-letters?consumer=ledger&payload=1", "", 200, []string{`"payload":"{\"a\":1}"`}},
		{"letters, a filter that cannot be read", "GET", "/api/v1/dead-letters?consumer=ledger&type=a;b", "", 400, []string{`"query"`}},
		{"history, seconds that cannot be read", "GET", "/api/v1/history?seconds=%zz", "", 400, []string{`"query"`}},
		{"very many faults", "PATCH", "/api/v1/breakers/r1", "{" + strings.Repeat(`"a":1,`, 9999) + `"b":1}`, 400, []string{"many faults"}},
		{"letters, all faults", "GET", "/api/v1/dead-letters?consumer=ledger&parked=x&limit=0&foo=1", "", 400, []string{`"parked"`, `"limit"`, `"foo"`}},
		{"letters, bad words", "GET", "/api/v1/dead-letters?consumer=ledger&priority=p&reason=x", "", 400, []string{`"priorities"`, `"reasons"`}},
		{"letters of nobody", "GET", "/api/v1/dead-letters", "", 404, []string{"ledger, mailer"}},
		{"discard needs a filter", "DELETE", "/api/v1/dead-letters", `{"consumer":"ledger","reason":"x"}`, 400, []string{`"filter"`}},
		{"discard, fault within", "DELETE", "/api/v1/dead-letters", `{"consumer":"ledger","reason":"x","filter":{"type":1}}`, 400, []string{`"filter.type"`}},
		{"discard one that is not there", "DELETE", "/api/v1/dead-letters", `{"consumer":"ledger","reason":"x","filter":{"seq":99999}}`, 404, []string{`no letter that matches and has the seq \"99999\""`}},
		{"discard none", "DELETE", "/api/v1/dead-letters", `{"consumer":"mailer","reason":"x","filter":{}}`, 200, []string{`"letters":0`}},
		{"replay none", "POST", "/api/v1/dead-letters/replay", `{"consumer":"mailer"}`, 200, []string{`"letters":0`}},
		{"tune a consumer", "PATCH", "/api/v1/breakers/ledger", `{"timeout_ms":300,"slow_ms":60,"bulkhead":8,"open_max_ms":4000}`, 200, []string{"bulkhead 8"}},
		{"tune a consumer, in the words of the interface", "PATCH", "/api/v1/breakers/ledger", `{"timeout_ms":30,"slow_ms":60}`, 400, []string{`"slow_ms"`, "timeout_ms"}},
		{"tune a consumer, all faults", "PATCH", "/api/v1/breakers/ledger", `{"trip_ms":30,"bulkhead":0}`, 400, []string{`"trip_ms"`, `"bulkhead"`}},
		{"fault, of which nothing is left", "POST", "/api/v1/faults", `{"target":"r1","fault":"pause","duration_s":1e-12}`, 400, []string{`"duration_s"`}},
		{"fault", "POST", "/api/v1/faults", `{"target":"r1","fault":"pause","duration_s":2}`, 200, []string{"pause of r1 for 2s"}},
		{"fault, bad", "POST", "/api/v1/faults", `{"target":"r1","fault":"burn","amount_ms":-1}`, 400, []string{"use pause, lag", `"amount_ms"`}},
		{"heal", "DELETE", "/api/v1/faults", "", 200, nil},
		{"scenario", "POST", "/api/v1/scenarios", `{"name":"lagging","prediction":"stale"}`, 200, nil},
		{"scenario, bad", "POST", "/api/v1/scenarios", `{"name":"lagging","prediction":"x"}`, 400, []string{"fresh; stale"}},
		{"scenario, stop", "DELETE", "/api/v1/scenarios", "", 200, nil},
		{"load", "PATCH", "/api/v1/load", `{"reads_per_sec":10,"unprotected":true}`, 200, []string{"unprotected true"}},
		{"load, bad", "PATCH", "/api/v1/load", `{"reads_per_sec":-1,"own_writes":2}`, 400, []string{`"reads_per_sec"`, `"own_writes"`}},
		{"page", "GET", "/", "", 200, []string{"the page"}},
		{"a file of the page", "GET", "/app.js", "", 200, []string{"the page"}},
		{"not the page", "GET", "/api/v1/nothing", "", 404, []string{`{"error":"there is nothing at`}},
		{"neither", "GET", "/nope", "", 404, []string{`{"error":"there is nothing at`}},
		{"a route that is not there", "GET", "/metrics", "", 404, []string{`{"error":"there is nothing at`}},
		{"wrong method", "DELETE", "/api/v1/status", "", 405, []string{"use GET, HEAD"}},
		{"wrong method, not the page", "GET", "/api/v1/faults", "", 405, []string{"use DELETE, POST"}},
		{"no JSON", "PATCH", "/api/v1/read-path", `{"burst":`, 400, []string{`"field":"body"`}},
		{"a list", "PATCH", "/api/v1/read-path", `[]`, 400, []string{"send one JSON object"}},
		{"trailing data", "PATCH", "/api/v1/read-path", `{"burst":3} x`, 400, []string{"nothing after"}},
		{"twice", "PATCH", "/api/v1/read-path", `{"burst":3,"burst":4}`, 400, []string{"give it once"}},
		{"too large", "PATCH", "/api/v1/read-path", `{"burst":` + strings.Repeat(" ", 64<<10) + `3}`, 413, []string{"65536"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer, body := ask(t, h, c.method, c.target, c.body)
			if answer.StatusCode != c.status {
				t.Errorf("got %d, want %d: %s", answer.StatusCode, c.status, body)
			}
			for _, part := range c.want {
				if !strings.Contains(body, part) {
					t.Errorf("got %s, want %s in it", body, part)
				}
			}
			if strings.Contains(body, secret) {
				t.Errorf("a secret in %s", body)
			}
		})
	}
	if got := w.parts.Path.Config().Budget.Rate; got != 400 {
		t.Errorf("budget: got %v, want 400", got)
	}
	if w.lab.fault.Duration.Seconds() != 2 || *w.lab.load.ReadsPerSec != 10 {
		t.Errorf("lab: got %+v, %+v", w.lab.fault, w.lab.load)
	}
}

// In the daemon there is no lab, and where nobody may act no action.
func TestRoutesThatAreNotThere(t *testing.T) {
	w := newWorld(t)
	h := w.serve(func(c *Config) { c.Lab, c.Actions = nil, nil }).Handler()
	for _, route := range []string{"POST /api/v1/faults", "DELETE /api/v1/faults", "POST /api/v1/scenarios", "PATCH /api/v1/load", "POST /api/v1/breakers/r1"} {
		method, target, _ := strings.Cut(route, " ")
		if answer, body := ask(t, h, method, target, "{}"); answer.StatusCode != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want 404", route, answer.StatusCode, body)
		}
	}
}

func TestReady(t *testing.T) {
	w := newWorld(t)
	h := w.serve(func(c *Config) { c.Ready = func() error { return errors.New("no sample of r1 yet: " + secret) } }).Handler()
	if answer, body := ask(t, h, "GET", "/readyz", ""); answer.StatusCode != http.StatusServiceUnavailable || body != "no sample of r1 yet: …\n" {
		t.Errorf("got %d %q", answer.StatusCode, body)
	}
}

// A panic of a handler ends no process: it is counted and told, and half an answer is broken off.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.lab.panics = true
	s := w.serve(nil)
	answer, body := ask(t, s.Handler(), "DELETE", "/api/v1/faults", "")
	if answer.StatusCode != http.StatusInternalServerError || strings.Contains(body, secret) {
		t.Errorf("got %d %s, want 500 without the panic", answer.StatusCode, body)
	}
	if got := s.Stats().Panics; got != 1 {
		t.Errorf("panics: got %d, want 1", got)
	}
	events := w.hub.Kept()
	if e := events[len(events)-1]; e.Kind != KindFault || !strings.Contains(e.Error, "the lab is out: …") {
		t.Errorf("got %+v, want the fault", e)
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := New(Config{MaxClients: -1, WriteTimeout: -1})
	for _, field := range []string{"Hub", "Source", "MaxClients", "WriteTimeout"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("got %v, want %s in it", err, field)
		}
	}
	w := newWorld(t)
	_, err = New(Config{Hub: w.hub, Source: w.std, Routes: []Route{{Pattern: "GET /livez", Handler: http.NotFoundHandler()}}})
	if err == nil || !strings.Contains(err.Error(), "Routes[0]") {
		t.Errorf("a route that is there twice: got %v", err)
	}
}
