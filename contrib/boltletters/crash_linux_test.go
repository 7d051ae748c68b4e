package boltletters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/breakwater-go/breakwater/emit"
)

// What was acknowledged survives kill -9, again and again (REQ-E7, behaviours-emit 9).
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var acked []string
	for range rounds(4, 100) {
		child := start(t, "emitters", dir)
		acked = append(acked, child.read(50+rand.IntN(500))...)
		acked = append(acked, child.kill()...)
		c := small(dir)
		c.MaxBytes = 64 * mib
		s := open(t, c)
		wantAll(t, s, acked)
		for consumer := range s.Depths() { // so that it does not fill up
			if _, err := s.Discard(t.Context(), consumer, emit.Filter{}); err != nil {
				t.Fatal(err)
			}
		}
		acked = nil
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was acknowledged survives a power cut, which kill -9 says nothing about: a file system on a loop device is shut
// down without flushing its log, mounted again, and the Store reopened (REQ-E8, behaviours-emit 10).
func TestPowerCut(t *testing.T) {
	for range rounds(2, 20) {
		img := loopFS(t)
		dir := filepath.Join(img.mount, "letters")
		child := start(t, "emitters", dir)
		acked := child.read(50 + rand.IntN(500))
		if err := shutdownFS(img.mount); err != nil {
			child.kill()
			t.Fatal(err)
		}
		// Once the disk is gone nothing more may be acknowledged: a failed fsync is a failed Append.
		rest := child.wait()
		if len(rest) == 0 || rest[len(rest)-1] != "refused" {
			t.Errorf("after the cut: got %d lines, want a refusal at the end", len(rest))
		}
		img.remount(t)
		c := small(dir)
		c.MaxBytes, c.Check = 64*mib, CheckInChild
		s := open(t, c)
		wantAll(t, s, append(acked, rest...))
		t.Logf("%d letters were acknowledged before the cut", len(acked)+len(rest)-1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A loop is a file system in a file.
type loop struct{ image, mount string }

func loopFS(t *testing.T) loop {
	t.Helper()
	dir := t.TempDir()
	l := loop{filepath.Join(dir, "image"), filepath.Join(dir, "mount")}
	err := errors.Join(os.WriteFile(l.image, nil, 0o600), os.Truncate(l.image, 128*mib), os.Mkdir(l.mount, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
			notRun(t, "the power cut", fmt.Sprintf("%s: %v: %s", name, err, bytes.TrimSpace(out)))
		}
	}
	run("mkfs.ext4", "-q", l.image)
	run("mount", "-o", "loop", l.image, l.mount)
	t.Cleanup(func() { _ = syscall.Unmount(l.mount, 0) })
	return l
}

func (l loop) remount(t *testing.T) {
	t.Helper()
	if err := syscall.Unmount(l.mount, 0); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "mount", "-o", "loop", l.image, l.mount).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

// notRun ends a test that this machine does not allow, loudly: what it would show is not shown.
func notRun(t *testing.T, what, why string) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "\n*** NOT RUN: %s is not tested on this machine: %s ***\n\n", what, why)
	t.Skipf("NOT RUN: %s: %s", what, why)
}

// shutdownFS is EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
func shutdownFS(mount string) error {
	const request, noLogFlush = 0x8004587d, uint32(2)
	d, err := os.Open(mount) //nolint:gosec // a test's directory
	if err != nil {
		return err
	}
	defer d.Close()
	flags := noLogFlush
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), request, uintptr(unsafe.Pointer(&flags))); e != 0 {
		return e
	}
	return nil
}

// playFailpoint stores 300 letters, delivers most, compacts, and is killed at a point of that or of the last commit.
func playFailpoint(c Config, point string) error {
	ctx := context.Background()
	var armed atomic.Bool // read by the committer
	c.IdleAfter = time.Millisecond
	compacted := make(chan struct{}, 100)
	c.Observer.Compacted = func(Compaction) { compacted <- struct{}{} }
	c.hooks.fail = func(at string) error {
		if armed.Load() && at == point {
			killSelf()
		}
		return nil
	}
	s, err := Open(ctx, c)
	if err != nil {
		return err
	}
	for i := range 300 {
		l := letter("a", i%3, strconv.Itoa(i))
		l.Trigger.Data = make([]byte, 10_000)
		if i == 299 {
			armed.Store(point == beforeCommit || point == afterCommit)
		}
		if _, err := s.Append(ctx, l); err != nil {
			return err
		}
	}
	fmt.Fprintln(os.Stdout, "299")
	armed.Store(true) // before there is anything to compact
	if _, err := s.Discard(ctx, "a", emit.Filter{Priorities: []int{1, 2}}); err != nil {
		return err
	}
	for {
		select {
		case <-compacted:
			if _, err := s.Append(ctx, letter("a", 1, "after it")); err != nil {
				return err
			}
			if point == answered {
				killSelf()
			}
		case <-time.After(time.Minute):
			return errors.New("it was not compacted")
		}
	}
}

// answered is the point after an Append that came after a compaction.
const answered = "the next letter is stored"

// A kill around a commit and around the renaming of a compacted copy leaves a store that opens and has everything (behaviours-emit 13).
func TestKilledAtFailpoints(t *testing.T) {
	for _, point := range []string{beforeCommit, afterCommit, copied, renamed, reopening, answered} {
		t.Run(point, func(t *testing.T) { failAt(t, point, t.TempDir(), nil) })
	}
}

// The same with the power cut at that moment: what a rename has done lasts before anything is answered.
func TestPowerCutAtFailpoints(t *testing.T) {
	for _, point := range []string{afterCommit, copied, renamed, reopening, answered} {
		t.Run(point, func(t *testing.T) {
			fs := loopFS(t)
			failAt(t, point, filepath.Join(fs.mount, "letters"), &fs)
		})
	}
}

func failAt(t *testing.T, point, dir string, fs *loop) {
	t.Helper()
	cut := ""
	if fs != nil {
		cut = fs.mount
	}
	child := start(t, "failpoint", dir, pointEnv+"="+point, cutEnv+"="+cut)
	child.read(-1)
	err := child.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("got %v, want it killed at the point: %s", err, child.said.String())
	}
	if fs != nil {
		fs.remount(t)
	}
	c := small(dir)
	c.MaxBytes = 64 * mib
	s := open(t, c)
	n := len(list(t, s, "a", emit.Filter{}))
	want := map[string]int{beforeCommit: 299, afterCommit: 300, answered: 101}[point]
	if want == 0 {
		want = 100
	}
	if n != want || s.Stats().Letters != want || len(s.Stats().Quarantined) > 0 {
		t.Errorf("got %d letters, %+v; want %d", n, s.Stats(), want)
	}
	if _, err := os.Stat(filepath.Join(dir, tempName)); err == nil {
		t.Error("the copy is still there")
	}
	add(t, s, letter("a", 1, "next"))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

const (
	backlogLetters = 12_000
	backlogData    = 8_000
	backlogMax     = 256 * mib
)

func playFill(c Config) error {
	ctx := context.Background()
	s, err := Open(ctx, c)
	if err != nil {
		return err
	}
	errs := make(chan error, 16)
	for g := range cap(errs) {
		go func() {
			var err error
			for i := g; i < backlogLetters && err == nil; i += cap(errs) {
				l := letter("a", i%3, strconv.Itoa(i))
				l.Trigger.Data = make([]byte, backlogData)
				_, err = s.Append(ctx, l)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, s.Close())
}

// playReopen opens the Store, works a little, and prints how many letters there are and what memory it had at most.
func playReopen(c Config) error {
	ctx := context.Background()
	s, err := Open(ctx, c)
	if err != nil {
		return err
	}
	letters, err := s.Claim(ctx, "a", emit.Filter{InOrder: true}, 10)
	if err != nil {
		return err
	}
	if _, err := s.Append(ctx, letter("b", 0, "one more")); err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Fprintln(os.Stdout, s.Stats().Letters-1, len(letters), strings.Fields(peak)[0])
	return s.Close()
}

// What a reopened Store takes of the memory does not depend on the backlog (behaviours-emit 14).
func TestReopenTakesLittleMemory(t *testing.T) {
	peak := func(dir string, letters int) (kib int) {
		var n, claimed int
		out := start(t, "reopen", dir, "GOMEMLIMIT=64MiB").wait()
		if _, err := fmt.Sscan(strings.Join(out, " "), &n, &claimed, &kib); err != nil {
			t.Fatal(err)
		}
		if n != letters || claimed != min(10, letters) {
			t.Errorf("got %d letters, %d claimed; want %d", n, claimed, letters)
		}
		return kib
	}
	full := t.TempDir()
	start(t, "fill", full).wait()
	before, with := peak(t.TempDir(), 0), peak(full, backlogLetters)
	t.Logf("peak RSS: %d KiB of an empty store, %d KiB with %d MB", before, with, backlogLetters*backlogData/1_000_000)
	if with-before > 16<<10 {
		t.Errorf("peak RSS: %d KiB with a backlog of %d MB, %d KiB without; want a difference of 16 MiB at most", with, backlogLetters*backlogData/1_000_000, before)
	}
}

// On a full disk emitters get back pressure, nothing is lost, and it goes on when there is room (REQ-E4).
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		notRun(t, "a full disk", err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	c := small(filepath.Join(dir, "letters"))
	c.MaxBytes = 64 * mib
	s := open(t, c)
	var stored []string
	for {
		l := letter("a", len(stored)%3, strconv.Itoa(len(stored)))
		l.Trigger.Data = make([]byte, 50_000)
		if _, err := s.Append(t.Context(), l); err != nil {
			if !errors.Is(err, emit.ErrBackPressure) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			break
		}
		stored = append(stored, l.Trigger.ID)
	}
	wantIDs(t, list(t, s, "a", emit.Filter{}), stored...)
	s = open(t, c0(t, s)) // a full disk does not keep it from starting
	wantIDs(t, list(t, s, "a", emit.Filter{}), stored...)
	// What is free in the file is enough to deliver.
	wantIDs(t, claim(t, s, "a", emit.Filter{InOrder: true}, 2), stored[:2]...)
	if err := s.Settle(t.Context(), "a", []emit.Settlement{{Seq: 1, Delivered: true}, {Seq: 2, Attempt: emit.Attempt{Err: "no"}}}); err != nil {
		t.Error(err)
	}
	stored = stored[1:]
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=12m"); err != nil {
		t.Fatal(err)
	}
	add(t, s, letter("a", 0, "room again"))
	s = reopen(t, s)
	wantIDs(t, list(t, s, "a", emit.Filter{}), append(stored, "room again")...)
}

func c0(t *testing.T, s *Store) Config {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.config
}
