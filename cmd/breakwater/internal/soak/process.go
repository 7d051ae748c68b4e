package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is the daemon.
type process struct {
	url    string
	cmd    *exec.Cmd
	log    lastLines
	client *http.Client
	once   sync.Once
	ended  error
}

// lastLines keeps the end of what was written.
type lastLines struct {
	mu  sync.Mutex
	buf []byte
}

// Write keeps the end.
func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, p...)
	if over := len(l.buf) - 8192; over > 0 {
		l.buf = bytes.Clone(l.buf[over:])
	}
	return len(p), nil
}

func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.buf)
}

// startDaemon waits for the line that says ready.
func startDaemon(binary, file, url string) (*process, error) {
	p := &process{url: url, cmd: exec.Command(binary, "serve", "--config", file), client: &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}} //nolint:noctx // stop ends it
	p.cmd.Stderr = &p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		p.kill()
		return nil, fmt.Errorf("the daemon is not ready: %q %w\n%s", line, err, p.log.String())
	}
	return p, nil
}

func (p *process) hangup() { _ = p.cmd.Process.Signal(syscall.SIGHUP) }

// stop ends it in order; another exit status than 0 is an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	return p.wait()
}

func (p *process) wait() error {
	p.once.Do(func() {
		timer := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
		defer timer.Stop()
		if err := p.cmd.Wait(); err != nil {
			p.ended = fmt.Errorf("the daemon ended: %w\n%s", err, p.log.String())
		}
	})
	return p.ended
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.wait() // it was killed
}

// A status is what is looked at.
type status struct {
	Reload struct {
		Reloads  int `json:"reloads"`
		Failures int `json:"failures"`
	} `json:"reload"`
	Stream struct {
		Last   uint64 `json:"last"`
		CutOff int    `json:"cut_off"`
	} `json:"stream"`
	Replicas []struct {
		Breaker breakerStatus `json:"breaker"`
	} `json:"replicas"`
	Consumers []struct {
		Emitted   uint64        `json:"emitted"`
		Delivered uint64        `json:"delivered"`
		Stored    uint64        `json:"stored"`
		Shed      uint64        `json:"shed"`
		Refused   uint64        `json:"refused"`
		Replayed  uint64        `json:"replayed"`
		Breaker   breakerStatus `json:"breaker"`
		Depth     struct {
			Letters int `json:"letters"`
		} `json:"depth"`
	} `json:"consumers"`
}

type breakerStatus struct {
	Name       string `json:"name"`
	Scope      string `json:"scope"`
	Generation uint64 `json:"generation"`
	Openings   uint64 `json:"openings"`
}

func (s *status) letters() (n int) {
	for i := range s.Consumers {
		n += s.Consumers[i].Depth.Letters
	}
	return n
}

func (p *process) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

func (p *process) status(ctx context.Context) (*status, error) {
	text, err := p.get(ctx, "/api/v1/status")
	if err != nil {
		return nil, err
	}
	s := new(status)
	return s, json.Unmarshal(text, s)
}

// metrics are the ones without labels.
func (p *process) metrics(ctx context.Context) map[string]float64 {
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			found[name] = v
		}
	}
	return found
}

// memory is the process's own, without mapped files, in bytes.
func (p *process) memory() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb * 1024
		}
	}
	return 0
}
