package fleet

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// processes reads /proc. Processes that end meanwhile are left out.
func processes() ([]proc, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var all []proc
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, ok := readStat(pid); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// stateOf returns the state of pid, or 0 if there is no such process.
func stateOf(pid int) (byte, error) {
	p, _ := readStat(pid) // unreadable: gone
	return p.state, nil
}

// readStat parses "pid (name) state ppid …"; the name may hold anything.
func readStat(pid int) (proc, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return proc{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 2 {
		return proc{}, false
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return proc{}, false
	}
	return proc{pid: pid, ppid: ppid, state: fields[0][0], name: string(text[open+1 : end])}, true
}

// serversIn returns the PostgreSQL processes that work in or below dir: a
// server and each of its backends has its data directory as working directory.
func serversIn(dir string) ([]int, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range all {
		cwd, err := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/cwd")
		if err != nil || p.state == 'Z' || !isServer(p.name) {
			continue
		}
		if cwd = strings.TrimSuffix(cwd, " (deleted)"); cwd == dir || strings.HasPrefix(cwd, dir+"/") {
			pids = append(pids, p.pid)
		}
	}
	return pids, nil
}

func isServer(name string) bool {
	return name == "postgres" || name == "initdb" || name == "postmaster" || name == "pg_basebackup"
}
