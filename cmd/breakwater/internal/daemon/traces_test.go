package daemon

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// REQ-B14: what is emitted has spans, which go to the collector that the file names; the last ones at the end of the process.
func TestSpansAreSent(t *testing.T) {
	type request struct{ path, key, body string }
	got := make(chan request, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var from io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			from, _ = gzip.NewReader(r.Body)
		}
		body, _ := io.ReadAll(from)
		got <- request{r.URL.Path, r.Header.Get("Api-Key"), string(body)}
	}))
	t.Cleanup(collector.Close)
	t.Setenv("TEST_OTLP_HEADERS", "api-key=a-secret-of-the-collector")
	k := newTaker(t)
	r := start(t, configured(t, "tracing: {endpoint: '"+strings.TrimPrefix(collector.URL, "http://")+"', headers_env: TEST_OTLP_HEADERS, sample_ratio: 1, insecure: true}\n"+
		"consumers: [{name: ledger, url: '"+k.URL+"'}]\n"))
	if status, answer := r.emit("1"); status != http.StatusAccepted {
		t.Fatal(status, answer)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	select {
	case one := <-got:
		if one.path != "/v1/traces" || one.key != "a-secret-of-the-collector" || !strings.Contains(one.body, "ledger") {
			t.Errorf("got a request to %s with key %q, want the spans of ledger", one.path, one.key)
		}
	default:
		t.Error("nothing was sent")
	}
}

// The flight recorder is there where the file asks for it.
func TestFlightRecorder(t *testing.T) {
	k := newTaker(t)
	consumers := "consumers: [{name: ledger, url: '" + k.URL + "'}]\n"
	r := start(t, configured(t, "flight_recorder: true\n"+consumers))
	if status, answer := r.do("GET", "/api/v1/flight", ""); status != http.StatusOK {
		t.Errorf("got %d %s, want 200", status, answer)
	}
	_ = r.stop()
	r = start(t, configured(t, consumers))
	if status, answer := r.do("GET", "/api/v1/flight", ""); status != http.StatusNotFound {
		t.Errorf("without it: got %d %s, want 404", status, answer)
	}
}
