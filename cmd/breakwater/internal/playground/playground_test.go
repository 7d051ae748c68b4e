package playground

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/replica"
)

// source is a status as the lab makes it.
type source struct {
	*api.Standard

	p *Playground
}

func (s source) Status() api.Status {
	st := s.Standard.Status()
	st.Traffic, st.Lab = s.p.Traffic(), new(s.p.Status())
	return st
}

// client asks a Playground over HTTP.
type client struct {
	t   *testing.T
	url string
	hub *api.Hub
}

// status is what the tests look at of a Status.
type status struct {
	Traffic *api.Traffic   `json:"traffic"`
	Lab     *api.LabStatus `json:"lab"`
}

func serve(t *testing.T, p *Playground, hub *api.Hub) client {
	t.Helper()
	std := api.NewStandard(api.StandardConfig{Hub: hub, Parts: p.Parts, About: func() api.About { return api.About{Mode: "lab"} }})
	t.Cleanup(std.Close)
	server, err := api.New(api.Config{Hub: hub, Source: source{std, p}, Actions: std, Lab: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	web := httptest.NewServer(server.Handler())
	t.Cleanup(web.Close)
	return client{t, web.URL, hub}
}

func (c client) ask(method, path string, body any) (status int, answer string) {
	c.t.Helper()
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			c.t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, &sent)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func (c client) do(method, path string, body any) {
	c.t.Helper()
	if status, answer := c.ask(method, path, body); status >= 300 {
		c.t.Fatalf("%s %s %v: got %d: %s", method, path, body, status, answer)
	}
}

func (c client) status() (s status) {
	c.t.Helper()
	_, text := c.ask("GET", "/api/v1/status", nil)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		c.t.Fatal(err)
	}
	return s
}

// until waits until an event comes that is wanted, after an ID.
func (c client) until(after uint64, what string, wanted func(api.Event) bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 30*time.Second)
	defer cancel()
	for {
		events, _, err := c.hub.Next(ctx, after)
		if err != nil {
			c.t.Fatalf("%s: %v", what, err)
		}
		for i := range events {
			if after = events[i].ID; wanted(events[i]) {
				return
			}
		}
	}
}

// Every fault that is offered can be made and mended over HTTP, and is told (REQ-O3).
func TestEveryFault(t *testing.T) {
	t.Parallel()
	p, hub := opened(t, 2)
	c := serve(t, p, hub)
	targets := c.status().Lab.Targets
	if len(targets) != 1+2+len(names) {
		t.Fatalf("targets: got %+v, want the primary, two replicas and the consumers", targets)
	}
	for _, target := range targets {
		for _, fault := range target.Faults {
			before := hub.Last()
			c.do("POST", "/api/v1/faults", map[string]any{"target": target.Name, "fault": fault})
			if got := c.status().Lab.Faults; len(got) != 1 || got[0].Target != target.Name || got[0].Fault != fault {
				t.Errorf("in force: got %+v, want %s of %s", got, fault, target.Name)
			}
			c.do("DELETE", "/api/v1/faults", nil)
			if got := c.status().Lab.Faults; len(got) != 0 {
				t.Errorf("in force after healing %s of %s: got %+v, want none", fault, target.Name, got)
			}
			for _, phase := range []string{"begin", "end"} {
				c.until(before, fault+" "+phase, func(e api.Event) bool {
					return e.Kind == api.KindInjected && e.Name == target.Name && e.Fault == fault && e.To == phase && e.Error == ""
				})
			}
		}
	}
}

// What a fault does is seen in the status, and its duration ends it. Those that scenarios make are seen there.
func TestFaultsHaveAnEffect(t *testing.T) {
	for _, tt := range []struct{ target, fault, kind, to string }{
		{"r1", "blackhole", api.KindTransition, "open"},
		{"billing", "hang", api.KindTransition, "open"},
		{"primary", "freeze", api.KindCondition, replica.Unreachable.String()},
		{"primary", "restart", api.KindCondition, replica.Unreachable.String()},
	} {
		t.Run(tt.fault+" of "+tt.target, func(t *testing.T) {
			t.Parallel()
			p, hub := opened(t, 2)
			c := serve(t, p, hub)
			c.do("POST", "/api/v1/faults", map[string]any{"target": tt.target, "fault": tt.fault, "duration_s": 4})
			after := hub.Last()
			c.until(0, tt.to, func(e api.Event) bool { return e.Kind == tt.kind && e.Name == tt.target && e.To == tt.to })
			c.until(after, "mended", func(e api.Event) bool { return e.Kind == api.KindInjected && e.To == "end" && e.Name == tt.target })
			well := map[string]string{api.KindTransition: "closed", api.KindCondition: replica.Fit.String()}[tt.kind]
			c.until(after, well, func(e api.Event) bool { return e.Kind == tt.kind && e.Name == tt.target && e.To == well })
		})
	}
}

// One scenario at a time; nothing else is broken meanwhile; Stop mends, and what was stopped is not judged.
func TestOneScenarioAtATime(t *testing.T) {
	t.Parallel()
	p, hub := opened(t, 3)
	c := serve(t, p, hub)
	for _, tt := range []struct {
		body map[string]any
		want int
	}{
		{map[string]any{"name": "nonesuch"}, http.StatusBadRequest},
		{map[string]any{"name": "one-dead", "prediction": "I do not know"}, http.StatusBadRequest},
		{map[string]any{"name": "all-lagging", "prediction": metFlagged}, http.StatusOK},
		{map[string]any{"name": "one-dead"}, http.StatusConflict},
	} {
		if got, answer := c.ask("POST", "/api/v1/scenarios", tt.body); got != tt.want {
			t.Errorf("%v: got %d, want %d: %s", tt.body, got, tt.want, answer)
		}
	}
	if got, answer := c.ask("POST", "/api/v1/faults", map[string]any{"target": "r1", "fault": "pause"}); got != http.StatusConflict || !strings.Contains(answer, "stop it first") {
		t.Errorf("a fault during a scenario: got %d, %s, want 409 and the mend", got, answer)
	}
	c.until(0, "the first fault", func(e api.Event) bool { return e.Kind == api.KindInjected })
	c.do("DELETE", "/api/v1/scenarios", nil)
	l := c.status().Lab
	if r := l.Running; r.State != stopped || len(l.Faults) != 0 || r.Prediction != metFlagged {
		t.Errorf("got %+v with faults %+v, want it stopped, with its prediction, and all mended", r, l.Faults)
	}
	c.do("DELETE", "/api/v1/scenarios", nil) // nothing to stop is no fault
}

// The load changes while it runs; wrong values change nothing. The load beside comes and goes (REQ-O3).
func TestLoad(t *testing.T) {
	t.Parallel()
	p, hub := opened(t, 2)
	c := serve(t, p, hub)
	before := c.status().Lab.Load
	got, answer := c.ask("PATCH", "/api/v1/load", map[string]any{"reads_per_sec": -1, "emits_per_sec": maxEmits + 1, "own_writes": 1.5, "writes_per_sec": 5})
	if got != http.StatusBadRequest {
		t.Errorf("wrong values: got %d, want 400: %s", got, answer)
	}
	if after := c.status().Lab.Load; after != before {
		t.Errorf("after wrong values: got %+v, want %+v", after, before)
	}
	c.do("PATCH", "/api/v1/load", map[string]any{"reads_per_sec": 0, "emits_per_sec": 0, "unprotected": true})
	c.wait("no traffic", func(s status) bool {
		return s.Traffic != nil && s.Traffic.ReadsPerSec == 0 && s.Traffic.EmitsPerSec == 0
	})
	c.do("PATCH", "/api/v1/load", map[string]any{"reads_per_sec": 50, "emits_per_sec": 50})
	c.wait("traffic of both", func(s status) bool {
		u := s.Lab.Unprotected
		return s.Traffic.ReadsPerSec > 0 && s.Traffic.EmitDelivered > 0 && u != nil && u.BySource["replica"] > 0 && u.EmitDelivered > 0
	})
	c.do("PATCH", "/api/v1/load", map[string]any{"unprotected": false})
	c.wait("no load beside", func(s status) bool { return s.Lab.Unprotected == nil })
}

// wait asks for the status each time that something may have changed: at each second's end.
func (c client) wait(what string, came func(status) bool) {
	c.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !came(c.status()); <-tick.C {
		if time.Now().After(end) {
			s := c.status()
			c.t.Fatalf("%s: not within 30 s: %+v, %+v", what, s.Traffic, s.Lab)
		}
	}
}

// A replica that lags makes old answers without the library, and none with it.
func TestUnprotectedSeesOldAnswers(t *testing.T) {
	t.Parallel()
	p, hub := opened(t, 2)
	c := serve(t, p, hub)
	c.do("PATCH", "/api/v1/load", map[string]any{"unprotected": true})
	c.do("POST", "/api/v1/faults", map[string]any{"target": "r1", "fault": "pause"})
	p.reads.open()
	c.wait("old answers beside", func(s status) bool { return s.Lab.Unprotected != nil && s.Lab.Unprotected.StalePerSec > 0 })
	if got := p.reads.shut(); got.stale != 0 || got.all == 0 {
		t.Errorf("through the library: got %d old answers of %d, want none", got.stale, got.all)
	}
}

// Reads that ask for the newest commit see it (REQ-R12), also while a replica lags.
func TestOwnWrites(t *testing.T) {
	t.Parallel()
	p, hub := opened(t, 2)
	c := serve(t, p, hub)
	c.do("PATCH", "/api/v1/load", map[string]any{"own_writes": 1})
	c.wait("a position", func(status) bool { return p.bench.OwnReads() > 20 })
	c.do("POST", "/api/v1/faults", map[string]any{"target": "r1", "fault": "pause"})
	before := p.bench.OwnReads()
	p.reads.open()
	c.wait("own reads", func(status) bool { return p.bench.OwnReads() > before+60 })
	if got := p.reads.shut(); got.stale != 0 {
		t.Errorf("missed their own write: got %d of %d, want none", got.stale, got.all)
	}
}

// The passwords of the fleet's roles are known as secrets, and a status holds none.
func TestSecrets(t *testing.T) {
	got := Secrets(withNodes{nodes: []lab.Node{
		{Name: "primary", DSN: "postgres://breakwater:s3cret-one@127.0.0.1:1/lab", AdminDSN: "host=127.0.0.1 user=postgres password=s3cret-two"},
		{Name: "r1", DSN: "postgres://breakwater@127.0.0.1:2/lab"},
	}})
	if want := []string{"s3cret-one", "s3cret-two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

type withNodes struct {
	lab.Fleet

	nodes []lab.Node
}

func (f withNodes) Nodes() []lab.Node { return f.nodes }
