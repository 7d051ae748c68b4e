package api

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
)

func TestStatus(t *testing.T) {
	w := newWorld(t)
	st := w.std.Status()
	if r := st.Replicas[0]; r.Name != "r1" || r.LoMS == nil || r.HiMS == nil || !r.TakesReads || r.LastRun == nil || r.Breaker.State != breaker.Closed || r.Breaker.LastTrip != nil {
		t.Errorf("replica: got %+v", r)
	}
	if st.Primary == nil || st.Primary.Name != "p" || *st.Settings.TripMS != 500 || st.Settings.OpenMaxMS != 60_000 {
		t.Errorf("got %+v, %+v", st.Primary, st.Settings)
	}
	if p := st.ReadPath; p.Mode != readpath.Normal || p.Degraded || p.Since != nil || p.RatePerSec != 200 || p.Processes != 1 || p.Served[readpath.Critical] != "the replicas" {
		t.Errorf("read path: got %+v", p)
	}
	if c := st.Consumers[0]; c.Name != "ledger" || c.TimeoutMS != 200 || c.Bulkhead != 16 || c.Depth.OldestAgeMS != nil || c.Breaker.Latency != nil {
		t.Errorf("consumer: got %+v", c)
	}

	w.park(emit.Trigger{Type: "order", Priority: "compliance"})
	if d := w.std.Status().Consumers[0].Depth; d.Letters != 1 || d.Parked != 1 || d.ByPriority["compliance"] != 1 || d.OldestAgeMS == nil {
		t.Errorf("depth: got %+v", d)
	}
	if l := w.std.Status().Consumers[0].Breaker.Latency; l == nil || l.Calls != 1 {
		t.Errorf("latency after a call: got %+v, want one call", l)
	}
}

// A trip is told with its reason while the breaker is open and after it has closed, and no text has the secret.
func TestStatusOfATrip(t *testing.T) {
	w := newWorld(t)
	b := w.parts.Set.Breaker("r1")
	p, err := b.Allow()
	if err != nil {
		t.Fatal(err)
	}
	p.DoneAs(breaker.Fatal, errors.New("connect with "+secret))
	open := w.std.Status().Replicas[0]
	if open.Breaker.State != breaker.Open || open.TakesReads || open.Breaker.RetryAfterMS <= 0 || open.Breaker.Reason.Rule != breaker.RuleFatal {
		t.Errorf("got %+v", open)
	}
	if err := w.std.Force("r1", breaker.Closed, "test"); err != nil {
		t.Fatal(err)
	}
	trip := w.std.Status().Replicas[0].Breaker.LastTrip
	if trip == nil || trip.Reason.Rule != breaker.RuleFatal || !strings.Contains(trip.Reason.Text, "connect with …") {
		t.Errorf("got %+v", trip)
	}
}

// While no replica is eligible the status says what each class gets instead (REQ-D7).
func TestStatusDegraded(t *testing.T) {
	w := newWorld(t)
	w.path.eligible.Store(false)
	events, _, err := w.hub.Next(t.Context(), 0)
	for err == nil && events[len(events)-1].Kind != KindMode {
		events, _, err = w.hub.Next(t.Context(), events[len(events)-1].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	p := w.std.Status().ReadPath
	if p.Mode != readpath.Degraded || !p.Degraded || p.Since == nil || len(p.Withheld) != 3 {
		t.Errorf("got %+v", p)
	}
	for class, want := range map[readpath.Class]string{
		readpath.Critical:   "the primary within its budget, else refused: retry after 2 s",
		readpath.Degradable: "the primary within its budget; else the endpoint's default, flagged stale",
		readpath.Sheddable:  "the endpoint's default, else refused: retry after 5 s",
	} {
		if got := p.Served[class]; got != want {
			t.Errorf("%v: got %q, want %q", class, got, want)
		}
	}
}

// Changes that an operator makes at the same time are all in force afterwards.
func TestChangesTogether(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		var both sync.WaitGroup
		both.Go(func() { _ = w.std.Budget(new(float64(1+i)), nil) })
		both.Go(func() { _ = w.std.Budget(nil, new(1+i)) })
		both.Wait()
		if b := w.parts.Path.Config().Budget; b.Rate != float64(1+i) || b.Burst != 1+i {
			t.Fatalf("got %+v, want both changes of round %d", b, i)
		}
	}
	var all sync.WaitGroup
	for _, change := range []func() error{
		func() error { return w.std.Budget(new(300.0), nil) },
		func() error { return w.std.Budget(nil, new(50)) },
		func() error { return w.std.Tune("r1", Tuning{TripMS: new(600.0)}) },
		func() error { return w.std.Tune("r1", Tuning{Breaches: new(5)}) },
		func() error { return w.std.Tune("ledger", Tuning{Bulkhead: new(9)}) },
		func() error { return w.std.Tune("mailer", Tuning{TimeoutMS: new(500.0)}) },
		func() error { return w.std.Tune("ledger", Tuning{OpenMaxMS: new(5000.0)}) },
	} {
		all.Go(func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	b, set, emits := w.parts.Path.Config().Budget, w.parts.Set.Settings(), w.parts.Router.Config()
	if b.Rate != 300 || b.Burst != 50 || set.Trip != 600*time.Millisecond || set.Breaches != 5 {
		t.Errorf("got %+v, %v, %d", b, set.Trip, set.Breaches)
	}
	ledger, mailer := consumerOf(&emits, "ledger"), consumerOf(&emits, "mailer")
	if ledger.Bulkhead != 9 || mailer.Timeout != 500*time.Millisecond || ledger.Breaker.Open.Max != 5*time.Second || ledger.Breaker.Open.Base != 100*time.Millisecond {
		t.Errorf("got %+v, %+v", ledger, mailer)
	}
}

// A change of one threshold leaves the others as they are, also those that are off, whose zero would be the default.
func TestChangeLeavesTheRest(t *testing.T) {
	w := newWorld(t)
	st := w.parts.Set.Settings()
	st.Open.Sticky, st.Open.Jitter, st.Grace, st.Ramp = -1, -1, -1, -1
	if err := w.parts.Set.Reconfigure(st); err != nil {
		t.Fatal(err)
	}
	want := w.parts.Set.Settings()
	want.Failures = 7
	if err := w.std.Tune("r1", Tuning{Failures: new(7)}); err != nil {
		t.Fatal(err)
	}
	if got := w.parts.Set.Settings(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// reloaded is a Source whose file had a fault.
type reloaded struct{ *Standard }

func (r reloaded) Status() Status {
	st := r.Standard.Status()
	st.Reload = &Reload{Error: "bad: " + secret}
	return st
}

// What everything says of a run in which the secret was in errors and in payloads: nowhere is it said (REQ-O4).
func TestSecretsStayHere(t *testing.T) {
	w := newWorld(t)
	w.park(emit.Trigger{Type: "order", Data: []byte("pay with " + secret)})
	w.fails(errors.New("dial: " + secret))
	for range 50 {
		if _, err := w.parts.Router.Emit(t.Context(), emit.Trigger{Type: "order"}); err != nil {
			t.Fatal(err)
		}
	}
	s := w.serve(func(c *Config) {
		c.Source = reloaded{w.std}
		c.Ready = func() error { return errors.New("not ready: " + secret) }
	})
	h := s.Handler()
	for _, target := range []string{
		"/readyz", "/api/v1/status", "/api/v1/history", "/api/v1/export", "/api/v1/dead-letters?consumer=ledger&payload=1",
		"/api/v1/events?after=" + secret, "/api/v1/" + secret, "/api/v1/dead-letters?consumer=" + secret,
	} {
		if _, body := ask(t, h, "GET", target, ""); strings.Contains(body, secret) {
			t.Errorf("%s: %s", target, body)
		}
	}
	if _, body := ask(t, h, "POST", "/api/v1/breakers/r1", `{"state":"auto","reason":"`+secret+`"}`); strings.Contains(body, secret) {
		t.Errorf("an action: %s", body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.listen(s)+"/api/v1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var seen strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(answer.Body, &seen)); lines.Scan(); {
		if lines.Text() == "event: status" {
			break
		}
	}
	if text := seen.String(); strings.Contains(text, secret) || !strings.Contains(text, "dial: …") {
		t.Errorf("the stream: %s", text)
	}
}

// Durations are told as people write them.
func TestSpoken(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Minute: "5 min", 90 * time.Second: "90 s", 1500 * time.Millisecond: "1.5 s", 250 * time.Millisecond: "250 ms", 2 * time.Hour: "2 h"} {
		if got := spoken(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
