package fleet_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

func noSQL(context.Context, string, string) error { return errors.New("no SQL here") }

func wantAll(t *testing.T, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to hold %q", err, want)
		}
	}
}

func TestStartNamesAllFaultsOfItsConfig(t *testing.T) {
	_, err := fleet.Start(t.Context(), fleet.Config{
		BinDir: "/nowhere/bin", Dir: "/nowhere/dir", Replicas: 10, StartBudget: -1,
		Upstream: map[string]string{"r1": "r2", "r2": "r1", "r3": "r3", "r4": "r99", "r99": "r1"},
	})
	wantAll(t, err, "BinDir", "/nowhere/bin", "Config.Dir", "/nowhere/dir", "Config.Replicas is 10", "use 1 to 9",
		"Config.StartBudget", "Config.SQL is nil", `Upstream["r1"]`, `Upstream["r2"]`, `Upstream["r3"]`, `no replica "r99"`, `Upstream["r4"] is "r99"`)
}

func TestStartRefusesAFileAsDir(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := fleet.Start(t.Context(), fleet.Config{Dir: file, SQL: noSQL})
	wantAll(t, err, "Config.Dir", "is a file: name a directory")
}

// Root's servers run as another user, who must be able to reach the directory.
func TestUnreachableDirIsNamed(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	must(t, os.MkdirAll(filepath.Join(closed, "below"), 0o755))
	must(t, os.Chmod(closed, 0o700))
	stranger := 1 << 30
	wantAll(t, fleet.CanEnter(stranger, stranger, filepath.Join(closed, "below")), "Config.Dir", "cannot enter", "chmod o+x")
	if err := fleet.CanEnter(stranger, stranger, "/"); err != nil {
		t.Errorf("/: %v", err)
	}
}

// A start that fails leaves nothing, and says why and on which server.
func TestFailedStartLeavesNothing(t *testing.T) {
	dir := publicDir(t)
	needPsql(t)
	tired, deaf := errors.New("tired of waiting"), errors.New("no SQL here")
	for name, c := range map[string]struct {
		cfg  func(giveUp func()) fleet.Config
		want string
	}{
		"no time": {func(func()) fleet.Config {
			return fleet.Config{SQL: noSQL, StartBudget: 1}
		}, "StartBudget (1ns)"},
		"up but deaf": {func(giveUp func()) fleet.Config {
			return fleet.Config{SQL: func(context.Context, string, string) error { giveUp(); return deaf }}
		}, deaf.Error()},
		"interrupted": {func(giveUp func()) fleet.Config {
			return fleet.Config{SQL: noSQL, Log: func(string, ...any) { giveUp() }}
		}, tired.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cfg := c.cfg(func() { cancel(tired) })
			cfg.Dir, cfg.Replicas = dir, 1
			_, err := fleet.Start(ctx, cfg)
			wantAll(t, err, c.want)
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
