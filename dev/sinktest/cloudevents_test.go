package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/client"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/faultsink"
	"github.com/breakwater-go/breakwater/emit/httpsink"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Check(m.Run())) }

// receiver is the SDK's, on a real socket: it hands each event to got and answers as answer says.
func receiver(t *testing.T, answer func(cloudevents.Event) error) (url string, got <-chan cloudevents.Event, conns *atomic.Int64) {
	t.Helper()
	events := make(chan cloudevents.Event, 100)
	p, err := cloudevents.NewHTTP()
	if err != nil {
		t.Fatal(err)
	}
	h, err := client.NewHTTPReceiveHandler(t.Context(), p, func(_ context.Context, e cloudevents.Event) error {
		events <- e
		return answer(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int64)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, events, conns
}

func newSink(t *testing.T, url string, structured bool) *httpsink.Sink {
	t.Helper()
	s, err := httpsink.New(httpsink.Config{URL: url, Structured: structured})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.CloseIdleConnections)
	return s
}

func full() emit.Trigger {
	return emit.Trigger{
		ID: "a-1", Type: "order.paid", Source: "/shop/7", Subject: "order-9", Key: "customer-7",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), ContentType: "application/json", Data: []byte(`{"sum": 1e2, "x": "<&>"}`),
		Attributes: map[string]string{"traceparent": "00-ab-cd-01", "dataschema": "https://x.test/s"},
	}
}

// want compares an event with the trigger that it came from.
func want(t *testing.T, name string, e cloudevents.Event, tr emit.Trigger) {
	t.Helper()
	if err := e.Validate(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	extensions := map[string]string{"partitionkey": tr.Key, "dataschema": tr.Attributes["dataschema"], "traceparent": tr.Attributes["traceparent"]}
	seen := map[string]string{"dataschema": e.DataSchema(), "partitionkey": "", "traceparent": ""}
	for name, value := range e.Extensions() {
		seen[name] = fmt.Sprint(value)
	}
	got := []string{e.SpecVersion(), e.ID(), e.Type(), e.Source(), e.Subject(), e.Time().Format(time.RFC3339Nano), e.DataContentType(), string(e.Data())}
	wanted := []string{"1.0", tr.ID, tr.Type, tr.Source, tr.Subject, tr.Time.Format(time.RFC3339Nano), tr.ContentType, string(tr.Data)}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", wanted) || !maps.Equal(seen, extensions) {
		t.Errorf("%s:\ngot  %q %q\nwant %q %q", name, got, seen, wanted, extensions)
	}
}

// What is sent in either mode the SDK receives, on one connection.
func TestTheSDKReceives(t *testing.T) {
	for _, structured := range []bool{false, true} {
		url, got, conns := receiver(t, func(cloudevents.Event) error { return nil })
		sink := newSink(t, url, structured)
		for name, change := range map[string]func(*emit.Trigger){
			"all":     func(*emit.Trigger) {},
			"no data": func(tr *emit.Trigger) { tr.Data = nil },
			"text":    func(tr *emit.Trigger) { tr.ContentType, tr.Data = "text/plain", []byte("a\r\nü") },
			"bytes":   func(tr *emit.Trigger) { tr.ContentType, tr.Data = "application/x-avro", []byte{0, 0xff, '"'} },
			"+json":   func(tr *emit.Trigger) { tr.ContentType = "application/vnd.shop+json" },
		} {
			tr := full()
			change(&tr)
			if err := sink.Deliver(t.Context(), tr); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want(t, fmt.Sprintf("%s, structured %v", name, structured), <-got, tr)
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("structured %v: %d connections, want 1", structured, n)
		}
	}
}

// What needs encoding in a header arrives whole in structured mode. In binary mode this version of the SDK leaves the specification's percent signs
// in; that they are there, and right, is what can be seen.
func TestTheSDKReceivesWhatNeedsEncoding(t *testing.T) {
	for structured, wanted := range map[bool]string{true: `Euro € "1"`, false: "Euro%20%E2%82%AC%20%221%22"} {
		url, got, _ := receiver(t, func(cloudevents.Event) error { return nil })
		tr := full()
		tr.Subject = `Euro € "1"`
		if err := newSink(t, url, structured).Deliver(t.Context(), tr); err != nil {
			t.Fatal(err)
		}
		if e := <-got; e.Subject() != wanted {
			t.Errorf("structured %v: got %q, want %q", structured, e.Subject(), wanted)
		}
	}
}

// What the SDK's receiver answers means what REQ-E15 says.
func TestTheSDKAnswers(t *testing.T) {
	var answer error
	url, _, _ := receiver(t, func(cloudevents.Event) error { return answer })
	sink := newSink(t, url, false)
	for status, rejected := range map[int]bool{400: true, 403: true, 429: false, 500: false, 503: false} {
		answer = cehttp.NewResult(status, "%w", errors.New("said"))
		if err := sink.Deliver(t.Context(), full()); err == nil || errors.Is(err, emit.ErrRejected) != rejected {
			t.Errorf("%d: got %v", status, err)
		}
	}
	answer = nil
	if err := sink.Deliver(t.Context(), full()); err != nil {
		t.Error(err)
	}
}

// And what the SDK sends, faultsink's Handler takes.
func TestTheSDKSends(t *testing.T) {
	got := make(chan emit.Trigger, 1)
	s, err := faultsink.New(faultsink.Config{Next: emit.SinkFunc(func(_ context.Context, tr emit.Trigger) error {
		got <- tr
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(faultsink.Handler{Sink: s})
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(server.URL), cloudevents.WithRoundTripper(transport))
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]func(context.Context) context.Context{
		"binary": cloudevents.WithEncodingBinary, "structured": cloudevents.WithEncodingStructured,
	} {
		tr := full()
		e := cloudevents.NewEvent()
		e.SetID(tr.ID)
		e.SetType(tr.Type)
		e.SetSource(tr.Source)
		e.SetSubject(tr.Subject)
		e.SetTime(tr.Time)
		e.SetExtension("partitionkey", tr.Key)
		if err := e.SetData(tr.ContentType, tr.Data); err != nil {
			t.Fatal(err)
		}
		if result := c.Send(mode(t.Context()), e); !cloudevents.IsACK(result) {
			t.Fatalf("%s: %v", name, result)
		}
		if in := <-got; in.ID != tr.ID || in.Key != tr.Key || !in.Time.Equal(tr.Time) || !bytes.Equal(in.Data, tr.Data) {
			t.Errorf("%s: got %+v", name, in)
		}
	}
}
