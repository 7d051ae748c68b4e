package fleet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

// install makes a directory with programs that say a version.
func install(t *testing.T, dir, version string) string {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o755))
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s (Debian %[1]s-0)'\n", version)
	for _, program := range []string{"initdb", "postgres"} {
		must(t, os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755))
	}
	return dir
}

func TestFindTakesTheHighestVersionUnlessPathHasOne(t *testing.T) {
	root := t.TempDir()
	pattern := filepath.Join(root, "lib", "*", "bin")
	for _, v := range []string{"9.6", "15", "17", "100"} {
		install(t, filepath.Join(root, "lib", v, "bin"), v+".2")
	}
	broken := filepath.Join(root, "lib", "200", "bin") // server removed, clients left
	must(t, os.MkdirAll(broken, 0o755))

	got, err := fleet.FindIn(t.Context(), "", pattern)
	must(t, err)
	if want := "postgres 100.2"; got.Version != want || got.Dir != filepath.Join(root, "lib", "100", "bin") {
		t.Errorf("got %+v, want %s", got, want)
	}

	// A link in PATH leads to the directory in which initdb finds its postgres.
	links := filepath.Join(root, "links")
	must(t, os.Mkdir(links, 0o755))
	must(t, os.Symlink(filepath.Join(root, "lib", "15", "bin", "postgres"), filepath.Join(links, "postgres")))
	got, err = fleet.FindIn(t.Context(), "/nowhere"+string(os.PathListSeparator)+links, pattern)
	must(t, err)
	if want := "postgres 15.2"; got.Version != want {
		t.Errorf("with a link in PATH: got %+v, want %s", got, want)
	}
}

func TestFindSaysWhatToInstall(t *testing.T) {
	root := t.TempDir()
	old := install(t, filepath.Join(root, "9.6", "bin"), "9.6.24")
	_, err := fleet.FindIn(t.Context(), "", filepath.Join(root, "*", "bin"), "/nowhere/at/all")
	if !errors.Is(err, fleet.ErrNoServer) {
		t.Fatalf("got %v, want ErrNoServer", err)
	}
	for _, want := range []string{"PATH", root, "/nowhere/at/all", "9.6.24 is too old", "apt-get install postgresql", "dnf install postgresql-server", "brew install postgresql"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to hold %q", err, want)
		}
	}
	for _, dir := range []string{old, root} {
		_, err = fleet.Find(t.Context(), dir)
		if !errors.Is(err, fleet.ErrNoServer) || !strings.Contains(err.Error(), "BinDir") || !strings.Contains(err.Error(), dir) {
			t.Errorf("BinDir %s: got %v, want ErrNoServer naming it", dir, err)
		}
	}
}
