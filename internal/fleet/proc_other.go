//go:build !linux

package fleet

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processes asks ps, which every Unix has.
func processes() ([]proc, error) {
	var all []proc
	err := ps("pid=,ppid=,state=,comm=", func(f []string) {
		pid, err1 := strconv.Atoi(f[0])
		ppid, err2 := strconv.Atoi(f[1])
		if err1 == nil && err2 == nil {
			all = append(all, proc{pid: pid, ppid: ppid, state: f[2][0], name: filepath.Base(f[3])})
		}
	})
	return all, err
}

// stateOf returns the state of pid, or 0 if there is no such process.
func stateOf(pid int) (byte, error) {
	all, err := processes()
	if err != nil {
		return 0, err
	}
	for _, p := range all {
		if p.pid == pid {
			return p.state, nil
		}
	}
	return 0, nil
}

// serversIn returns the PostgreSQL processes of the fleet in dir: a postmaster
// has the directory in its arguments, a backend the cluster's name, which
// starts with the directory's own, in its title.
func serversIn(dir string) ([]int, error) {
	var pids []int
	err := ps("pid=,ppid=,state=,command=", func(f []string) {
		program := strings.TrimSuffix(filepath.Base(f[3]), ":")
		isServer := program == "postgres" || program == "initdb" || program == "pg_basebackup"
		if !isServer || f[2][0] == 'Z' || !strings.Contains(strings.Join(f[3:], " "), filepath.Base(dir)) {
			return
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

func ps(columns string, line func(fields []string)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-axo", columns).Output()
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(out)) {
		if f := strings.Fields(l); len(f) >= 4 {
			line(f)
		}
	}
	return nil
}
