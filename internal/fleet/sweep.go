package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// sweepPatience bounds the wait for killed processes to be gone.
const sweepPatience = 10 * time.Second

// Sweep ends the servers and removes the directories that crashed fleets of
// ours left in dir ("" is os.TempDir()). Fleets of live processes, other
// users' and whatever is not recognisably a fleet's are left alone. Start
// sweeps its own Dir. Any number of processes may sweep at once.
func Sweep(dir string) error {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("fleet: sweep: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("fleet: sweep: %w", err)
	}
	homes, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("fleet: sweep: %w", err)
	}
	var faults []error
	for _, e := range homes {
		if ok, err := filepath.Match(homePrefix+"*", e.Name()); err != nil || !ok || !e.IsDir() {
			continue
		}
		if err := sweepOne(filepath.Join(dir, e.Name())); err != nil {
			faults = append(faults, fmt.Errorf("fleet: sweep %s: %w", e.Name(), err))
		}
	}
	return errors.Join(faults...)
}

func sweepOne(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return ignoreGone(err)
	}
	if uid, _ := ownerOf(info); uid != os.Geteuid() {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return sweepUnlocked(path, info)
	}
	if err != nil {
		return err
	}
	h := &home{path: path, lock: f}
	held, err := h.take()
	if err != nil || !held {
		return errors.Join(err, f.Close())
	}
	return errors.Join(endServers(path), freeSharedMemory(path), h.remove())
}

// sweepUnlocked removes what a crash in the instant before the locking left: an
// empty directory. A young one may belong to a Start in that instant.
func sweepUnlocked(path string, info os.FileInfo) error {
	if time.Since(info.ModTime()) < time.Minute {
		return nil
	}
	_ = os.Remove(path) // fails, and should, if it is not empty: then it is no fleet's
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// endServers kills what still runs in a fleet's directory, stopped processes
// too, and waits for it to be gone.
func endServers(path string) error {
	deadline := time.Now().Add(sweepPatience)
	for {
		pids, err := serversIn(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end: kill them by hand", pids)
		}
		for _, pid := range pids {
			if err := signal(pid, sigKill); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}
