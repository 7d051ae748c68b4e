package fleet

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// freeSharedMemory gives back what a server that was killed could not: a System
// V segment of some bytes, of which a machine has a few thousand. Its id stands
// in the lock file, which only such a server leaves. ipcrm runs as the file's
// owner, so that it can remove nothing of anyone else's. A machine without
// ipcrm keeps the segment until its next boot, which is no fault of the fleet's.
func freeSharedMemory(homePath string) error {
	files, err := filepath.Glob(filepath.Join(homePath, "*", "postmaster.pid"))
	if err != nil {
		return err
	}
	for _, file := range files {
		id, owner, err := segmentIn(file)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		if err := ipcrm(id, owner); err != nil {
			return err
		}
	}
	return nil
}

// segmentIn reads "key id" in the 7th line of a lock file; "" if there is none.
func segmentIn(file string) (id string, owner *account, err error) {
	info, err := os.Lstat(file)
	if err != nil {
		return "", nil, ignoreGone(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", nil, ignoreGone(err)
	}
	if os.Geteuid() == 0 {
		uid, gid := ownerOf(info)
		owner = &account{uid: uid, gid: gid}
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) < 7 {
		return "", owner, nil
	}
	if f := strings.Fields(lines[6]); len(f) == 2 {
		id = f[1]
	}
	return id, owner, nil
}

func ipcrm(id string, owner *account) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ipcrm", "-m", id)
	cmd.SysProcAttr = childAttr(owner)
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrNotFound) {
		return nil // gone already, or no such program
	}
	return err
}
