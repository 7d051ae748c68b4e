package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// secret is in the errors of what the tests run: it must never leave.
const secret = "hunter2-s3cret"

// A node is a server that always answers, and holds everything.
type node struct{ primary bool }

func (n node) Look(context.Context) (replica.Look, error) {
	return replica.Look{SystemID: "7", Instance: map[bool]string{true: "p", false: "r"}[n.primary], InRecovery: !n.primary, Timeline: 1, Position: 1000, Flushed: 1000}, nil
}

func (node) Close() {}

func connect(n node) replica.Connector {
	return func(context.Context) (replica.Conn, error) { return n, nil }
}

// A backend has no node: the path is degraded once it has looked.
type backend struct{ eligible atomic.Bool }

func (*backend) WithRead(ctx context.Context, _ replica.Requirement, _ *readpath.ReadInfo) context.Context {
	return ctx
}
func (b *backend) Eligible(replica.Requirement) bool { return b.eligible.Load() }
func (*backend) Failed(error) bool                   { return false }
func (*backend) Sampled() bool                       { return true }

// A world is all that a daemon runs, in small: replica r1, consumers ledger (whose sink fails) and mailer.
type world struct {
	t      testing.TB
	hub    *Hub
	redact *Redactor
	std    *Standard
	parts  Parts
	path   *backend
	sink   atomic.Pointer[error] // what ledger's sink answers
	lab    *fakeLab
}

func newWorld(tb testing.TB) *world {
	tb.Helper()
	w := &world{t: tb, redact: &Redactor{}, path: &backend{}, lab: &fakeLab{}}
	w.path.eligible.Store(true)
	w.redact.Add(secret)
	w.fails(nil)
	w.hub = NewHub(w.redact)
	w.parts = Parts{Set: w.set(), Path: w.router(), Router: w.emitter()}
	w.std = NewStandard(StandardConfig{
		Hub: w.hub, Redact: w.redact, Parts: func() Parts { return w.parts },
		About: func() About { return About{Mode: "serve", Version: "v0.test", Started: time.Now(), ConfigHash: "abc"} },
	})
	tb.Cleanup(func() {
		w.std.Close()
		w.parts.Path.Close()
		w.parts.Set.Close()
		if err := w.parts.Router.Close(); err != nil {
			tb.Errorf("Router.Close: %v", err)
		}
	})
	return w
}

func (w *world) set() *replica.Set {
	set, err := replica.NewSet(replica.Config{
		Primary:  replica.Node{Name: "p", Connect: connect(node{primary: true})},
		Replicas: []replica.Node{{Name: "r1", Connect: connect(node{})}},
		Observer: w.hub.Replicas(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := set.Ready(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return set
}

func (w *world) router() *readpath.Router {
	r, err := readpath.New(readpath.Config{Backend: w.path, Observer: w.hub.Path(), Endpoints: map[string]readpath.Endpoint{"checkout": {Class: readpath.Critical}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) emitter() *emit.Router {
	r, err := emit.New(emit.Config{
		Observer: w.hub.Consumers(), Consumers: []emit.Consumer{
			{Name: "ledger", Replay: emit.Replay{Manual: true}, Sink: emit.SinkFunc(func(context.Context, emit.Trigger) error { return *w.sink.Load() })},
			{Name: "mailer", Types: []string{"mail"}, Sink: emit.SinkFunc(func(context.Context, emit.Trigger) error { return nil })},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// fails has ledger's sink answer with err.
func (w *world) fails(err error) { w.sink.Store(&err) }

// park has a trigger rejected by ledger.
func (w *world) park(t emit.Trigger) {
	w.t.Helper()
	w.fails(errors.Join(emit.ErrRejected, errors.New("no: "+secret)))
	if _, err := w.parts.Router.Emit(w.t.Context(), t); err != nil {
		w.t.Fatal(err)
	}
}

// serve makes a Server; change alters its Config.
func (w *world) serve(change func(*Config)) *Server {
	w.t.Helper()
	c := Config{Hub: w.hub, Source: w.std, Actions: w.std, Lab: w.lab, Redact: w.redact}
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// listen serves on loopback, and returns the address as a URL.
func (w *world) listen(s *Server) string {
	w.t.Helper()
	ln, err := s.Listen(w.t.Context(), "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Serve(ln); err != nil {
			w.t.Errorf("Serve: %v", err)
		}
	})
	w.t.Cleanup(func() { s.Close(); serving.Wait() })
	return "http://" + ln.Addr().String()
}

// A reply is what an answer is looked at for.
type reply struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request to the handler, and returns the answer with its body.
func ask(tb testing.TB, h http.Handler, method, target, body string, headers ...string) (reply, string) {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Result().Header}, w.Body.String()
}

// parsed reads JSON.
func parsed[T any](tb testing.TB, text string) (v T) {
	tb.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	return v
}

// fakeLab takes everything and remembers the newest.
type fakeLab struct {
	mu     sync.Mutex
	asked  string
	fault  FaultRequest
	load   LoadRequest
	panics bool
}

func (l *fakeLab) Status() LabStatus {
	return LabStatus{
		Targets:   []LabTarget{{Name: "r1", Scope: ScopeReplica, Faults: []string{"pause", "lag"}}},
		Scenarios: []LabScenario{{Name: "lagging", Answers: []string{"fresh", "stale"}}},
	}
}

func (l *fakeLab) note(what string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = what
	if l.panics {
		panic("the lab is out: " + secret)
	}
	return nil
}

func (l *fakeLab) Inject(_ context.Context, f FaultRequest) error {
	l.fault = f
	return l.note("inject")
}
func (l *fakeLab) Heal(context.Context) error { return l.note("heal") }
func (l *fakeLab) Play(_ context.Context, name, prediction string) error {
	return l.note("play " + name + " " + prediction)
}
func (l *fakeLab) Stop(context.Context) error { return l.note("stop") }
func (l *fakeLab) Load(r LoadRequest) error {
	l.load = r
	return l.note("load")
}
