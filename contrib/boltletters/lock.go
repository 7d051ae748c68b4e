package boltletters

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const lockName = "LOCK"

// A lock is the right to a directory.
type lock struct{ file *os.File }

// acquire takes the directory, or says who has it.
func acquire(dir string) (lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return lock{}, fmt.Errorf("boltletters: Dir is %q: %w", dir, err)
	}
	if held, err := lockFile(f); err != nil {
		defer f.Close() //nolint:errcheck // nothing was written
		if held {
			return lock{}, fmt.Errorf("boltletters: Dir is %q: in use by %s: close that Store, or use another directory", dir, holder(f))
		}
		return lock{}, fmt.Errorf("boltletters: Dir is %q: lock: %w", dir, err)
	}
	// Who holds it is told as well as can be: a full disk is no reason not to open.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "process %d since %s\n", os.Getpid(), time.Now().UTC().Format(time.RFC3339)), 0)
	return lock{f}, nil
}

// holder is what the holder has written about itself.
func holder(f *os.File) string {
	text, _ := io.ReadAll(io.LimitReader(f, 200))
	if s := strings.TrimSpace(string(text)); s != "" {
		return s
	}
	return "an unknown process"
}

func (l lock) release() error { return l.file.Close() }
