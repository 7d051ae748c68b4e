package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// played is the lab's binary under way, with its page.
type played struct {
	t   *testing.T
	c   *exec.Cmd
	url string
	dir string // all its files

	all sync.WaitGroup // reads standard error

	mu  sync.Mutex
	err bytes.Buffer
}

var opening = regexp.MustCompile(`^open (http://127\.0\.0\.1:\d+/)$`)

// startPlay starts the binary and waits until it tells its address.
func startPlay(t *testing.T, args ...string) *played {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	p := &played{t: t, dir: enterable(t)}
	p.c = exec.CommandContext(ctx, binary, append([]string{"lab", "--listen", "127.0.0.1:0"}, args...)...)
	p.c.Env = append(os.Environ(), "TMPDIR="+p.dir)
	p.c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it leaves can be found
	r, err := p.c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.c.Process.Kill() })
	address := make(chan string, 1)
	p.all.Go(func() {
		defer close(address)
		for s := bufio.NewScanner(r); s.Scan(); {
			p.mu.Lock()
			p.err.WriteString(s.Text() + "\n")
			p.mu.Unlock()
			if m := opening.FindStringSubmatch(s.Text()); m != nil {
				address <- m[1]
			}
		}
	})
	if p.url = <-address; p.url == "" {
		t.Fatalf("it tells no address:\n%s", p.said())
	}
	return p
}

func (p *played) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err.String()
}

func (p *played) ask(method, path, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// ends ends it by a signal, and waits until neither it nor a process of its group is left.
func (p *played) ends(by syscall.Signal, want int) {
	p.t.Helper()
	if err := p.c.Process.Signal(by); err != nil {
		p.t.Fatal(err)
	}
	p.all.Wait()
	err := p.c.Wait()
	if got := p.c.ProcessState.ExitCode(); got != want {
		p.t.Errorf("status: got %d (%v), want %d\n%s", got, err, want, p.said())
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !errors.Is(syscall.Kill(-p.c.Process.Pid, 0), syscall.ESRCH); <-tick.C {
		if time.Now().After(end) {
			p.t.Fatal("a process of the lab has outlived it")
		}
	}
}

// The lab without a scenario serves the interface, and leaves nothing behind however it ends, broken as it is.
func TestPlayPage(t *testing.T) {
	for _, tt := range []struct {
		by   syscall.Signal
		want int
	}{{syscall.SIGINT, exitHeld}, {syscall.SIGKILL, -1}} {
		t.Run(tt.by.String(), func(t *testing.T) {
			p := startPlay(t, "--fleet", "simulated", "--headless")
			for _, x := range []struct{ method, path, body, want string }{
				{"GET", "livez", "", "ok"},
				{"GET", "", "", ""},
				{"GET", "api/v1/status", "", `"mode":"lab"`},
				{"GET", "api/v1/flight", "", `"snapshots":`}, // what the flight recorder keeps
				{"POST", "api/v1/faults", `{"target":"r1","fault":"freeze"}`, "r1"},
				{"POST", "api/v1/faults", `{"target":"mailer","fault":"hang"}`, "mailer"},
				{"PATCH", "api/v1/load", `{"unprotected":true}`, "unprotected"},
				{"GET", "metrics", "", `breakwater_build_info{`},
				{"GET", "metrics", "", "breakwater_event_stream_clients 0"},
				{"GET", "metrics", "", `breaker_state{`},
				{"GET", "api/v1/flight", "", `"snapshots":[`},
			} {
				if status, answer := p.ask(x.method, x.path, x.body); status != http.StatusOK || !strings.Contains(answer, x.want) {
					t.Errorf("%s /%s: got %d, %s, want 200 with %q", x.method, x.path, status, answer, x.want)
				}
			}
			p.ends(tt.by, tt.want)
		})
	}
}

// On a real fleet no password of its roles is in the interface (REQ-O4), also while connections fail; and the fleet ends with the
// lab although one server is dead and one is frozen.
func TestPlayPageOnTheRealFleet(t *testing.T) {
	p := startPlay(t, "--fleet", "postgres", "--replicas", "2", "--headless")
	for _, body := range []string{`{"target":"r1","fault":"kill"}`, `{"target":"r2","fault":"freeze"}`} {
		if status, answer := p.ask("POST", "api/v1/faults", body); status != http.StatusOK {
			t.Errorf("%s: got %d, %s, want 200", body, status, answer)
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		if _, s := p.ask("GET", "api/v1/status", ""); strings.Contains(s, `"degraded":true`) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("without a replica for 20 s, and not degraded")
		}
	}
	_, run := p.ask("GET", "api/v1/export", "")
	_, now := p.ask("GET", "api/v1/status", "")
	p.ends(syscall.SIGINT, exitHeld)
	empty(t, p.dir)
	secrets := regexp.MustCompile(`(?m)^  (?:primary|r1|r2) +postgres://\w+:([^@]+)@127\.0\.0\.1:\d+/\S+$`).FindAllStringSubmatch(p.said(), -1)
	if len(secrets) != 3 {
		t.Fatalf("got %d lines with a name and a connection string on standard error, want 3:\n%s", len(secrets), p.said())
	}
	for _, s := range secrets {
		if strings.Contains(run+now, s[1]) {
			t.Errorf("the interface shows the password %q", s[1])
		}
	}
}
