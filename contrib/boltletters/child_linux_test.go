package boltletters

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// The environment of a role: its directory, the point at which it is killed, the file system that is cut off before that.
const (
	dirEnv   = "BREAKWATER_BOLTLETTERS_DIR"
	pointEnv = "BREAKWATER_BOLTLETTERS_POINT"
	cutEnv   = "BREAKWATER_BOLTLETTERS_CUT"
)

func playRole(role string) int {
	c := small(os.Getenv(dirEnv))
	c.MaxBytes = 64 * mib
	var err error
	switch role {
	case "emitters":
		err = playEmitters(c)
	case "failpoint":
		err = playFailpoint(c, os.Getenv(pointEnv))
	case "fill":
		c.MaxBytes = backlogMax
		err = playFill(c)
	case "reopen":
		c.MaxBytes = backlogMax
		c.Check = CheckInChild
		err = playReopen(c)
	default:
		err = errors.New("no such role")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		return 1
	}
	return 0
}

// playEmitters appends until it is killed, and prints the ID of each letter that was acknowledged. The first refusal ends it.
func playEmitters(c Config) error {
	ctx := context.Background()
	s, err := Open(ctx, c)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	first := make(chan error, 1)
	for g := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				l := letter(fmt.Sprint("c", g%3), g%4, fmt.Sprintf("%d-%d-%d", os.Getpid(), g, i))
				l.Trigger.Data = make([]byte, 10+i*37%5000)
				_, err := s.Append(ctx, l)
				if err != nil {
					select {
					case first <- err:
					default:
					}
					return
				}
				mu.Lock()
				fmt.Fprintln(os.Stdout, l.Trigger.ID)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if err := <-first; !errors.Is(err, emit.ErrBackPressure) {
		return err
	}
	fmt.Fprintln(os.Stdout, "refused")
	return nil
}

// A role is a child process of a test.
type role struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  strings.Builder
}

func start(t *testing.T, name, dir string, env ...string) *role {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &role{t: t, cmd: exec.CommandContext(t.Context(), self)}
	r.cmd.Env = append(append(os.Environ(), roleEnv+"="+name, dirEnv+"="+dir), env...)
	r.cmd.Stderr = &r.said
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines = bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// read returns the next n lines, or all with n < 0.
func (r *role) read(n int) (lines []string) {
	for len(lines) != n && r.lines.Scan() {
		lines = append(lines, r.lines.Text())
	}
	return lines
}

// kill ends it by SIGKILL; what it had printed is returned.
func (r *role) kill() []string {
	r.t.Helper()
	if err := r.cmd.Process.Kill(); err != nil {
		r.t.Fatal(err)
	}
	lines := r.read(-1)
	_ = r.cmd.Wait() // killed
	return lines
}

// wait waits for its end.
func (r *role) wait() []string {
	r.t.Helper()
	lines := r.read(-1)
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("%v: %s", err, r.said.String())
	}
	return lines
}

func killSelf() {
	if mount := os.Getenv(cutEnv); mount != "" {
		if err := shutdownFS(mount); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// wantAll fails for each acknowledged ID that the Store does not have.
func wantAll(t *testing.T, s *Store, acked []string) {
	t.Helper()
	have := map[string]bool{}
	for consumer := range s.Depths() {
		for _, id := range ids(list(t, s, consumer, emit.Filter{})) {
			have[id] = true
		}
	}
	lost := 0
	for _, id := range acked {
		if !have[id] && id != "refused" {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged letters are lost", lost, len(acked))
	}
	if st := s.Stats(); st.Letters != len(have) || st.BadRecords > 0 || len(st.Quarantined) > 0 {
		t.Errorf("%d letters found, Stats are %+v", len(have), st)
	}
}
