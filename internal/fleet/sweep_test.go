//go:build unix

package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

// childDir tells a copy of the test binary to start a fleet there and to wait
// for its end.
const childDir = "BREAKWATER_FLEET_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(beChild(dir))
	}
	code := m.Run()
	if err := closeRig(); err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(leaks.Check(code))
}

// beChild starts a fleet and freezes both replicas, kills the postmaster of r1,
// whose frozen backends nobody can end now but a sweep, prints the fleet's
// directory and never closes it.
func beChild(dir string) int {
	bin, err := fleet.Find(context.Background(), "")
	if err != nil {
		println(err.Error())
		return 1
	}
	f, err := fleet.Start(context.Background(), fleet.Config{Dir: dir, Replicas: 2, SQL: psql(bin.Psql()).run})
	if err == nil {
		err = errors.Join(f.Freeze("r1"), f.Freeze("r2"))
	}
	if err == nil {
		pids, _, treeErr := f.Tree("r1")
		err = errors.Join(treeErr, syscall.Kill(pids[0], syscall.SIGKILL))
	}
	if err != nil {
		println(err.Error())
		return 1
	}
	os.Stdout.WriteString(f.Dir() + "\n")
	select {}
}

// After a kill -9 of the process that started a fleet, the kernel ends all
// servers, frozen ones too, and a sweep what is left. A live fleet in the same
// directory is left alone.
func TestSweepAfterKill9(t *testing.T) {
	t.Parallel()
	parent := publicDir(t)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+parent)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the child did not start a fleet: %v", errors.Join(err, child.Wait()))
	}
	orphan := strings.TrimSpace(line)

	must(t, fleet.Sweep(parent))
	if pids, err := fleet.ServersIn(orphan); err != nil || len(pids) < 6 {
		t.Errorf("a sweep beside the live fleet left processes %v, %v, want all", pids, err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
	wantFrozenOnly(t, orphan)

	live := start(t, fleet.Config{Dir: parent, Replicas: 1}) // sweeps
	wantNothingLeft(t, orphan)
	must(t, fleet.Sweep(parent))
	must(t, live.CatchUp(t.Context()))
}

// wantFrozenOnly waits until the parent-death signal has done its work.
// A frozen postmaster gives its frozen backends 5 s.
func wantFrozenOnly(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // no such signal elsewhere: the sweep ends all of them
	}
	for late := time.Now().Add(patience); ; {
		pids, err := fleet.ServersIn(dir)
		must(t, err)
		var states []byte
		r2 := 0
		for _, pid := range pids {
			states = append(states, fleet.StateOf(pid))
			if cwd, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd"); err == nil && filepath.Base(cwd) == "r2" {
				r2++
			}
		}
		if len(bytes.Trim(states, "T")) == 0 && r2 == 0 {
			if len(states) == 0 {
				t.Error("the frozen backends of r1 are gone too: this test proves nothing about the sweep")
			}
			return
		}
		if time.Now().After(late) {
			t.Fatalf("states of the orphans: %s, want only T; %d of r2, want none", states, r2)
		}
	}
}

// A sweep touches nothing that is not recognisably a dead fleet's.
func TestSweepLeavesTheRestAlone(t *testing.T) {
	dir := t.TempDir()
	keep := []string{"breakwater-fleet-young", "breakwater-fleet-full/file", "else/lock", "breakwater-fleet-file"}
	must(t, os.Mkdir(filepath.Join(dir, keep[0]), 0o755))
	for _, d := range []string{"breakwater-fleet-full", "else", "breakwater-fleet-old", "breakwater-fleet-dead/r1"} {
		must(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{keep[1], keep[2], keep[3], "breakwater-fleet-dead/lock", "breakwater-fleet-dead/r1/postmaster.pid"} {
		must(t, os.WriteFile(filepath.Join(dir, f), []byte("1\n"), 0o600))
	}
	long := time.Now().Add(-time.Hour)
	for _, d := range []string{"breakwater-fleet-full", "breakwater-fleet-old"} {
		must(t, os.Chtimes(filepath.Join(dir, d), long, long))
	}
	must(t, fleet.Sweep(dir))
	for _, name := range keep {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("swept what is no dead fleet's: %v", err)
		}
	}
	for _, name := range []string{"breakwater-fleet-old", "breakwater-fleet-dead"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want it swept", name, err)
		}
	}
	if err := fleet.Sweep(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a sweep of no directory succeeded")
	}
}
