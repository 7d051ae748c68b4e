package web_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/web"
)

func get(t *testing.T, method, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, http.NoBody)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	web.Handler().ServeHTTP(w, r)
	return w
}

// TestHandler: what is served, as what, and what else the page may load: nothing of another origin, nothing inline (REQ-O4).
func TestHandler(t *testing.T) {
	for _, tc := range []struct {
		method, target string
		status         int
		kind           string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/index.html", 200, "text/html; charset=utf-8"},
		{"GET", "/js/main.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/css/base.css", 200, "text/css; charset=utf-8"},
		{"GET", "/icon.svg", 200, "image/svg+xml"},
		{"GET", "/vendor/uplot/LICENSE", 200, "text/plain; charset=utf-8"},
		{"GET", "/js/", 404, ""},
		{"GET", "/../web.go", 404, ""},
		{"POST", "/", 405, ""},
	} {
		got := get(t, tc.method, tc.target)
		if got.Code != tc.status {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.target, got.Code, tc.status)
		}
		if tc.kind == "" {
			continue
		}
		if kind := got.Header().Get("Content-Type"); kind != tc.kind {
			t.Errorf("%s: %s, want %s", tc.target, kind, tc.kind)
		}
		if policy := got.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'self';") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", tc.target, policy)
		}
	}
}

func TestHandlerAnswersNotModified(t *testing.T) {
	tag := get(t, "GET", "/").Header().Get("ETag")
	if got := get(t, "GET", "/", "If-None-Match", tag); tag == "" || got.Code != http.StatusNotModified {
		t.Errorf("with the tag %q: %d, want 304", tag, got.Code)
	}
}

var (
	imported  = regexp.MustCompile(`(?m)^(?:import|export) .*?from '([^']+)'`)
	loaded    = regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	elsewhere = regexp.MustCompile(`https?://`)
	markup    = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\.setAttribute\('style'`)
	inline    = regexp.MustCompile(`<script>|<style|\sstyle="|\son[a-z]+="`)
)

// each calls f with the files of the page that are ours, or all.
func each(t *testing.T, vendored bool, f func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir("static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !vendored && strings.Contains(name, "vendor") {
			return err
		}
		text, err := os.ReadFile(name)
		f(filepath.ToSlash(name), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEachFileThatIsNamedIsThere: a module that is missing would leave an empty page.
func TestEachFileThatIsNamedIsThere(t *testing.T) {
	used := map[string]bool{"static/index.html": true, "static/vendor/uplot/LICENSE": true, "static/vendor/uplot/VERSION": true}
	each(t, false, func(name, text string) {
		pattern := imported
		if path.Ext(name) == ".html" {
			pattern = loaded
		}
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "api/") {
				continue
			}
			target := path.Join(path.Dir(name), m[1])
			used[target] = true
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
	})
	each(t, true, func(name, _ string) {
		if !used[name] {
			t.Errorf("%s is used by no file: remove it", name)
		}
	})
}

// TestNothingIsMarkupOrFromElsewhere: data is shown as text, and the page works without a network (REQ-O3).
func TestNothingIsMarkupOrFromElsewhere(t *testing.T) {
	each(t, false, func(name, text string) {
		if m := markup.FindString(text); m != "" {
			t.Errorf("%s uses %s: make elements by dom.js", name, m)
		}
		without := strings.ReplaceAll(text, "http://www.w3.org/2000/svg", "")                                               // a name, nothing is fetched
		without = strings.ReplaceAll(without, "https://github.com/breakwater-go/breakwater/blob/main/docs/runbook.md#", "") // a link, followed by a click
		if m := elsewhere.FindString(without); m != "" {
			t.Errorf("%s names an address elsewhere", name)
		}
		if path.Ext(name) == ".html" && inline.MatchString(text) {
			t.Errorf("%s has inline script or style, which its policy refuses", name)
		}
		if n := strings.Count(text, "\n"); n > 500 {
			t.Errorf("%s has %d lines: split it", name, n)
		}
	})
}

// TestRunbookSections: what the page links is a section of the runbook.
func TestRunbookSections(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		sections[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	links := 0
	each(t, false, func(name, text string) {
		for _, m := range regexp.MustCompile(`runbook\('([^']*)'`).FindAllStringSubmatch(text, -1) {
			if links++; !sections[m[1]] {
				t.Errorf("%s links section %q of the runbook, which is not there", name, m[1])
			}
		}
	})
	if links < 2 {
		t.Errorf("got %d links, want one of an open card and one of the banner", links)
	}
}

// TestVendored: the library is what its version says, with its licence beside it.
func TestVendored(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("static", "vendor", "uplot", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	version := bytes.TrimSpace(read("VERSION"))
	if !bytes.Contains(read("uPlot.esm.js")[:400], append([]byte("(v"), version...)) {
		t.Errorf("VERSION says %s, uPlot.esm.js does not", version)
	}
	if !bytes.Contains(read("LICENSE"), []byte("MIT License")) {
		t.Error("LICENSE is not that of uPlot")
	}
}
