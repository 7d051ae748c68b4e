package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/eventlog"
)

var update = flag.Bool("update", false, "rewrite testdata")

const password = "hunter2-4711"

// logged are the lines that Run writes of what fill publishes.
func logged(t *testing.T, c eventlog.Config, fill func(*api.Hub)) string {
	t.Helper()
	var out bytes.Buffer
	c.Output = &out
	log, err := eventlog.New(c)
	if err != nil {
		t.Fatal(err)
	}
	hub := api.NewHub(nil)
	fill(hub)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	eventlog.Run(ctx, hub, log)
	return out.String()
}

// each publishes an event of each kind that has a line of its own.
func each(hub *api.Hub) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	publish := func(e api.Event) {
		at = at.Add(time.Second)
		e.At = at
		hub.Publish(e)
	}
	lag := &api.Reason{Rule: "lag", Value: new(api.Number(0.83)), Threshold: new(api.Number(0.5)), Unit: "s", Text: "lag 0.83 s > 0.5 s (3 in a row)"}
	publish(api.Event{Kind: api.KindTransition, Scope: "replica", Name: "r1", From: "closed", To: "open", Generation: 1, Reason: lag})
	publish(api.Event{Kind: api.KindTransition, Scope: "replica", Name: "r1", From: "open", To: "half_open", Generation: 2, Reason: &api.Reason{Rule: "open_period_over", Text: "open_period_over"}})
	publish(api.Event{Kind: api.KindTransition, Scope: "replica", Name: "r1", From: "half_open", To: "closed", Generation: 3, Reason: &api.Reason{Rule: "recovered", Text: "recovered"}})
	publish(api.Event{Kind: api.KindTransition, Scope: "replica", Name: "r1", From: "half_open", To: "open", Generation: 3, Reason: &api.Reason{Rule: "probe_failure", Text: "probe_failure"}})
	publish(api.Event{Kind: api.KindTransition, Scope: "consumer", Name: "ledger", From: "closed", To: "forced_open", Generation: 1, Reason: &api.Reason{Rule: "forced", Text: "forced (maintenance)"}})
	never := &api.Reason{Rule: "lag", Value: new(api.Number(math.Inf(1))), Threshold: new(api.Number(0.5)), Unit: "s", Text: "lag +Inf s > 0.5 s"}
	publish(api.Event{Kind: api.KindWouldOpen, Scope: "replica", Name: "r2", Reason: never})
	publish(api.Event{Kind: api.KindCondition, Scope: "replica", Name: "r2", From: "ok", To: "unreachable", Text: "dial tcp: password=" + password})
	publish(api.Event{Kind: api.KindCondition, Scope: "replica", Name: "r2", From: "unreachable", To: "ok"})
	publish(api.Event{Kind: api.KindMode, From: "normal", To: "degraded", Text: "no class has the replicas"})
	publish(api.Event{Kind: api.KindMode, From: "degraded", To: "recovering", Text: "the replicas serve critical"})
	publish(api.Event{Kind: api.KindOverBudget, Name: "orders", Text: "300 critical reads a second"})
	publish(api.Event{Kind: api.KindShed, Scope: "consumer", Name: "ledger", Count: 17, Text: "shed", Error: "emit: dead letters are full"})
	publish(api.Event{Kind: api.KindParked, Scope: "consumer", Name: "ledger", Count: 1, Text: "parked: poison"})
	publish(api.Event{Kind: api.KindReload, Text: "3 changes"})
	publish(api.Event{Kind: api.KindReload, Error: "line 3: trip is \"x\"\nuse a duration"})
	publish(api.Event{Kind: api.KindAction, Name: "r1", Text: "forced_open: maintenance"})
	publish(api.Event{Kind: api.KindFault, Text: "telemetry", Error: "connection refused"})
	publish(api.Event{Kind: api.KindInjected, Name: "r1", To: "begin", Fault: "pause"})
	publish(api.Event{Kind: api.KindScenario, Name: "one-lagging", To: "failed"})
	publish(api.Event{Kind: "of another version", Text: "it has a line all the same"})
	publish(api.Event{Kind: api.KindStop})
}

// REQ-B14: each event is a line, and each change of state tells what was measured, and the threshold. The lines are pinned, since
// people search for them.
func TestLines(t *testing.T) {
	for _, format := range []string{eventlog.FormatText, eventlog.FormatJSON} {
		t.Run(format, func(t *testing.T) {
			redact := &api.Redactor{}
			redact.Add(password)
			got := logged(t, eventlog.Config{Format: format, Redact: redact}, each)
			file := filepath.Join("testdata", "lines."+format)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s\n(-update writes %s anew)", got, want, file)
			}
			if strings.Contains(got, password) {
				t.Error("a line holds a password")
			}
		})
	}
}

// A level leaves out what is below it.
func TestLevel(t *testing.T) {
	got := logged(t, eventlog.Config{Level: "error"}, each)
	if n := strings.Count(got, "\n"); n != 2 || strings.Contains(got, "level=WARN") {
		t.Errorf("got %d lines:\n%s\nwant the two errors", n, got)
	}
}

// The error names every fault.
func TestConfigFaults(t *testing.T) {
	_, err := eventlog.New(eventlog.Config{Format: "xml", Level: "loud"})
	for _, want := range []string{`"xml"`, `"loud"`, "use text or json", "use debug, info, warn or error"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
	if _, err := eventlog.New(eventlog.Config{Level: "loud"}); err == nil {
		t.Error("a wrong level was taken")
	}
}

// Secrets are taken out of what the process says itself too: messages, texts and errors.
func TestRedaction(t *testing.T) {
	var out bytes.Buffer
	redact := &api.Redactor{}
	redact.Add(password)
	log, err := eventlog.New(eventlog.Config{Output: &out, Redact: redact})
	if err != nil {
		t.Fatal(err)
	}
	log.Info("dial "+password, slog.String("dsn", password), slog.Any("error", errors.New("for "+password)), slog.Int("port", 5432))
	if got := out.String(); strings.Contains(got, password) || !strings.Contains(got, "port=5432") || !strings.Contains(got, "level=INFO") {
		t.Errorf("got %s", got)
	}
}

// A slowly is an output that waits before each line.
type slowly struct {
	open chan struct{}
	mu   sync.Mutex
	out  bytes.Buffer
}

func (s *slowly) Write(p []byte) (int, error) {
	<-s.open
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// A log that is not read holds up nobody who publishes, and says afterwards how many events it missed.
func TestSlowOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &slowly{open: make(chan struct{})}
		log, err := eventlog.New(eventlog.Config{Output: out})
		if err != nil {
			t.Fatal(err)
		}
		hub := api.NewHub(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { eventlog.Run(ctx, hub, log) })
		hub.Publish(api.Event{Kind: api.KindStop})
		synctest.Wait() // the writer waits for its output
		for range 20_000 {
			hub.Publish(api.Event{Kind: api.KindAction})
		}
		close(out.open)
		synctest.Wait()
		cancel()
		running.Wait()
		// 20,001 were published, the newest 16,384 are kept, and the first was written.
		text := out.out.String()
		if want := "before=3618 missed=3616"; !strings.Contains(text, want) || strings.Count(text, "\n") != 1+1+16384 {
			t.Errorf("got %d lines, want 16386, one of them with %q", strings.Count(text, "\n"), want)
		}
	})
}

// What was published before the end is written.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log, err := eventlog.New(eventlog.Config{Output: &out})
		if err != nil {
			t.Fatal(err)
		}
		hub := api.NewHub(nil)
		b, err := breaker.New(breaker.Config{Name: "r1", Observer: breaker.Observer{OnTransition: hub.Replicas().OnTransition}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { eventlog.Run(ctx, hub, log) })
		synctest.Wait()
		_ = b.Force(breaker.ForcedOpen, "maintenance")
		hub.Publish(api.Event{Kind: api.KindStop})
		cancel()
		running.Wait()
		if got := out.String(); !strings.Contains(got, "breaker is forced_open") || !strings.Contains(got, "stopping") {
			t.Errorf("got %s", got)
		}
	})
}
