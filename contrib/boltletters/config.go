package boltletters

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Config says where a Store is and how much it may hold. Dir is required.
type Config struct {
	// Dir is the directory, which belongs to one Store at a time. It is made, with mode 0700, if it is missing.
	Dir string
	// MaxBytes bounds what the Store takes of the disk: its file, which gets three quarters, and the copy that
	// compaction makes, which gets the rest but a spare for a full disk. Quarantined files come on top. At least 4 MiB. Default: 1 GiB.
	MaxBytes int64
	// MaxLetters bounds the letters of all consumers. Default: 1,000,000.
	MaxLetters int
	// ReservedLetters of MaxLetters are for priority 0 only. Default: an eighth; negative: none.
	ReservedLetters int
	// ReservedBytes of the file are for priority 0 only; at most half of MaxBytes. Default: an eighth of the file; negative: none.
	ReservedBytes int64
	// MaxLetterBytes bounds a letter with all its fields; at most 1/16 of MaxBytes, and 60 MB. Default: 1 MiB and
	// 64 KiB, so that what a Router takes by default fits, or 1/16 of MaxBytes if that is less.
	MaxLetterBytes int
	// IdleAfter is for how long nothing must have been asked of the Store before it compacts its file, and once after
	// Open checks its counts. Default: 5s; negative: it never does.
	IdleAfter time.Duration
	// Check says whether the file at path is sound. An error that matches ErrCorrupt has the file put into
	// quarantine; any other fails Open. Default: CheckInChild.
	Check func(ctx context.Context, path string) error
	// CheckTimeout ends the check: a file that is not judged by then is put into quarantine. Default: 5m.
	CheckTimeout time.Duration
	// Observer is told what happens. Default: nobody.
	Observer Observer

	// hooks are for tests.
	hooks hooks
}

// An Observer is told what happens to a Store; each function may be nil. A panic in one is swallowed and
// counted in Stats.
type Observer struct {
	// Quarantined: the file was damaged; it was put aside whole and the Store began anew.
	Quarantined func(Quarantine)
	// BadRecord: a letter could not be read. Its bytes were put aside in the file, and it counts no more.
	BadRecord func(BadRecord)
	// CommitFailed: all that waited for this commit got the error. The Store goes on with the state before it.
	CommitFailed func(error)
	// Compacted: the file was replaced by a smaller copy.
	Compacted func(Compaction)
	// Recounted: the counts of a consumer were not what is stored, and were corrected.
	Recounted func(consumer string)
}

// A Quarantine is a file that was put aside.
type Quarantine struct {
	Path  string // where it is now
	Bytes int64
	Err   error // what is wrong with it
}

// A BadRecord is a letter that could not be read.
type BadRecord struct {
	Consumer string
	Priority int
	Seq      uint64
	Err      error
}

// A Compaction tells what it brought.
type Compaction struct {
	Before, After int64 // bytes of the file
	Took          time.Duration
}

// ErrCorrupt matches the error of a check that found a file damaged.
var ErrCorrupt = errors.New("boltletters: file is damaged")

const (
	mib                   = 1 << 20
	defaultMaxBytes       = 1 << 30
	minMaxBytes           = 4 * mib
	defaultMaxLetters     = 1_000_000
	defaultMaxLetterBytes = mib + 64<<10
	defaultIdleAfter      = 5 * time.Second
	defaultCheckTimeout   = 5 * time.Minute
	reservedShare         = 8  // an eighth
	letterShare           = 16 // of MaxBytes
)

// CheckConfig returns the faults of c for which Open would refuse it, joined, and opens nothing: for a configuration
// that is read while another one is in use.
func CheckConfig(c Config) error { return c.check() }

func (c Config) check() error {
	var errs []error
	report := func(bad bool, field string, value any, mend string) {
		if bad {
			errs = append(errs, fmt.Errorf("boltletters: %s is %v: %s", field, value, mend))
		}
	}
	report(c.Dir == "", "Dir", `""`, "name a directory for this Store alone")
	report(c.MaxBytes != 0 && c.MaxBytes < minMaxBytes, "MaxBytes", c.MaxBytes, "use at least 4 MiB, or 0 for 1 GiB")
	report(c.MaxLetters < 0, "MaxLetters", c.MaxLetters, "use at least 1, or 0 for 1,000,000")
	report(c.CheckTimeout < 0, "CheckTimeout", c.CheckTimeout, "use a time above 0, or 0 for 5m")
	report(c.MaxLetterBytes < 0, "MaxLetterBytes", c.MaxLetterBytes, "use at least 1, or 0 for 1 MiB and 64 KiB")
	if len(errs) == 0 {
		d := c.withDefaults()
		report(d.ReservedLetters >= d.MaxLetters, "ReservedLetters", c.ReservedLetters, fmt.Sprintf("leave room for others: less than MaxLetters, %d", d.MaxLetters))
		report(d.ReservedBytes > d.MaxBytes/2, "ReservedBytes", c.ReservedBytes, fmt.Sprintf("leave room for others: at most half of MaxBytes, %d", d.MaxBytes/2))
		report(int64(d.MaxLetterBytes) > min(maxRecord, d.MaxBytes/letterShare), "MaxLetterBytes", c.MaxLetterBytes, fmt.Sprintf("use at most 1/16 of MaxBytes, %d", d.MaxBytes/letterShare))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.MaxBytes = orDefault(c.MaxBytes, defaultMaxBytes)
	c.MaxLetters = orDefault(c.MaxLetters, defaultMaxLetters)
	c.ReservedLetters = max(0, orDefault(c.ReservedLetters, c.MaxLetters/reservedShare))
	c.ReservedBytes = max(0, orDefault(c.ReservedBytes, c.fileBytes()/reservedShare))
	c.MaxLetterBytes = orDefault(c.MaxLetterBytes, int(min(defaultMaxLetterBytes, c.MaxBytes/letterShare)))
	c.IdleAfter = orDefault(c.IdleAfter, defaultIdleAfter)
	c.CheckTimeout = orDefault(c.CheckTimeout, defaultCheckTimeout)
	if c.Check == nil {
		c.Check = CheckInChild
	}
	return c
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// fileBytes is the most that the file may have; the rest of MaxBytes is for its compacted copy.
func (c Config) fileBytes() int64 { return c.MaxBytes / 4 * 3 }

// slack is what a transaction needs besides what it leaves behind: bbolt writes each page that it
// changes anew before the old one is free, and writes the list of free pages.
func (c Config) slack() int64 { return c.fileBytes() / 8 }

// batchBytes bounds what is written in one transaction, well within the slack.
func (c Config) batchBytes() int64 { return c.slack() / 3 }

// room is what letters may take of the file.
func (c Config) room() int64 { return c.fileBytes() - c.slack() }
