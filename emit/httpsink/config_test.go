package httpsink

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
)

// Every fault at once, and no secret in the text.
func TestConfigFaults(t *testing.T) {
	_, err := New(Config{
		URL: "ftp://user:hunter2@/hunter2?hunter2", IdempotencyHeader: "ce-id", MaxConns: -1, TLS: &tls.Config{MinVersion: tls.VersionTLS13},
		Header: http.Header{"Authorization": {"hunter2"}, "Content-Type": {"hunter2"}, "Bad Name": {"hunter2"}, "X-Key": {"hunter2\n"}},
	})
	for _, want := range []string{
		`URL is of scheme "ftp": use http`, "URL has no host", "URL has a user in it: use the field Authorization",
		`IdempotencyHeader is "Ce-Id": use`, "MaxConns is -1: use", "Header has Authorization: use the field",
		"Header has Content-Type, which is set", `Header has the name "Bad Name"`, "control characters in a value of X-Key",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the secret is in: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a.test":                "",
		"https://a.test:8443/x?y#z":    "",
		"HTTP://[::1]:80/":             "",
		"":                             "URL is empty",
		"http://a.test/%zz?hunter2":    "URL cannot be parsed",
		"http://a b.test/?hunter2":     "URL cannot be parsed",
		"a.test/hunter2":               "is of scheme",
		"http:///hunter2":              "has no host",
		"http://:80/hunter2":           "has no host",
		"http://hunter2@a.test":        "Authorization",
		"unix:///var/run/hunter2":      "is of scheme",
		"http://a.test:65536/hunter2":  "has a port",
		"http://a.test:0/hunter2":      "has a port",
		"http://a.test:99999999/x\x7f": "URL cannot be parsed",
	} {
		_, err := New(Config{URL: raw})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", raw, err, want)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%q: the secret is in %v", raw, err)
		}
	}
	if _, err := New(Config{URL: "http://a.test", TLS: &tls.Config{MinVersion: tls.VersionTLS13}}); err == nil {
		t.Error("TLS over http is taken")
	}
}

// The Config is the caller's again after New.
func TestConfigIsCopied(t *testing.T) {
	got := make(chan string, 1)
	s := serve(t, func(_ http.ResponseWriter, req *http.Request) { got <- req.Header.Get("X-Key") })
	c := Config{URL: s.URL, Header: http.Header{"X-Key": {"before"}}}
	sink := newSink(t, c)
	c.Header.Set("X-Key", "after")
	if err := sink.Deliver(t.Context(), trigger()); err != nil {
		t.Fatal(err)
	}
	if got := <-got; got != "before" {
		t.Errorf("got %q", got)
	}
}
