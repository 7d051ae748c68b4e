package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// settled is the age from which on a file whose stat is the same was not written again: file systems tell times in steps.
const settled = 2 * time.Second

// A watcher tells when files have changed, by looking at them. It follows symbolic links, so that links that are put elsewhere, as
// Kubernetes does it, count, and it looks by name, so that files that are put in place by a rename, as editors do it, count too.
type watcher struct {
	files   map[string]*watched
	taken   string // the fingerprint of what was read
	pending string // another one that was seen once
}

type watched struct {
	info fs.FileInfo
	sum  string
}

// watch takes what the files hold now as read.
func (w *watcher) watch(files ...string) {
	before := w.files
	w.files = map[string]*watched{}
	for _, name := range files {
		if w.files[name] = before[name]; w.files[name] == nil {
			w.files[name] = &watched{}
		}
	}
	w.taken, w.pending = w.fingerprint(), ""
}

// differs has a file count as changed whose content, at the last look, was not the one that was read; read is the begin of its sum.
func (w *watcher) differs(name, read string) {
	if now := w.files[name].sum; now != "" && !strings.HasPrefix(now, read) {
		w.taken = ""
	}
}

// changed looks once. A change counts once two looks have seen the same: a file that is just being written is not read by halves.
func (w *watcher) changed() bool {
	now := w.fingerprint()
	again := now == w.pending
	w.pending = now
	return again && now != w.taken
}

// fingerprint tells what all of the files hold.
func (w *watcher) fingerprint() string {
	var all []string
	for name, f := range w.files {
		all = append(all, name+"\x00"+f.look(name))
	}
	slices.Sort(all)
	return sum([]byte(strings.Join(all, "\x00")))
}

// look is the sum of a file's content, "" where it cannot be read or is no file.
func (f *watched) look(name string) string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() { // a pipe would be waited for
		f.info, f.sum = nil, ""
		return ""
	}
	if f.info != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() && time.Since(info.ModTime()) > settled {
		return f.sum
	}
	text, err := config.ReadFile(name)
	if err != nil {
		f.info, f.sum = nil, ""
		return ""
	}
	f.info, f.sum = info, sum(text)
	return f.sum
}

func sum(text []byte) string {
	s := sha256.Sum256(text)
	return hex.EncodeToString(s[:])
}
