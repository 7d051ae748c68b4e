//go:build !unix || solaris || aix || illumos

package boltletters

import "os"

// lockFile leaves it to bbolt's own lock on the file.
func lockFile(*os.File) (held bool, err error) { return false, nil }

// unlockFile can do nothing here: the lock ends with the process.
func unlockFile(*os.File) error { return nil }
