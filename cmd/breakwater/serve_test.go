package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
)

// A served process is `breakwater serve`, for real.
type served struct {
	t      *testing.T
	cmd    *exec.Cmd
	url    string
	errOut bytes.Buffer
}

// serveProcess starts it and waits for the line that says ready.
func serveProcess(t *testing.T, file string) *served {
	t.Helper()
	s := &served{t: t, cmd: exec.CommandContext(t.Context(), binary, "serve", "--config", file)}
	s.cmd.Stderr = &s.errOut
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = s.cmd.Wait()
		t.Fatalf("no line that says ready: %v\n%s", err, s.errOut.String())
	}
	s.url = strings.TrimSpace(strings.TrimPrefix(line, "breakwater: ready: "))
	return s
}

// end sends a signal and returns the exit status.
func (s *served) end(sig syscall.Signal) int {
	s.t.Helper()
	_ = s.cmd.Process.Signal(sig)
	_ = s.cmd.Wait() // its status is looked at
	return s.cmd.ProcessState.ExitCode()
}

// stored is how many letters wait.
func (s *served) stored() (n int) {
	s.t.Helper()
	resp, err := http.Get(s.url + "/api/v1/status")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Consumers []struct {
			Depth struct {
				Letters int `json:"letters"`
			} `json:"depth"`
		} `json:"consumers"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range status.Consumers {
		n += c.Depth.Letters
	}
	return n
}

// emitters emit events until the daemon is gone, and remembers which were acknowledged.
type emitters struct {
	acked sync.Map // by ID
	n     atomic.Int64
}

func (l *emitters) run(ctx context.Context, url string, round, senders int) *sync.WaitGroup {
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%d-%d-%d", round, s, i)
				if !emitOne(client, url, id) {
					continue
				}
				l.acked.Store(id, true)
				l.n.Add(1)
			}
		})
	}
	return &all
}

// emitOne tells whether the event was acknowledged.
func emitOne(client *http.Client, url, id string) bool {
	event := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"test","type":"order.paid","data":{"n":1}}`, id)
	resp, err := client.Post(url+"/api/v1/emit", "application/cloudevents+json", strings.NewReader(event))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusAccepted
}

// REQ-E7, REQ-E8: whatever ends the process under load, what it had acknowledged is with its consumer, or comes to it after the next start.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			taker, err := consumer.Start(exec.CommandContext(t.Context(), binary, emitlab.RoleConsumer, "--seed", "1"))
			if err != nil {
				t.Fatal(err)
			}
			defer taker.Close()
			port := freePort(t)
			file := configFile(t, "listen: "+port+"\ndead_letters: {path: "+filepath.Join(t.TempDir(), "letters")+"}\n"+
				"consumers: [{name: ledger, url: '"+taker.URL+"', timeout: 300ms}]\n")
			var l emitters
			for round := range 2 {
				if err := taker.Become(consumer.Behaviour{Fail: round == 0}); err != nil { // of the first round all is stored
					t.Fatal(err)
				}
				s := serveProcess(t, file)
				ctx, stop := context.WithCancel(t.Context())
				senders := l.run(ctx, s.url, round, 4)
				waitUntil(t, func() bool { return l.n.Load() >= int64(150*(round+1)) })
				status := s.end(sig)
				stop()
				senders.Wait()
				if sig == syscall.SIGTERM && status != exitHeld {
					t.Errorf("round %d: got exit status %d, want 0\n%s", round, status, s.errOut.String())
				}
			}
			s := serveProcess(t, file)
			waitUntil(t, func() bool { return s.stored() == 0 })
			if status := s.end(syscall.SIGTERM); status != exitHeld {
				t.Errorf("the end: got exit status %d, want 0\n%s", status, s.errOut.String())
			}
			checkTaken(t, &l, taker)
		})
	}
}

func checkTaken(t *testing.T, l *emitters, taker *consumer.Process) {
	t.Helper()
	report, err := taker.Report(true)
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, id := range report.IDs {
		taken[id] = true
	}
	lost := 0
	for id := range l.acked.Range {
		if !taken[id.(string)] {
			lost++
		}
	}
	t.Logf("acknowledged %d, taken %d, lost %d, duplicates %d", l.n.Load(), report.Taken, lost, report.Duplicates)
	if lost > 0 {
		t.Errorf("%d of %d acknowledged events are lost", lost, l.n.Load())
	}
}

// waitUntil asks until it holds.
func waitUntil(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal("not within a minute")
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A file with faults is told whole, and ends with 1; wrong usage with 2.
func TestServeRefuses(t *testing.T) {
	faulty := configFile(t, "consumers: [{name: a, url: 'http://a/', timeot: 1s}]\nlisten: 0.0.0.0:80\nlog: {level: loud}\n")
	got := runBinary(t, "serve", "--config", faulty)
	if got.status != exitFailed || got.out != "" || strings.Count(got.err, "\n") != 3 || !strings.HasPrefix(got.err, faulty+":1:") {
		t.Errorf("got status %d\n%s%swant 1 and three faults", got.status, got.out, got.err)
	}
	got = runBinary(t, "serve", "--config", configFile(t, "settings: {trip: 1s}\n"))
	if got.status != exitFailed || !strings.Contains(got.err, "the file has nothing to serve: name primary and replicas") {
		t.Errorf("nothing to serve: got status %d\n%s", got.status, got.err)
	}
	if got := runBinary(t, "serve", faulty); got.status != exitUsage || !strings.Contains(got.err, "by --config") {
		t.Errorf("serve with a file as its argument: status %d and %q, want %d and a word on --config", got.status, got.err, exitUsage)
	}
	if got := runBinary(t, "serve"); got.status != exitUsage || !strings.Contains(got.err, "no --config: name the configuration file") {
		t.Errorf("no file: got status %d\n%s", got.status, got.err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	got = runBinary(t, "serve", "--config", configFile(t, "consumers: [{name: a, url: 'http://a/'}]\nlisten: "+taken.Addr().String()+"\n"))
	if got.status != exitFailed || !strings.Contains(got.err, ":2:9: listen is "+taken.Addr().String()+", which is in use: end") {
		t.Errorf("a port in use: got status %d\n%s", got.status, got.err)
	}
}

// SIGHUP has the file read again, and ends nothing.
func TestServeReloadsOnHangup(t *testing.T) {
	file := configFile(t, "consumers: [{name: a, url: 'http://127.0.0.1:1/'}]\nlisten: 127.0.0.1:0\n")
	s := serveProcess(t, file)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, func() bool {
		resp, err := http.Get(s.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(text), `breakwater_config_reloads_total{outcome="success"} 1`)
	})
	if status := s.end(syscall.SIGTERM); status != exitHeld {
		t.Errorf("got exit status %d, want 0\n%s", status, s.errOut.String())
	}
}

// A second signal ends it at once, in the middle of a long stop.
func TestServeSecondSignal(t *testing.T) {
	s := serveProcess(t, configFile(t, "consumers: [{name: a, url: 'http://127.0.0.1:1/'}]\nlisten: 127.0.0.1:0\nshutdown: {delay: 5m}\n"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.cmd.Wait() // its status is looked at
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for timeout := time.After(time.Minute); ; {
		select {
		case <-done:
			if got := s.cmd.ProcessState.ExitCode(); got != exitInterrupted {
				t.Errorf("got exit status %d, want 130\n%s", got, s.errOut.String())
			}
			return
		case <-tick.C:
			_ = s.cmd.Process.Signal(syscall.SIGTERM)
		case <-timeout:
			t.Fatal("it does not end")
		}
	}
}
