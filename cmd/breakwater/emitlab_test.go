package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
)

// From the binary, with its own processes: the lines, and the exit status that says what the last one says.
func TestConsumersFromTheBinary(t *testing.T) {
	got := runBinary(t, "lab", "--headless", "--json", "--scenario", "failing-consumer", "--for", "3s", "--rate", "100")
	all := lines(t, got.out)
	s := all[len(all)-1]
	if s["kind"] != "summary" || s["fleet"] != "none" || s["lost"] != 0.0 || s["balance_violations"] != 0.0 || s["emitted"].(float64) < 500 {
		t.Errorf("last line: got %v", s)
	}
	if s["emitted"].(float64) != s["delivered"].(float64)+s["stored"].(float64)+s["shed"].(float64)+s["refused"].(float64) {
		t.Errorf("the summary does not add up: %v", s)
	}
	want := exitHeld
	if len(s["failed_expectations"].([]any)) > 0 {
		want = exitFailed
	}
	if got.status != want {
		t.Errorf("status: got %d, want %d with %v\n%s", got.status, want, s["failed_expectations"], got.err)
	}
}

// A lab that is ended leaves no process: by a signal that it hears, and by one that it does not.
func TestConsumersEndWithTheLab(t *testing.T) {
	for _, tt := range []struct {
		scenario string
		signal   os.Signal
		want     int
	}{
		{"slow-consumer", syscall.SIGINT, exitInterrupted},
		{"slow-consumer", syscall.SIGKILL, -1},
		{"crash", syscall.SIGTERM, exitInterrupted},
		{"crash", syscall.SIGKILL, -1},
	} {
		t.Run(tt.scenario+" "+tt.signal.String(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			dir := t.TempDir()
			c := exec.CommandContext(ctx, binary, "lab", "--headless", "--json", "--scenario", tt.scenario)
			c.Env = append(os.Environ(), "TMPDIR="+dir)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it leaves can be found
			out := &signalAt{line: `"round"`, kind: `"second"`, process: c, signal: tt.signal}
			c.Stdout = out
			var errOut bytes.Buffer
			c.Stderr = &errOut
			err := c.Run()
			if got := c.ProcessState.ExitCode(); got != tt.want || strings.Contains(out.kept.String(), `"summary"`) {
				t.Errorf("status: got %d (%v), want %d, and no summary\n%s%s", got, err, tt.want, out.kept.String(), errOut.String())
			}
			for end := time.Now().Add(10 * time.Second); !errors.Is(syscall.Kill(-c.Process.Pid, 0), syscall.ESRCH); {
				if time.Now().After(end) {
					t.Fatal("a process of the lab has outlived it")
				}
			}
			if tt.want == exitInterrupted {
				empty(t, dir)
			}
		})
	}
}

// What the lab runs this program as ends by a signal too.
func TestConsumerEndsByASignal(t *testing.T) {
	c := exec.Command(binary, "consumer")
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := c.Wait(); err != nil {
		t.Errorf("got %v, want status 0", err)
	}
}

func aLiveOfConsumers() emitlab.Live {
	return emitlab.Live{Policy: "latency", Second: emitlab.SecondLine{
		Head: lab.Head{Kind: "second"}, Emitted: 1000,
		Consumers: map[string]emitlab.SecondConsumer{
			"healthy": {Emitted: 500, Delivered: 500, P50: new(3.0), P99: new(8.1)},
			"slow":    {Emitted: 500, Stored: 499, State: breaker.Open, Letters: 2345},
		},
	}}
}

// The table has a row a consumer, and says why one was opened.
func TestTableOfConsumers(t *testing.T) {
	var out bytes.Buffer
	tb := newTable(&out, "slow-consumer", terminal(120, 40))
	tb.colour = false
	tb.line(emitlab.TransitionLine{Head: lab.Head{T: 7070, Kind: "transition"}, Consumer: "slow", To: breaker.Open, Reason: "cusum 14.2 > 14"})
	tb.consumers(aLiveOfConsumers())
	for _, want := range []string{"slow-consumer · policy latency", "1000 emits/s", "healthy   closed", "8.1", "2345", "opened for cusum 14.2 > 14", "7.07 s  transition slow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, out.String())
		}
	}
	drawn := strings.Count(out.String(), "\n")
	out.Reset()
	tb.size = terminal(40, 6)
	tb.width = 40
	tb.consumers(aLiveOfConsumers())
	if n := strings.Count(out.String(), "\n"); n > 5 || n >= drawn {
		t.Errorf("on 6 rows: got %d lines", n)
	}
	tb.line(emitlab.Summary{Scenario: "slow-consumer", Policy: "latency", FailedExpectations: []string{"lost is 1, expected at most 0"}})
	out.Reset()
	tb.end()
	if !strings.Contains(out.String(), "scenario slow-consumer FAILED:\n  lost is 1, expected at most 0") {
		t.Errorf("the verdict is missing:\n%s", out.String())
	}
}

// Each line has words for people.
func TestWordsOfConsumers(t *testing.T) {
	consumers := map[string]*emitlab.ConsumerSummary{"healthy": {}, "slow": {TimeToOpen: new(66.0), OpenReason: "cusum"}}
	none := emitlab.Summary{Policy: "none", Consumers: consumers, Percentiles: emitlab.Percentiles{P99During: new(6500.0)}}
	library := emitlab.Summary{Scenario: "slow-consumer", Policy: "latency", Consumers: consumers, TimeToOpen: new(66.0)}
	for _, tt := range []struct {
		line lab.Line
		want string
	}{
		{emitlab.PolicyLine{Policy: "none"}, "policy     none"},
		{emitlab.FaultLine{Fault: "hanging", Consumer: "slow", Phase: "begin"}, "fault      slow     hanging begin"},
		{emitlab.TransitionLine{Consumer: "slow", To: breaker.Open, Reason: "cusum", OpenPeriodMS: new(100.0)}, "closed → open: cusum; open for 0.1 s"},
		{emitlab.RoundLine{Round: 3, Fault: "failing", LivedMS: 700, Acknowledged: 600, Stored: 300, Replayed: 5}, "round 3    killed after 700 ms (slow: failing): 600 acknowledged, 300 of them stored; 5 replayed"},
		{emitlab.ErrorLine{Consumer: "slow", Error: "x"}, "own fault  slow: x"},
		{aLiveOfConsumers().Second, "1000 emits; healthy closed p50 3 ms, p99 8.1 ms, 500 delivered"},
		{library, "slow     p50 - → - ms, p95 - → - ms, p99 - → - ms; 0 stored meanwhile; opened after 66 ms for cusum"},
		{library, "scenario slow-consumer: every expectation held"},
		{none, "nothing is expected of them"},
		{emitlab.Summary{Rounds: 20, Acknowledged: 9000, Counts: emitlab.Counts{Duplicates: 7}}, "20 times killed: 9000 acknowledged, 0 lost; 0 replayed, 7 duplicates"},
		{emitlab.Summary{Policies: map[string]*emitlab.Summary{"none": &none, "latency": &library}}, "none           6500"},
	} {
		if got := describe(tt.line); !strings.Contains(got, tt.want) {
			t.Errorf("got %q, want %q in it", got, tt.want)
		}
	}
}
