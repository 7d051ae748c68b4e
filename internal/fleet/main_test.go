package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
)

// The root module has no driver, so the tests speak SQL through psql, which the
// caller of Start injects as any other function.
type psql string

// query returns the rows of one statement, columns separated by "|".
func (p psql) query(ctx context.Context, dsn, query string) (string, error) {
	cmd := exec.CommandContext(ctx, string(p), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", dsn, "-c", query)
	cmd.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=5")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

func (p psql) run(ctx context.Context, dsn, query string) error {
	_, err := p.query(ctx, dsn, query)
	return err
}

// needPsql fails, never skips, where there is no server: Find says what to install.
func needPsql(t *testing.T) psql {
	t.Helper()
	bin, err := fleet.Find(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if bin.Psql() == "" {
		t.Fatalf("no psql in %s: install PostgreSQL's client programs", bin.Dir)
	}
	return psql(bin.Psql())
}

// start makes a fleet that ends with the test, and checks that nothing is left.
func start(t *testing.T, cfg fleet.Config) *fleet.Fleet {
	t.Helper()
	cfg.SQL = needPsql(t).run
	if cfg.Log == nil {
		cfg.Log = t.Logf
	}
	f, err := fleet.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		wantNothingLeft(t, f.Dir())
	})
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience bounds waits that a fault of the code would make endless.
const patience = 60 * time.Second

// publicDir is a directory that user postgres can enter.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fleet-test-*") //nolint:usetesting // as root, nobody else can enter t.TempDir
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil { // not RemoveAll: nothing may be left in it
			t.Error(err)
		}
	})
	return dir
}

func wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	if err := leftIn(dir); err != nil {
		t.Error(err)
	}
}

func leftIn(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("directory %s is left", dir)
	}
	pids, err := fleet.ServersIn(dir)
	if err == nil && len(pids) > 0 {
		err = fmt.Errorf("processes %v are left", pids)
	}
	return err
}
