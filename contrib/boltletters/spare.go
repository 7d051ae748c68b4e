package boltletters

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// The spare is a file of zeros that is given up when the disk is full, so that claims can still be made and ended: bbolt needs
// new pages to delete too, and a full store that cannot deliver would stay full.
const spareName = "SPARE"

func (c Config) spareBytes() int64 { return min(4*mib, c.MaxBytes/32) }

// keepSpare makes the spare if it is missing; where there is no room for it there is none.
func (s *Store) keepSpare() {
	path, size := filepath.Join(s.config.Dir, spareName), s.config.spareBytes()
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return
	}
	if err := errors.Join(os.WriteFile(path, make([]byte, size), 0o600), syncFile(path)); err != nil {
		_ = os.Remove(path) // a part of it is none
	}
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // our own file
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// spend gives up the spare after an error that says that the disk is full. It returns which requests to try again:
// those that do not store new letters.
func (s *Store) spend(err error, requests []*request) (again, failed []*request) {
	if !errors.Is(err, syscall.ENOSPC) {
		return nil, requests
	}
	for _, r := range requests {
		if _, stores := r.op.(*appendOp); stores {
			failed = append(failed, r)
		} else {
			again = append(again, r)
		}
	}
	if len(again) == 0 || os.Remove(filepath.Join(s.config.Dir, spareName)) != nil {
		return nil, requests
	}
	return again, failed
}
