package fleet

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Servers returns the process ids of every server process of f that runs.
func (f *Fleet) Servers() ([]int, error) { return serversIn(f.home.path) }

// ServersIn is the same for any directory.
func ServersIn(dir string) ([]int, error) { return serversIn(dir) }

// Dir is the fleet's own directory.
func (f *Fleet) Dir() string { return f.home.path }

// Tree returns the states of a node's postmaster and of all its descendants.
func (f *Fleet) Tree(name string) (pids []int, states string, err error) {
	pid := f.find(name).op.proc.cmd.Process.Pid
	state, err := stateOf(pid)
	if err != nil {
		return nil, "", err
	}
	below, err := descendants(pid)
	pids, states = []int{pid}, string(state)
	for _, p := range below {
		pids, states = append(pids, p.pid), states+string(p.state)
	}
	return pids, states, err
}

// StateOf returns a process's state, 0 if there is none.
func StateOf(pid int) byte {
	state, err := stateOf(pid)
	if err != nil {
		return '?'
	}
	return state
}

// StartElsewhere starts a stopped node as its first start does: on another port
// if its own is taken.
func (f *Fleet) StartElsewhere(ctx context.Context, name string) error {
	return f.on(ctx, "StartElsewhere", name, 0, func(ctx context.Context, n *node) error {
		return f.upLocked(ctx, n, f.assignPort)
	})
}

// FindIn is Find in other places than the usual ones.
func FindIn(ctx context.Context, path string, globs ...string) (Binaries, error) {
	return places{path: path, globs: globs}.find(ctx)
}

// CanEnter is the check that root's servers can reach a directory, for an
// account that owns nothing.
func CanEnter(uid, gid int, dir string) error {
	return (&account{uid: uid, gid: gid}).canEnter("Config.Dir", dir)
}

// Segments returns the ids of the shared memory segments of all servers.
func (f *Fleet) Segments(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.home.path, "*", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, file := range files {
		id, _, err := segmentIn(file)
		if err != nil {
			t.Fatal(err)
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// SegmentExists asks ipcs.
func SegmentExists(t *testing.T, id string) bool {
	t.Helper()
	out, err := exec.Command("ipcs", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(string(out)), id)
}
