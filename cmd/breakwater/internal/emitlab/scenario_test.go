package emitlab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

const (
	msec = time.Millisecond
	sec  = time.Second
)

// short is a run that takes a few seconds.
func short(scenario string, length time.Duration) Options {
	return Options{
		Scenario: scenario, Rate: 100, Seed: 1, For: length, Started: time.Now(), Child: child,
		calm: 1500 * msec, settle: 300 * msec,
	}
}

// lines keeps what a run tells.
type lines struct {
	mu  sync.Mutex
	all []lab.Line
}

func (l *lines) tell(x lab.Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, x)
}

func kindsOf[T lab.Line](l *lines) (all []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.all {
		if x, ok := x.(T); ok {
			all = append(all, x)
		}
	}
	return all
}

func playShort(t *testing.T, o Options) (Summary, *lines) {
	t.Helper()
	heard := &lines{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	result, err := Play(ctx, o, heard.tell, nil)
	if err != nil || result.Interrupted {
		t.Fatalf("got interrupted %t, error %v", result.Interrupted, err)
	}
	return result.Summary, heard
}

// mustHold leaves out what the machine decides, and what needs more traffic than a short run has.
func mustHold(t *testing.T, s Summary) {
	t.Helper()
	for _, failed := range s.FailedExpectations {
		if !strings.Contains(failed, "worst_stall_ms") {
			t.Errorf("%s: %s", s.Scenario, failed)
		}
	}
	if s.Fleet != "none" || s.Scenario == "" || s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused {
		t.Errorf("summary: got %+v", s)
	}
}

// Each scenario with consumers in processes of their own, short: what is data and counts must hold on any machine.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scenario string
		length   time.Duration
		check    func(*testing.T, Summary)
	}{
		{"slow-consumer", 2 * sec, func(t *testing.T, s Summary) {
			t.Helper()
			if s.Consumers[slow].OpenReason == "" || s.Replayed == 0 {
				t.Errorf("open_reason, replayed: got %q, %d, want some", s.Consumers[slow].OpenReason, s.Replayed)
			}
		}},
		{"hanging-consumer", 2 * sec, func(t *testing.T, s Summary) {
			t.Helper()
			if c := s.Consumers[slow]; c.FirstReturn == nil || *c.FirstReturn < 40 {
				t.Errorf("first_return_ms: got %v, want 50 or more", show(c.FirstReturn))
			}
		}},
		{"failing-consumer", 3 * sec, func(t *testing.T, s Summary) {
			t.Helper()
			if c := s.Consumers[slow]; c.Calls < c.Delivered {
				t.Errorf("calls: got %d for %d delivered", c.Calls, c.Delivered)
			}
		}},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			s, heard := playShort(t, short(tt.scenario, tt.length))
			mustHold(t, s)
			tt.check(t, s)
			if faults := kindsOf[FaultLine](heard); len(faults) != 2 || faults[0].Phase != "begin" || faults[1].Phase != "end" {
				t.Errorf("faults: got %+v", faults)
			}
			if len(kindsOf[SecondLine](heard)) < 3 || len(kindsOf[TransitionLine](heard)) < 3 {
				t.Errorf("lines: got %d seconds, %d transitions", len(kindsOf[SecondLine](heard)), len(kindsOf[TransitionLine](heard)))
			}
		})
	}
}

// A consumer that is slow in 2 % of its calls may need more calls than a short run has to be found out.
func TestPartlySlow(t *testing.T) {
	t.Parallel()
	s, _ := playShort(t, short("partly-slow", 3*sec))
	for _, failed := range s.FailedExpectations {
		if !strings.Contains(failed, "worst_stall_ms") && !strings.Contains(failed, "is null") {
			t.Error(failed)
		}
	}
	if s.Lost != 0 || s.Delivered != s.Emitted {
		t.Errorf("lost, delivered: got %d, %d of %d", s.Lost, s.Delivered, s.Emitted)
	}
}

// The dead letters fill up: what is shed is the least important (REQ-E4).
func TestAllConsumersDown(t *testing.T) {
	t.Parallel()
	o := short("all-consumers-down", 4*sec)
	o.storeBound, o.calm = 200, 500*msec
	s, _ := playShort(t, o)
	mustHold(t, s)
	if s.StoreBound != 200 || s.ByPriority["normal"].Shed == 0 || s.ByPriority["compliance"].Emitted == 0 {
		t.Errorf("store_bound %d, by_priority: got %+v, %+v", s.StoreBound, s.ByPriority["compliance"], s.ByPriority["normal"])
	}
}

// A router that is killed again and again loses nothing that it acknowledged (REQ-E7), and every duplicate has the ID of
// its trigger (REQ-E8).
func TestCrash(t *testing.T) {
	t.Parallel()
	o := short("crash", 2*sec)
	o.Dir = t.TempDir()
	s, heard := playShort(t, o)
	mustHold(t, s)
	if rounds := kindsOf[RoundLine](heard); len(rounds) != s.Rounds || s.Rounds < 2 || s.Acknowledged == 0 {
		t.Errorf("rounds, acknowledged: got %d lines of %d, %d", len(rounds), s.Rounds, s.Acknowledged)
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// Several policies run one after the other; the last line holds all of them.
func TestPolicies(t *testing.T) {
	t.Parallel()
	o := short("slow-consumer", sec)
	o.calm = 500 * msec
	o.Policies = []string{PolicyNone, PolicyErrors, PolicyLatency}
	s, heard := playShort(t, o)
	var told []string
	for _, one := range kindsOf[Summary](heard) {
		told = append(told, one.Policy)
		if one.Kind != "summary" {
			t.Errorf("kind: got %q", one.Kind)
		}
	}
	if !slices.Equal(told, o.Policies) || len(kindsOf[PolicyLine](heard)) != 3 {
		t.Errorf("summaries: got %v, want %v", told, o.Policies)
	}
	if len(s.Policies) != 3 || s.Policy != "" || s.Kind != "summary" {
		t.Errorf("last line: got %d policies, policy %q, kind %q", len(s.Policies), s.Policy, s.Kind)
	}
	if none := s.Policies[PolicyNone]; none.SlowEmits == 0 || none.TimeToOpen != nil || none.Lost != 0 || none.Replayed != 0 {
		t.Errorf("policy none: got %+v", none.Counts)
	}
	if s.Replayed != s.Policies[PolicyLatency].Replayed || s.Replayed == 0 {
		t.Errorf("replayed: got %d, want the library's", s.Replayed)
	}
}

// An interruption ends every process and judges nothing.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, scenario := range []string{"slow-consumer", "crash"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			o := short(scenario, 20*sec)
			if scenario == "crash" {
				o.Dir = t.TempDir()
			}
			var mu sync.Mutex
			var started []*exec.Cmd
			o.Child = func(role string, args ...string) *exec.Cmd {
				mu.Lock()
				defer mu.Unlock()
				c := child(role, args...)
				started = append(started, c)
				return c
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result, err := Play(ctx, o, func(lab.Line) { cancel() }, nil)
			if err != nil || !result.Interrupted {
				t.Errorf("got %t, %v, want interrupted", result.Interrupted, err)
			}
			if len(started) < 2 {
				t.Errorf("got %d processes, want 2 or more", len(started))
			}
			for _, c := range started {
				if c.ProcessState == nil {
					t.Errorf("process %v was not waited for", c.Args)
				}
			}
		})
	}
}

// What cannot be started ends the run, and leaves nothing.
func TestNoProcess(t *testing.T) {
	o := short("slow-consumer", 2*sec)
	o.Child = func(string, ...string) *exec.Cmd { return exec.Command("/nonexistent") }
	if _, err := Play(t.Context(), o, func(lab.Line) {}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no such file", err)
	}
	o = short("crash", 2*sec)
	o.Child = func(role string, args ...string) *exec.Cmd {
		if role == RoleEmitter {
			return exec.Command(os.Args[0], RoleEmitter, "--nonesuch")
		}
		return child(role, args...)
	}
	if _, err := Play(t.Context(), o, func(lab.Line) {}, nil); err == nil || !strings.Contains(err.Error(), "round 1: the router ended before it was ready") {
		t.Errorf("got %v", err)
	}
}
