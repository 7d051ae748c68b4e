package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const (
	homePrefix = "breakwater-fleet-"
	lockName   = "lock"
)

// home is the directory of one fleet. Its lock file is held by the owner; the
// kernel drops the lock when the owner dies, however it dies, so whoever gets
// the lock knows that the fleet is orphaned. No process id can be mistaken.
type home struct {
	path string
	lock *os.File
}

// newHome makes a directory in parent and locks it. A sweeper that comes
// between the making and the locking takes the directory for an orphan's; then
// another one is made.
func newHome(parent string) (*home, error) {
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, err
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return nil, err
	}
	for range 10 {
		h, err := tryHome(parent)
		if h != nil || err != nil {
			return h, err
		}
	}
	return nil, fmt.Errorf("fleet: Config.Dir %q: other processes keep removing what is made in it", parent)
}

// tryHome returns nil and no error if a sweeper was faster.
func tryHome(parent string) (*home, error) {
	path, err := os.MkdirTemp(parent, homePrefix)
	if err != nil {
		return nil, fmt.Errorf("fleet: Config.Dir: %w: name a directory that we may write to", err)
	}
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errors.Join(ignoreGone(err), os.RemoveAll(path))
	}
	h := &home{path: path, lock: f}
	held, err := h.take()
	if err == nil && held {
		err = h.open()
	}
	if err != nil {
		return nil, errors.Join(err, h.remove())
	}
	if !held {
		return nil, f.Close() // swept: the caller tries again
	}
	return h, nil
}

// open lets user postgres pass the directory, and tells people whose it is.
func (h *home) open() error {
	_, err := h.lock.WriteString(strconv.Itoa(os.Getpid()) + "\n")
	return errors.Join(err, os.Chmod(h.path, 0o755))
}

// take locks the lock file and says false if another process holds it, or has
// removed it meanwhile.
func (h *home) take() (bool, error) {
	held, err := tryLock(h.lock)
	if err != nil || !held {
		return false, err
	}
	mine, err := h.lock.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(h.lock.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// remove deletes the directory, the lock file last: what a crash leaves of it
// can still be recognised and swept.
func (h *home) remove() error {
	entries, err := os.ReadDir(h.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var faults []error
	for _, e := range entries {
		if e.Name() != lockName {
			faults = append(faults, os.RemoveAll(filepath.Join(h.path, e.Name())))
		}
	}
	faults = append(faults, os.RemoveAll(h.path), h.lock.Close())
	return errors.Join(faults...)
}
