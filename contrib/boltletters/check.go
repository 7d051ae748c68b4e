package boltletters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// checkEnv names the file that a child process is to check instead of running its program.
const checkEnv = "BREAKWATER_BOLTLETTERS_CHECK"

// What the child's exit status says. A Go program that panics or faults exits with 2.
const (
	exitSound     = 0
	exitCrashed   = 2
	exitDamaged   = 70
	exitUnchecked = 71
)

func init() { //nolint:gochecknoinits // the child must check before main runs, in any program that imports this
	if path := os.Getenv(checkEnv); path != "" {
		os.Exit(checkAsChild(path))
	}
}

func checkAsChild(path string) int {
	err := CheckFile(context.Background(), path)
	if err == nil {
		return exitSound
	}
	fmt.Fprintln(os.Stderr, err)
	if errors.Is(err, ErrCorrupt) {
		return exitDamaged
	}
	return exitUnchecked
}

// CheckInChild runs CheckFile in a child process: this program again, whose main does not run then. A child that crashes
// shows that the file is damaged.
func CheckInChild(ctx context.Context, path string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("boltletters: check in a child process: %w", err)
	}
	child := exec.CommandContext(ctx, self)
	child.Env = append(os.Environ(), checkEnv+"="+path, "GOTRACEBACK=none")
	child.WaitDelay = time.Second
	var said bytes.Buffer
	child.Stderr = &said
	err = child.Run()
	exit, ran := errors.AsType[*exec.ExitError](err)
	switch words := firstLine(said.Bytes()); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("boltletters: the check of %s was ended: %w", path, ctx.Err())
	case !ran:
		return fmt.Errorf("boltletters: check in a child process: %w (Config.Check: CheckFile does it in this one)", err)
	case exit.ExitCode() == exitDamaged:
		return &damage{words}
	case exit.ExitCode() == exitCrashed, crashedBySignal(exit.ProcessState):
		return &damage{"the process that checked it crashed: " + words}
	default:
		return fmt.Errorf("boltletters: the check of %s gave no verdict: %w: %s", path, exit, words)
	}
}

func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(b), []byte("\n"))
	return string(line[:min(len(line), maxAttemptErr)])
}

// A damage matches ErrCorrupt.
type damage struct{ what string }

func (d *damage) Error() string        { return d.what }
func (d *damage) Is(target error) bool { return target == ErrCorrupt }

// CheckFile reads all of the file at path, in this process: a damaged file may crash it. The error matches ErrCorrupt if
// the file is damaged; a damaged letter alone is no such error.
func CheckFile(_ context.Context, path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &damage{fmt.Sprintf("reading it panics: %v", r)}
		}
	}()
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return &damage{"it is empty"}
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return asDamage(err)
	}
	defer db.Close() //nolint:errcheck // it was only read
	return db.View(func(tx *bbolt.Tx) error { return checkTx(tx, path) })
}

// asDamage tells what bbolt says of a file's content from what the system says of the file.
func asDamage(err error) error {
	_, ofSystem := errors.AsType[*fs.PathError](err)
	if ofSystem || errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("boltletters: check: %w", err)
	}
	return &damage{err.Error()}
}

func checkTx(tx *bbolt.Tx, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("boltletters: check: %w", err)
	}
	if info.Size() < tx.Size() {
		return &damage{fmt.Sprintf("it is truncated to %d of %d bytes", info.Size(), tx.Size())}
	}
	var first error
	for err := range tx.Check() {
		if first == nil {
			first = &damage{err.Error()}
		}
	}
	if first != nil {
		return first
	}
	return tx.ForEach(touch)
}

// touch reads each byte of a bucket, so that what would fault does so here.
func touch(name []byte, b *bbolt.Bucket) error {
	if b == nil {
		return &damage{fmt.Sprintf("%q is no bucket", name)}
	}
	sum := byte(0)
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			return touch(k, b.Bucket(k))
		}
		for _, c := range v {
			sum ^= c
		}
		return nil
	})
}
