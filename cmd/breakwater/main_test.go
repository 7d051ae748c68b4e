package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/leaks"
)

// binary is the built command: what its users and their scripts run.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "breakwater-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "breakwater")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic("go build: " + err.Error())
	}
	return leaks.Check(m.Run())
}

// ended is how a run of the binary ended.
type ended struct {
	status   int
	out, err string
}

func runBinary(t *testing.T, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, binary, args...)
	var out, errOut bytes.Buffer
	c.Stdout, c.Stderr = &out, &errOut
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return ended{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// The directory is named once, and the flag that named it.
func TestPgBinIsNamedOnce(t *testing.T) {
	dir := t.TempDir()
	got := runBinary(t, "lab", "--headless", "--pg-bin", dir)
	if n := strings.Count(got.err, dir); n != 1 || !strings.Contains(got.err, "--pg-bin: ") {
		t.Errorf("got the directory %d times, want once, after --pg-bin, in:\n%s", n, got.err)
	}
}

// Wrong usage ends with status 2, tells every fault at once, each with its flag, value
// and mend, and prints no usage.
func TestWrongUsage(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	empty := t.TempDir()
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"unknown command", []string{"frobnicate"}, []string{`unexpected argument "frobnicate"`, "--help"}},
		{"unknown flag", []string{"lab", "--frobnicate"}, []string{"--frobnicate: unknown flag", "breakwater lab --help"}},
		{"unknown flag of version", []string{"version", "--frobnicate"}, []string{"unknown flag: --frobnicate", "breakwater version --help"}},
		{"no value", []string{"lab", "--rate", "x", "--seed"}, []string{`--rate "x"`, "flag needs an argument: --seed", "--help"}},
		{"unreadable values", []string{
			"lab", "--seed", "x", "--for", "5", "--replicas", "many", "--rate", "1.5", "--headless=maybe", "--frobnicate", "-x", "--scenario", "nonesuch", "more",
		}, []string{
			`--seed "x": give a whole number`, `--for "5": give a positive length with its unit, such as 30s`, `--replicas "many": give a whole number, 1 to 8`,
			`--rate "1.5": give a whole number`, `--headless "maybe"`, "--frobnicate: unknown flag", "-x: unknown flag", `--scenario "nonesuch"`,
			`unexpected argument "more"`, "see breakwater lab --help",
		}},
		{"a value that looks like a flag", []string{"lab", "--headless", "--dir", "--frobnicate"}, []string{`--dir "`}},
		{"a shell's argument", []string{"completion", "bash", "x"}, []string{`unexpected argument "x"`}},
		{"unknown shell", []string{"completion", "bogus"}, []string{`unexpected argument "bogus"`}},
		{"help on nothing", []string{"help", "bogus"}, []string{`unknown command "bogus"`}},
		{"help on too much", []string{"help", "lab", "bogus"}, []string{`unknown command "lab bogus"`}},
		{"an argument", []string{"lab", "one-lagging"}, []string{`unexpected argument "one-lagging"`}},
		{"unknown scenario", []string{"lab", "--headless", "--scenario", "one-laging"}, []string{
			`--scenario "one-laging"`, "healthy, one-lagging, one-dead, cut-off, frozen, flapping, random",
		}},
		{"no server", []string{"lab", "--headless", "--fleet", "postgres", "--pg-bin", empty}, []string{"--pg-bin", empty, "initdb"}},
		{"no server, though auto", []string{"lab", "--headless", "--pg-bin", empty}, []string{"--pg-bin", empty}},
		{"unknown fleet", []string{"lab", "--headless", "--fleet", "mysql"}, []string{`--fleet "mysql"`, "auto, postgres, simulated"}},
		{"a simulated server's programs", []string{"lab", "--headless", "--fleet", "simulated", "--pg-bin", empty}, []string{"--pg-bin", "leave it out"}},
		{"used port", []string{"lab", "--fleet", "simulated", "--listen", taken.Addr().String()}, []string{
			`--listen "` + taken.Addr().String() + `"`, "address already in use", "another port",
		}},
		{"a port for the world", []string{"lab", "--headless", "--listen", "0.0.0.0:0"}, []string{`--listen "0.0.0.0:0"`, "loopback"}},
		{"no port", []string{"lab", "--headless", "--listen", "localhost"}, []string{`--listen "localhost"`, "host:port"}},
		{"a simulated fleet's directory", []string{"lab", "--fleet", "simulated", "--dir", empty}, []string{`--dir "` + empty, "leave it out"}},
		{"no directory", []string{"lab", "--headless", "--dir", empty + "/none"}, []string{"--dir", "existing directory"}},
		{"JSON in a table", []string{"lab", "--json"}, []string{"--json", "--headless"}},
		{"zeros", []string{"lab", "--headless", "--rate", "0", "--for", "0s"}, []string{`--rate "0"`, `--for "0s"`}},
		{"too few reads", []string{"lab", "--headless", "--scenario", "all-lagging", "--rate", "50"}, []string{"--rate 50", "at least 300"}},
		{"too short", []string{"lab", "--headless", "--scenario", "frozen", "--for", "2s"}, []string{"--for 2s", "at least 10s"}},
		{"too few", []string{"lab", "--headless", "--scenario", "frozen", "--replicas", "1"}, []string{"--replicas 1", "at least 2"}},
		{"a fleet for consumers", []string{
			"lab", "--headless", "--scenario", "slow-consumer", "--replicas", "2", "--fleet", "simulated", "--pg-bin", empty, "--listen", "127.0.0.1:0", "--dir", empty,
			"--rate", "6000", "--for", "1s", "--policies", "none,fast", "--seed", "x", "more", "--frobnicate",
		}, []string{
			`--replicas "2": scenario slow-consumer has consumers and no fleet; leave it out`, `--fleet "simulated": `, "--pg-bin ", `--listen "127.0.0.1:0": `, "--dir \"" + empty + "\": scenario slow-consumer has no files",
			"--rate 6000: give 1 to 5000", "--for 1s: too short", `--policies "fast": not known; take some of none,timeout,errors,latency`, `--seed "x"`, "--frobnicate: unknown flag", `unexpected argument "more"`,
		}},
		{"no value, of consumers", []string{"lab", "--scenario", "crash", "--json", "--dir", empty + "/none", "--rate"}, []string{"flag needs an argument: --rate", "--json", "existing directory"}},
		{"policies without letters", []string{"lab", "--headless", "--scenario", "crash", "--policies", "none"}, []string{"--policies none: scenario crash is about dead letters"}},
		{"policies of replicas", []string{"lab", "--headless", "--scenario", "frozen", "--policies", "none"}, []string{`--policies "none"`, "slow-consumer"}},
		{"unknown scenario, all of them", []string{"lab", "--headless", "--scenario", "slow-consumr"}, []string{`--scenario "slow-consumr"`, "own-writes, slow-consumer, partly-slow"}},
		{"too much for a consumer", []string{"consumer", "x"}, []string{`unexpected argument "x"`}},
		{"all at once", []string{
			"lab", "--json", "--scenario", "nonesuch", "--replicas", "0", "--rate", "-5", "--for", "-1s", "--fleet", "x", "--dir", empty + "/none", "--listen", "nowhere",
		}, []string{"--json", "nonesuch", "--replicas 0", "--rate -5", "--for -1s", `--fleet "x"`, "--dir", `--listen "nowhere"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := runBinary(t, tt.args...)
			if got.status != exitUsage || got.out != "" {
				t.Errorf("status, standard output: got %d, %q, want %d and none", got.status, got.out, exitUsage)
			}
			for _, want := range tt.want {
				if !strings.Contains(got.err, want) {
					t.Errorf("error lacks %q:\n%s", want, got.err)
				}
			}
			if strings.Contains(got.err, "Usage:") {
				t.Errorf("error holds the usage:\n%s", got.err)
			}
			for line := range strings.Lines(got.err) {
				if !strings.HasPrefix(line, "breakwater: ") {
					t.Errorf("line without the program's name: %q", line)
				}
			}
		})
	}
}

func TestVersionHelpAndCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"version"}, "breakwater "},
		{[]string{"--version"}, "breakwater "},
		{[]string{"lab", "--help"}, "one-lagging      12s"},
		{[]string{"lab", "--help"}, "primary-restart  12s"}, // the longest name, in its column
		{[]string{"lab", "--help"}, "130  a scenario was interrupted"},
		{[]string{"help", "lab"}, "one-lagging"},
		{[]string{"help", "lab"}, "slow-consumer       30s"},
		{[]string{"help", "lab"}, "(none, timeout, errors, latency)"},
		{[]string{"__complete", "lab", "--scenario", "hang"}, "hanging-consumer"},
		{[]string{"check", "--help"}, "FILE:LINE:COLUMN"},
		{[]string{"__complete", "check", "--con"}, "--connect"},
		{[]string{"__complete", "check", ""}, "yaml"},
		{[]string{"completion", "--help"}, "bash"},
		{[]string{"completion", "bash"}, "bash completion"},
		{[]string{"__complete", "lab", "--scenario", ""}, "cut-off"},
	} {
		if got := runBinary(t, tt.args...); got.status != exitHeld || !strings.Contains(got.out, tt.want) {
			t.Errorf("%v: got status %d, want 0 with %q in:\n%s", tt.args, got.status, tt.want, got.out)
		}
	}
}

// lines decodes standard output, which must be one JSON object a line.
func lines(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("not a JSON object: %v: %s", err, line)
		}
		if m["kind"] == nil || m["t_ms"] == nil {
			t.Errorf("line without kind or t_ms: %s", line)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		t.Fatal("no line")
	}
	return all
}

// The real fleet, from the binary: fails, and says what to install, where there is no
// PostgreSQL. On a machine that stalls, timeouts may pass: then only what must hold on
// any machine is judged, and the test says so.
func TestHealthyOnTheRealFleet(t *testing.T) {
	dir := enterable(t)
	got := runBinary(t, "lab", "--fleet", "postgres", "--dir", dir, "--headless", "--json", "--scenario", "healthy", "--for", "8s", "--rate", "50")
	if got.out == "" {
		t.Fatalf("status %d and no line; PostgreSQL is needed (make deps installs it):\n%s", got.status, got.err)
	}
	all := lines(t, got.out)
	s := all[len(all)-1]
	if s["kind"] != "summary" || !strings.HasPrefix(s["fleet"].(string), "postgres ") {
		t.Fatalf("last line: got %v", s)
	}
	zeros := []string{"stale_unflagged", "late_replica_reads", "open_replica_reads", "bound_violations", "request_dials_after_open"}
	if stall := s["worst_stall_ms"].(float64); stall > 200 {
		t.Logf("the machine stalled for %v ms: not judged: %v", stall, s["failed_expectations"])
	} else {
		zeros = append(zeros, "errors", "transitions")
	}
	for _, field := range zeros {
		if s[field] != 0.0 {
			t.Errorf("%s: got %v, want 0", field, s[field])
		}
	}
	if s["reads"].(float64) < 1 || s["bound_samples"].(float64) < 1 {
		t.Errorf("reads, bound_samples: got %v, %v, want some", s["reads"], s["bound_samples"])
	}
	want := exitHeld
	if len(s["failed_expectations"].([]any)) > 0 {
		want = exitFailed
	}
	if got.status != want {
		t.Errorf("status: got %d, want %d with failed expectations %v", got.status, want, s["failed_expectations"])
	}
	empty(t, dir)
}

// enterable is a directory that user postgres may enter, should the test run as root.
func enterable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "breakwater-test-dir-") //nolint:usetesting // user postgres cannot enter a directory of T
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	return dir
}

func empty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the fleet's directory: %v, %v", left, err)
	}
}

// A first signal ends the lab and removes everything: status 0 for traffic that has no
// end, 130 for a scenario that was not judged.
func TestInterrupt(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		signal os.Signal
		want   int
	}{
		{"live, simulated", []string{"--fleet", "simulated", "--listen", "127.0.0.1:0"}, syscall.SIGINT, exitHeld},
		{"scenario, simulated", []string{"--fleet", "simulated", "--headless", "--json", "--scenario", "random"}, syscall.SIGTERM, exitInterrupted},
		{"live, real", []string{"--fleet", "postgres", "--listen", "127.0.0.1:0"}, syscall.SIGINT, exitHeld},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := enterable(t)
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			c := exec.CommandContext(ctx, binary, append([]string{"lab"}, tt.args...)...)
			c.Env = append(os.Environ(), "TMPDIR="+dir)
			out := &signalAt{line: "reads", kind: `"second"`, process: c, signal: tt.signal}
			c.Stdout = out
			var errOut bytes.Buffer
			c.Stderr = &errOut
			err := c.Run()
			if got := c.ProcessState.ExitCode(); got != tt.want {
				t.Errorf("status: got %d (%v), want %d\n%s", got, err, tt.want, errOut.String())
			}
			if strings.Contains(out.kept.String(), `"summary"`) {
				t.Errorf("an interrupted scenario was judged:\n%s", out.kept.String())
			}
			empty(t, dir)
		})
	}
}

// A reader of standard output that goes away ends the lab as Ctrl-C does.
func TestClosedOutput(t *testing.T) {
	dir := enterable(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "lab", "--dir", dir, "--fleet", "postgres", "--headless", "--json")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	_ = out.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
	empty(t, dir)
}

// SIGPIPE, which a write to a killed server's connection raises too, ends nothing: as the
// signal of a closed output it once ended scenario random in its middle.
func TestSIGPIPEEndsNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, binary, "lab", "--fleet", "simulated", "--headless", "--json", "--for", "4s")
	out := &signalAt{line: `"second"`, kind: `"second"`, process: c, signal: syscall.SIGPIPE}
	c.Stdout = out
	if err := c.Run(); err != nil {
		t.Fatalf("got %v, want status 0", err)
	}
	all := lines(t, out.kept.String())
	if s := all[len(all)-1]; !out.sent || s["kind"] != "summary" || s["ran_ms"].(float64) < 4000 {
		t.Errorf("signalled %v, last line: got %v, want the summary of 4 s or more", out.sent, s)
	}
}

// signalAt sends its signal once the output shows that traffic flows.
type signalAt struct {
	kept       bytes.Buffer // not embedded: its ReadFrom would take the place of Write
	line, kind string
	process    *exec.Cmd
	signal     os.Signal
	sent       bool
}

// Write keeps the output.
func (s *signalAt) Write(p []byte) (int, error) {
	n, err := s.kept.Write(p)
	if text := s.kept.String(); !s.sent && (strings.Contains(text, s.line) || strings.Contains(text, s.kind)) {
		s.sent = true
		if err := s.process.Process.Signal(s.signal); err != nil {
			return n, err
		}
	}
	return n, err
}
