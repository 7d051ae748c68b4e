package daemon

import (
	"net/http"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// A token that is exchanged is the one in force, whatever else in the same file waits for a restart: the one before may be known to others.
func TestTokenIsExchangedBesideWhatWaits(t *testing.T) {
	const consumers = "consumers: [{name: a, url: 'http://127.0.0.1:1/'}]\n"
	file := configured(t, "auth: {bearer_token_file: token}\n"+consumers)
	token := filepath.Join(filepath.Dir(file), "token")
	write(t, token, "first-of-the-tokens")
	r := start(t, file)
	r.token = "first-of-the-tokens"
	write(t, token, "second-of-the-tokens")
	write(t, file, "listen: 127.0.0.1:0\nauth: {bearer_token_file: token, open: [metrics]}\n"+consumers)
	r.hangup <- syscall.SIGHUP
	r.log.waitFor(t, "event=reload", 1)
	if status, _ := r.do("GET", "/api/v1/status", ""); status != http.StatusUnauthorized {
		t.Errorf("by the token before: got %d, want 401", status)
	}
	r.token = "second-of-the-tokens"
	if got := r.status().Reload; !slices.Equal(got.NeedsRestart, []string{"auth.open"}) {
		t.Errorf("got %+v, want auth.open to wait", got)
	}
	r.token = ""
	if status, _ := r.do("GET", "/metrics", ""); status != http.StatusUnauthorized {
		t.Errorf("/metrics before a restart: got %d, want 401", status)
	}
}

// A token that is exchanged between its being read and the first look at its file, while the nodes are sampled for one, counts as a change.
func TestTokenThatChangesBeforeItIsWatched(t *testing.T) {
	file := configured(t, "auth: {bearer_token_file: token}\nconsumers: [{name: a, url: 'http://127.0.0.1:1/'}]\n")
	token := filepath.Join(filepath.Dir(file), "token")
	write(t, token, "first-of-the-tokens")
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d := &daemon{Options: Options{File: file}, watcher: &watcher{}}
	d.inForce.Store(c)
	d.watch()
	if n := changes(d.watcher, 3); n != 0 {
		t.Errorf("nothing has changed: got %d changes", n)
	}
	write(t, token, "second-of-the-tokens")
	d.watch()
	if n := changes(d.watcher, 3); n != 1 {
		t.Errorf("got %d changes, want 1", n)
	}
}
