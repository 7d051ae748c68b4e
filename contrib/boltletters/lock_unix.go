//go:build unix && !solaris && !aix && !illumos

package boltletters

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks the file for this Store alone, until it is closed or the process ends; held says that another has it.
func lockFile(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return errors.Is(err, syscall.EWOULDBLOCK), err
}

// unlockFile ends a lock on a file that stays mapped, which closing it would not.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
