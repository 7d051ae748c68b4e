// Package web is the page that operators and the lab look at (docs/page.md): plain ES modules and style sheets, embedded, with nothing
// fetched from elsewhere. It holds no data: what it shows it asks of the interface over HTTP, with the token that its user typed.
//
// # Concurrency
//
// A handler may serve any number of requests at once.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

//go:embed static
var static embed.FS

// policy lets the page load what comes from its own origin, and nothing inline.
const policy = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// Handler serves the page: GET and HEAD of / and of the files that it is made of; 404 for all else. Paths in it are relative, so it may
// be mounted under a prefix that is stripped.
func Handler() http.Handler {
	files := map[string]file{}
	_ = fs.WalkDir(static, "static", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() { // an embedded tree has no unreadable part
			files[strings.TrimPrefix(name, "static")] = load(name)
		}
		return err
	})
	files["/"] = files["/index.html"]
	return handler(files)
}

// handler serves files by their path; immutable.
type handler map[string]file

type file struct {
	body      []byte
	kind, tag string
}

func load(name string) file {
	body, _ := static.ReadFile(name)
	sum := sha256.Sum256(body)
	kind := mime.TypeByExtension(path.Ext(name))
	switch path.Ext(name) { // whatever the machine's own table says
	case ".js":
		kind = "text/javascript; charset=utf-8"
	case ".svg":
		kind = "image/svg+xml"
	case "":
		kind = "text/plain; charset=utf-8"
	}
	return file{body, kind, `"` + hex.EncodeToString(sum[:8]) + `"`}
}

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := h[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Content-Type", f.kind)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache") // asked again each time, and answered 304: a page of an older version would misread the data
	header.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(f.body)
}
