package httpbreaker

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/breaker"
)

func TestHost(t *testing.T) {
	for raw, want := range map[string]string{
		"http://api.test/x":                 "api.test:80",
		"https://api.test/x":                "api.test:443",
		"https://API.Test:443/x":            "api.test:443",
		"HTTPS://api.test.:8443":            "api.test:8443",
		"https://user:secret@api.test/":     "api.test:443",
		"http://[2001:DB8::1]/":             "[2001:db8::1]:80",
		"http://[2001:db8::1]:8080/?k=v#f":  "[2001:db8::1]:8080",
		"custom://api.test/":                "api.test",
		"/no/host":                          "",
		"http://api.test/?token=secret@x:9": "api.test:80",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := Host(&http.Request{URL: u}); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	if got := Host(&http.Request{}); got != "" {
		t.Errorf("no URL: got %q", got)
	}
}

func TestOutcome(t *testing.T) { // REQ-B9
	for status := 100; status < 600; status++ {
		want := breaker.Success
		if status == 502 || status == 503 || status == 504 {
			want = breaker.Failure
		}
		if got := Outcome(status); got != want {
			t.Errorf("%d: got %v, want %v", status, got, want)
		}
	}
}

// Nothing of a URL but its host and port may get into a name.
func FuzzHost(f *testing.F) {
	for _, seed := range []string{"http://u:hunter2@h/", "//hunter2@h:1", "http://[::1%25hunter2]/", "https://h/hunter2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		before := Host(&http.Request{URL: u})
		u.User, u.Path, u.RawPath, u.RawQuery, u.Fragment = url.UserPassword("user", "hunter2"), "/hunter2", "", "hunter2", "hunter2"
		if after := Host(&http.Request{URL: u}); after != before || after != strings.ToLower(after) {
			t.Errorf("%q: got %q, want %q", raw, after, before)
		}
	})
}

// sendable agrees with what net/http sends.
func TestRequestsThatCannotBeSentCountForNothing(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	for name, tc := range map[string]struct {
		change func(*http.Request)
		fails  bool
	}{
		"plain":                {func(*http.Request) {}, false},
		"empty method":         {func(r *http.Request) { r.Method = "" }, false},
		"odd method":           {func(r *http.Request) { r.Method = "M-SEARCH" }, false},
		"bad method":           {func(r *http.Request) { r.Method = "GET /\r\n" }, true},
		"no header":            {func(r *http.Request) { r.Header = nil }, true},
		"line break in header": {func(r *http.Request) { r.Header["X-User"] = []string{"a\r\nb: c"} }, true},
		"tab in header":        {func(r *http.Request) { r.Header["X-User"] = []string{"a\tb"} }, false},
		"UTF-8 in header":      {func(r *http.Request) { r.Header["X-User"] = []string{"é"} }, false},
		"delete in header":     {func(r *http.Request) { r.Header["X-User"] = []string{"\x7f"} }, true},
		"space in name":        {func(r *http.Request) { r.Header["X User"] = []string{"a"} }, true},
		"empty name":           {func(r *http.Request) { r.Header[""] = []string{"a"} }, true},
		"UTF-8 in name":        {func(r *http.Request) { r.Header["é"] = []string{"a"} }, true},
		"colon in name":        {func(r *http.Request) { r.Header["a:b"] = []string{"a"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			fellBack := false
			tr := newTransport(t, Config{Fallback: func(*http.Request, error) (*http.Response, error) {
				fellBack = true
				return nil, nil
			}})
			req := newRequest(t, s.URL)
			tc.change(req)
			_, _, err := fetch(tr, req)
			if (err != nil) != tc.fails || fellBack {
				t.Errorf("got %v, fallback ran: %v", err, fellBack)
			}
			successes, ignored := uint64(1), uint64(0)
			if tc.fails {
				successes, ignored = 0, 1
			}
			wantCounts(t, tr.Breaker(Host(req)), successes, 0, ignored)
		})
	}
}
