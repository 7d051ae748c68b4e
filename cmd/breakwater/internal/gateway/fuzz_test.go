package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// Whatever is sent is answered: no panic, and no 5xx but the 503 of back pressure. What is answered with 202 can be delivered as an event.
func FuzzEmit(f *testing.F) {
	f.Add("POST", oneType, "", "", event("1", `"data_base64":"AA=="`), false)
	f.Add("POST", batchType, "", "1", "["+event("1")+",7,{}]", false)
	f.Add("POST", "application/json", "1.0", "a%20b", `{"a":1}`, true)
	f.Add("PUT", "text/plain; charset=\xff", "0.3", "%z", "\xff", true)
	f.Add("POST", oneType, "", "", strings.Repeat("[", 5000), false)
	router := newRouter(f, emit.Consumer{Name: "billing", Sink: &taker{fail: func(t emit.Trigger) error {
		if len(t.Data)%2 == 1 {
			return errors.New("down")
		}
		return nil
	}}})
	g, err := New(Config{Router: func() *emit.Router { return router }, MaxBody: 8 << 10, MaxBatchBody: 16 << 10, MaxBatch: 10, Memory: 1 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, media, version, id, body string, attributes bool) {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/emit", strings.NewReader(body))
		req.Method = method
		req.Header = http.Header{"Content-Type": {media}}
		if attributes {
			req.Header["Ce-Specversion"], req.Header["Ce-Id"] = []string{version}, []string{id}
			req.Header["Ce-Source"], req.Header["Ce-Type"] = []string{"/s"}, []string{"t"}
		} else {
			req.Header.Set("Breakwater-Handover", id)
		}
		w := httptest.NewRecorder()
		g.ServeHTTP(w, req)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable || w.Code < 202 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("got %q, which is no JSON", w.Body)
		}
	})
}
