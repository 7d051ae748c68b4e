package flight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks the routes of a Recorder.
func get(t *testing.T, r *Recorder, path string) *httptest.ResponseRecorder {
	t.Helper()
	mux := http.NewServeMux()
	for _, route := range r.Routes() {
		mux.Handle(route.Pattern, route.Handler)
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
	return w
}

func listed(t *testing.T, r *Recorder) []Snapshot {
	t.Helper()
	var list struct{ Snapshots []Snapshot }
	if err := json.Unmarshal(get(t, r, "/api/v1/flight").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Snapshots
}

// A breaker that opens leaves a trace that the tool of Go reads, with a mark of the opening.
func TestAnOpeningLeavesATrace(t *testing.T) {
	r, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	hub := api.NewHub(nil)
	b, err := breaker.New(breaker.Config{
		Name: "r1", Rules: []breaker.Rule{breaker.ConsecutiveFailures{Count: 1}}, Observer: breaker.Observer{OnTransition: hub.Replicas().OnTransition},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = breaker.Do(t.Context(), b, func(context.Context) (int, error) { return 0, errors.New("down") })
	events, _, err := hub.Next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.see(t.Context(), &events[0]); err != nil {
		t.Fatal(err)
	}
	got := listed(t, r)
	if len(got) != 1 || got[0].ID != 1 || got[0].Name != "r1" || got[0].Scope != "replica" || !strings.Contains(got[0].Reason, "consecutive_failures") {
		t.Fatalf("got %+v, want the opening of r1", got)
	}
	w := get(t, r, "/api/v1/flight/1")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/octet-stream" || w.Body.Len() != got[0].Bytes {
		t.Fatalf("got %d, %v, %d bytes, want %d", w.Code, w.Header(), w.Body.Len(), got[0].Bytes)
	}
	if text := parsed(t, w.Body.Bytes()); !strings.Contains(text, `"opened: replica r1"`) {
		t.Error("the trace has no mark of the opening")
	}
}

// parsed is what `go tool trace` reads in a trace.
func parsed(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flight.trace")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "tool", "trace", "-d=parsed", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// A process can have one recorder.
func TestOneRecorder(t *testing.T) {
	r, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{}); err == nil {
		t.Error("a second one was started")
	}
	r.Close()
	again, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// The newest snapshots are kept, one in a time; other events make none.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRecorder(Config{Keep: 2}.withDefaults(), func(b *bytes.Buffer) error {
			n++
			_, err := b.WriteString(strings.Repeat("x", n))
			return err
		}, func() {})
		hub := api.NewHub(nil)
		hub.Publish(api.Event{Kind: api.KindTransition, Name: "before", To: "open"})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx, hub) })
		synctest.Wait()
		hub.Publish(api.Event{Kind: api.KindTransition, Name: "r1", To: "closed"})
		hub.Publish(api.Event{Kind: api.KindCondition, Name: "r1", To: "open"})
		for _, name := range []string{"r1", "r2", "r3", "r4"} {
			hub.Publish(api.Event{Kind: api.KindTransition, Name: name, To: "open"})
			time.Sleep(5 * time.Second)
		}
		hub.Publish(api.Event{Kind: api.KindTransition, Name: "r5", To: "open"})
		synctest.Wait()
		cancel()
		running.Wait()
		got := r.Snapshots()
		if n != 3 || len(got) != 2 || got[0].Name != "r5" || got[1].Name != "r3" || got[0].Bytes != 3 {
			t.Errorf("made %d, kept %+v, want of r1, r3 and r5 the last two, the newest first", n, got)
		}
		if w := get(t, r, "/api/v1/flight/4"); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "room") {
			t.Errorf("one that has gone: got %d, %s", w.Code, w.Body)
		}
		if w := get(t, r, "/api/v1/flight/8"); w.Code != http.StatusOK || w.Body.String() != "xxx" {
			t.Errorf("the newest: got %d, %q", w.Code, w.Body)
		}
	})
}

// A snapshot that fails is a fault of the process, and told.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(Config{}.withDefaults(), func(*bytes.Buffer) error { return errors.New("no room") }, func() {})
		hub := api.NewHub(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx, hub) })
		synctest.Wait()
		hub.Publish(api.Event{Kind: api.KindTransition, Name: "r1", To: "open"})
		synctest.Wait()
		cancel()
		running.Wait()
		kept := hub.Kept()
		if last := kept[len(kept)-1]; last.Kind != api.KindFault || last.Error != "no room" {
			t.Errorf("got %+v, want a fault", last)
		}
		time.Sleep(time.Minute) // the Hub's timer
		if got := len(r.Snapshots()); got != 0 {
			t.Errorf("got %d snapshots", got)
		}
	})
}

// The error names every fault.
func TestConfigFaults(t *testing.T) {
	_, err := Start(Config{MinAge: -1, MaxBytes: -1, Keep: -1, Every: -1})
	for _, want := range []string{"MinAge is -1", "MaxBytes is -1", "Keep is -1", "Every is -1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
