package telemetry

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/breakwater-go/breakwater/breaker"
	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "hunter2-4711"

// received is what a collector got.
type received struct {
	mu     sync.Mutex
	auth   string
	names  []string
	labels map[string]string // of the resource
}

// collect starts a collector.
func collect(t *testing.T) (*received, string) {
	t.Helper()
	got := &received{labels: map[string]string{}}
	server := httptest.NewServer(got)
	t.Cleanup(server.Close)
	return got, server.URL
}

// ServeHTTP is a collector's /v1/traces.
func (r *received) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != "/v1/traces" {
		http.NotFound(w, req)
		return
	}
	body, err := gzip.NewReader(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	raw, _ := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &export); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.take(req.Header.Get("Authorization"), &export)
}

func (r *received) take(auth string, export *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.auth = auth
	for _, resource := range export.GetResourceSpans() {
		for _, a := range resource.GetResource().GetAttributes() {
			r.labels[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.names = append(r.names, span.GetName())
			}
		}
	}
}

func start(t *testing.T, c Config) *Telemetry {
	t.Helper()
	tel, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// call makes a span.
func call(t *testing.T, tel *Telemetry) {
	t.Helper()
	b, err := breaker.New(breaker.Config{Name: "prices", Observer: breaker.Observer{OnTransition: tel.Tracer().OnTransition("api")}})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = otelbreaker.Do(t.Context(), tel.Tracer(), "price", b, func(context.Context) (int, error) { return 7, nil })
	_ = b.Force(breaker.ForcedOpen, "test")
}

// REQ-B14: spans reach a collector, with the resource and the headers; Close sends what is queued.
func TestExport(t *testing.T) {
	got, url := collect(t)
	tel := start(t, Config{Endpoint: url, Insecure: true, SampleRatio: 1, Headers: "authorization=Bearer%20" + secret, Version: "v1", Instance: "a"})
	call(t, tel)
	if err := tel.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Sort(got.names); !slices.Equal(got.names, []string{"circuit_breaker forced_open", "price"}) {
		t.Errorf("got the spans %v", got.names)
	}
	if want := "Bearer " + secret; got.auth != want {
		t.Errorf("got the header %q, want %q", got.auth, want)
	}
	if got.labels["service.name"] != "breakwater" || got.labels["service.version"] != "v1" || got.labels["service.instance.id"] != "a" {
		t.Errorf("got the resource %v", got.labels)
	}
	if s := tel.Stats(); s != (Stats{Sent: 2}) {
		t.Errorf("got %+v, want 2 sent", s)
	}
}

// The environment may name the service.
func TestServiceNameOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	got, url := collect(t)
	tel := start(t, Config{Endpoint: url, Insecure: true, SampleRatio: 1})
	call(t, tel)
	_ = tel.Close(t.Context())
	if got.labels["service.name"] != "shop" {
		t.Errorf("got the resource %v", got.labels)
	}
}

// Whatever share of traces is kept, changes of state are.
func TestTransitionsAreKept(t *testing.T) {
	got, url := collect(t)
	tel := start(t, Config{Endpoint: url, Insecure: true, SampleRatio: -1})
	call(t, tel)
	_ = tel.Close(t.Context())
	if !slices.Equal(got.names, []string{"circuit_breaker forced_open"}) {
		t.Errorf("got the spans %v, want the change alone", got.names)
	}
}

// A collector that cannot be reached, or refuses, is told of; the calls go on, and the end is in time.
func TestUnreachableCollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	var told []error
	tel := start(t, Config{Endpoint: server.URL, Insecure: true, SampleRatio: 1, Timeout: 10 * time.Millisecond, Failed: func(err error) { told = append(told, err) }})
	call(t, tel)
	if err := tel.Close(t.Context()); err != nil {
		t.Errorf("got %v", err)
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), "2 spans could not be sent") {
		t.Errorf("told %v, want one failure", told)
	}
	if s := tel.Stats(); s != (Stats{Lost: 2}) {
		t.Errorf("got %+v, want 2 lost", s)
	}
}

// A collector that does not answer holds up neither callers, of more spans than the queue has room for, nor the end beyond its deadline.
func TestHangingCollector(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	tel := start(t, Config{Endpoint: server.URL, Insecure: true, SampleRatio: 1, Timeout: time.Hour})
	tracer := tel.Provider().Tracer("test")
	for range 3 * queueSize {
		_, span := tracer.Start(t.Context(), "price")
		span.End()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tel.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the time is over", err)
	}
}

// broken is an exporter that never sends.
type broken struct{ *tracetest.NoopExporter }

func (broken) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return errors.New("down") }

// Failures are told once a minute at most, with what was lost since.
func TestFailuresAreToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		e := newExporter(broken{}, func(err error) { told = append(told, err.Error()) })
		spans := make([]sdktrace.ReadOnlySpan, 3)
		for range 120 {
			_ = e.ExportSpans(t.Context(), spans)
			time.Sleep(time.Second)
		}
		want := []string{"3 spans could not be sent: down", "180 spans could not be sent: down"}
		if !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
		if got := e.lost.Load(); got != 360 {
			t.Errorf("lost %d, want 360", got)
		}
	})
}

// Check names every fault, and none of what is secret.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		want   []string
	}{
		{
			"all",
			Config{Endpoint: "http://user:" + secret + "@host", Headers: secret, SampleRatio: 2, Timeout: -1},
			[]string{"Endpoint", "Headers", "SampleRatio is 2", "Timeout is -1ns"},
		},
		{"none", Config{}, []string{"Endpoint"}},
		{"clear", Config{Endpoint: "http://host:4318"}, []string{"Insecure"}},
		{"query", Config{Endpoint: "https://host:4318?key=" + secret}, []string{"query"}},
		{"scheme", Config{Endpoint: "grpc://host:4317"}, []string{`"grpc"`}},
		{"good", Config{Endpoint: "host:4318"}, nil},
		{"also good", Config{Endpoint: "https://host/otlp", Headers: "a=b, c=d%20e"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.config.Check()
			if (err == nil) != (c.want == nil) {
				t.Errorf("got %v, want faults: %v", err, c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q in it", err, want)
				}
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds a secret: %v", err)
			}
			tel, started := Start(t.Context(), c.config)
			if (started == nil) != (c.want == nil) {
				t.Errorf("Start: got %v", started)
			}
			_ = tel.Close(t.Context())
		})
	}
}

// The endpoint gets a scheme and a path where it has none.
func TestEndpoint(t *testing.T) {
	for _, c := range []struct{ endpoint, want string }{
		{"host:4318", "https://host:4318/v1/traces"},
		{"https://host/", "https://host/v1/traces"},
		{"https://host/otlp/v1/traces", "https://host/otlp/v1/traces"},
	} {
		got, err := Config{Endpoint: c.endpoint}.endpoint()
		if err != nil || got.String() != c.want {
			t.Errorf("%s: got %v, %v, want %s", c.endpoint, got, err, c.want)
		}
	}
	if got, err := (Config{Endpoint: "host:4318", Insecure: true}).endpoint(); err != nil || got.Scheme != "http" {
		t.Errorf("insecure: got %v, %v", got, err)
	}
}

// Secrets are the headers' values, and the token in one.
func TestSecrets(t *testing.T) {
	got := Config{Headers: "authorization=Bearer%20" + secret}.Secrets()
	if !slices.Contains(got, secret) || !slices.Contains(got, "Bearer "+secret) {
		t.Errorf("got %v", got)
	}
}

// A nil Telemetry is off.
func TestOff(t *testing.T) {
	var off *Telemetry
	if off.Tracer() != nil || off.Provider() != nil || off.Close(t.Context()) != nil || off.Stats() != (Stats{}) {
		t.Error("a nil Telemetry is not off")
	}
}
