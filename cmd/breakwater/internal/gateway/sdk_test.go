package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"

	"github.com/breakwater-go/breakwater/emit"
)

// sdkEvent is one as the SDK for Go makes it.
func sdkEvent(t *testing.T, id string) cloudevents.Event {
	t.Helper()
	e := cloudevents.NewEvent()
	e.SetID(id)
	e.SetType("order.paid")
	e.SetSource("/shop")
	e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	e.SetExtension("partitionkey", "c7")
	e.SetExtension("priority", "compliance")
	e.SetExtension("attempt", 3)
	if err := e.SetData("application/json", map[string]int{"sum": 1}); err != nil {
		t.Fatal(err)
	}
	return e
}

// What the CloudEvents SDK sends is taken as it was meant, and what is not taken it hears of.
func TestTheSDKSends(t *testing.T) {
	sink := &taker{}
	url := serve(t, of(newRouter(t, emit.Consumer{Name: "billing", Sink: sink})))
	transport := &http.Transport{DisableKeepAlives: true}
	client, err := cloudevents.NewClientHTTP(cloudevents.WithTarget(url), cloudevents.WithRoundTripper(transport))
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]func(context.Context) context.Context{
		"binary": cloudevents.WithEncodingBinary, "structured": cloudevents.WithEncodingStructured,
	} {
		if result := client.Send(mode(t.Context()), sdkEvent(t, name)); !cloudevents.IsACK(result) {
			t.Errorf("%s: %v", name, result)
		}
	}
	both, err := json.Marshal([]cloudevents.Event{sdkEvent(t, "batch"), sdkEvent(t, "batch")})
	if err != nil {
		t.Fatal(err)
	}
	if got := post(t, url, cloudevents.ApplicationCloudEventsBatchJSON, string(both)); got.status != 202 {
		t.Errorf("batch: got %d %s", got.status, got.text)
	}
	got := sink.triggers()
	if len(got) != 4 {
		t.Fatalf("got %d triggers, want 4", len(got))
	}
	for _, tr := range got {
		if tr.Key != "c7" || tr.Priority != "compliance" || string(tr.Data) != `{"sum":1}` || tr.Attributes["attempt"] != "3" || len(tr.Attributes) != 1 {
			t.Errorf("got %+v", tr)
		}
	}
	bad := sdkEvent(t, "bad")
	bad.SetExtension("priority", "urgent")
	if result := client.Send(t.Context(), bad); cloudevents.IsACK(result) {
		t.Error("what was not taken the SDK has for taken")
	}
}
