package httpbreaker

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// New names every fault at once by the name of its own field.
func TestTooManyKeysAreNamed(t *testing.T) {
	tr, err := New(Config{MaxKeys: 2_000_000, SlowCall: -1})
	if err == nil || tr != nil {
		t.Fatalf("got %v, %v, want an error alone", tr, err)
	}
	for _, want := range []string{"MaxKeys is 2000000", "SlowCall is -1ns"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
}

// A request that net/http refuses to send as it is counts for nothing.
func TestUnsendableRequestsCountForNothing(t *testing.T) {
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done() // an answer must not come before the client has found out
	}).URL
	for name, spoil := range map[string]func(*http.Request){
		"line break in the query":    func(r *http.Request) { r.URL.RawQuery = "q=a\nb" },
		"control character, opaque":  func(r *http.Request) { r.URL.Opaque = "/a\x01" },
		"trailer":                    func(r *http.Request) { r.Trailer = http.Header{"a b": {"x"}}; post(r, "x", -1) },
		"trailer's value":            func(r *http.Request) { r.Trailer = http.Header{"A": {"x\n"}}; post(r, "x", -1) },
		"body shorter than it says":  func(r *http.Request) { post(r, "short", 100) },
		"body longer than it says":   func(r *http.Request) { post(r, strings.Repeat("long", 100), 3) },
		"body empty, though it says": func(r *http.Request) { post(r, "", 3) },
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTransport(t, Config{Key: func(*http.Request) string { return "key" }})
			req := newRequest(t, url)
			spoil(req)
			_, _, err := fetch(tr, req)
			if err == nil {
				t.Fatal("it was sent")
			}
			wantCounts(t, tr.Breaker("key"), 0, 0, 1)
		})
	}
}

func post(r *http.Request, body string, length int64) {
	r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(body)), length
}
