package boltletters

import (
	"testing"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/emittest"
)

func TestContract(t *testing.T) {
	emittest.DeadLetters(t, emittest.Store{
		Open: func(t *testing.T, c emittest.StoreConfig) emit.DeadLetters {
			t.Helper()
			// Of 6 MiB the file gets 4.5, and letters 7/8 of that.
			b := Config{Dir: t.TempDir(), MaxBytes: max(6*mib, c.Bytes/2*3), MaxLetters: c.Letters, ReservedLetters: c.Reserved, IdleAfter: -1, Check: CheckFile}
			if c.Reserved == 0 {
				b.ReservedLetters = -1
			}
			b.ReservedBytes = -1
			return open(t, b)
		},
		Reopen: func(t *testing.T, d emit.DeadLetters, crash bool) emit.DeadLetters {
			t.Helper()
			s := d.(*Store)
			if crash {
				return open(t, afterKill(t, s))
			}
			return reopen(t, s)
		},
	})
}

// afterKill is the Config of a Store on a copy of what s has in its directory at this moment: what a kill would leave. A kill of
// a real process is TestKilled.
func afterKill(t *testing.T, s *Store) Config {
	t.Helper()
	c := s.config
	c.Dir = t.TempDir()
	copyDir(t, s.config.Dir, c.Dir)
	return c
}
