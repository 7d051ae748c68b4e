package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// changes are what several looks say.
func changes(w *watcher, looks int) (n int) {
	for range looks {
		if w.changed() {
			n++
			w.taken = w.pending
		}
	}
	return n
}

// A file counts as changed once, however it was put there, and only once two looks have seen the same.
func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write(t, file, "a")
	w := &watcher{}
	w.watch(file)
	if n := changes(w, 3); n != 0 {
		t.Errorf("nothing was written: got %d changes", n)
	}

	write(t, file, "b")
	if w.changed() {
		t.Error("one look at a new text: got a change, want a second look first")
	}
	write(t, file, "bc")
	if w.changed() {
		t.Error("it goes on being written: got a change, want none yet")
	}
	if n := changes(w, 3); n != 1 {
		t.Errorf("written in place: got %d changes, want 1", n)
	}

	other := filepath.Join(dir, ".c.yaml.swp")
	write(t, other, "d")
	if err := os.Rename(other, file); err != nil {
		t.Fatal(err)
	}
	if n := changes(w, 3); n != 1 {
		t.Errorf("put in place by a rename: got %d changes, want 1", n)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if n := changes(w, 3); n != 1 {
		t.Errorf("removed: got %d changes, want 1", n)
	}
	write(t, file, "d")
	if n := changes(w, 3); n != 1 {
		t.Errorf("there again: got %d changes, want 1", n)
	}
}

// A text that comes back before it was read is none.
func TestWatcherBackAndForth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "a")
	w := &watcher{}
	w.watch(file)
	write(t, file, "b")
	w.changed()
	write(t, file, "a")
	if n := changes(w, 3); n != 0 {
		t.Errorf("got %d changes, want 0", n)
	}
}

// As Kubernetes does it: the file is a link into ..data, which is a link to a directory that is exchanged.
func TestWatcherFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "c.yaml"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	put("..1", "a")
	file := filepath.Join(dir, "c.yaml")
	if err := os.Symlink(filepath.Join("..data", "c.yaml"), file); err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	w.watch(file)
	put("..2", "b")
	if err := os.RemoveAll(filepath.Join(dir, "..1")); err != nil {
		t.Fatal(err)
	}
	if n := changes(w, 3); n != 1 {
		t.Errorf("got %d changes, want 1", n)
	}
}

// A file that was not written for a while is not read again while its stat stays the same; a newer one is, whatever its stat.
func TestWatcherReadsWhatMayHaveChanged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "a")
	moment := time.Now()
	if err := os.Chtimes(file, moment, moment); err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	w.watch(file)
	write(t, file, "b") // as long as before, and in the same step of the file system's clock
	if err := os.Chtimes(file, moment, moment); err != nil {
		t.Fatal(err)
	}
	if n := changes(w, 2); n != 1 {
		t.Errorf("got %d changes, want 1", n)
	}
}
