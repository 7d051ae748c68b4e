package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/replica"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// A text is what was written; it wakes who waits for more.
type text struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	woken chan struct{}
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.woken != nil {
		close(x.woken)
		x.woken = nil
	}
	return x.buf.Write(p)
}

func (x *text) now() (string, <-chan struct{}) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.woken == nil {
		x.woken = make(chan struct{})
	}
	return x.buf.String(), x.woken
}

// String is what was written so far.
func (x *text) String() string {
	s, _ := x.now()
	return s
}

// waitFor waits until a piece was written that often.
func (x *text) waitFor(t *testing.T, piece string, times int) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		s, woken := x.now()
		if strings.Count(s, piece) >= times {
			return s
		}
		select {
		case <-woken:
		case <-timeout:
			t.Fatalf("no %q in\n%s", piece, s)
		}
	}
}

// A running daemon of a test.
type running struct {
	t        *testing.T
	file     string
	url      string
	out, log *text
	hangup   chan os.Signal
	end      context.CancelFunc
	ended    chan error
	client   *http.Client
	token    string
	hung     int // reloads that were asked for
}

// configured is a configuration that listens on a free port.
func configured(t *testing.T, more string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "breakwater.yaml")
	write(t, file, "listen: 127.0.0.1:0\n"+more)
	return file
}

// begin starts a daemon and does not wait.
func begin(t *testing.T, file string, getenv func(string) string) *running {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	r := &running{
		t: t, file: file, out: &text{}, log: &text{}, hangup: make(chan os.Signal, 1), ended: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{}, Timeout: patience},
	}
	ctx, end := context.WithCancel(t.Context())
	r.end = end
	go func() {
		r.ended <- Run(ctx, Options{File: file, Config: c, Version: "test", Out: r.out, Log: r.log, Hangup: r.hangup, Getenv: getenv})
	}()
	t.Cleanup(func() { _ = r.stop() })
	return r
}

// start starts a daemon and waits until it is ready.
func start(t *testing.T, file string) *running {
	t.Helper()
	r := begin(t, file, nil)
	r.ready()
	return r
}

func (r *running) ready() {
	r.t.Helper()
	line := r.out.waitFor(r.t, "\n", 1)
	r.url = strings.TrimSpace(strings.TrimPrefix(line, "breakwater: ready: "))
}

// stop ends it, as SIGTERM does, and returns what Run returned.
func (r *running) stop() error {
	r.end()
	select {
	case err := <-r.ended:
		r.ended <- err
		r.client.CloseIdleConnections()
		return err
	case <-time.After(patience):
		r.t.Error("the daemon does not end")
		return nil
	}
}

// reload replaces the file and has it read.
func (r *running) reload(text string) api.Reload {
	r.t.Helper()
	write(r.t, r.file, text)
	r.hung++
	before := r.status().Reload
	r.hangup <- syscall.SIGHUP
	var now *api.Reload
	r.eventually("a reload", func() bool {
		now = r.status().Reload
		return now.Reloads+now.Failures > before.Reloads+before.Failures
	})
	return *now
}

// eventually asks until it holds.
func (r *running) eventually(what string, holds func() bool) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			r.t.Fatalf("%s: not within %v\n%s", what, patience, r.log)
		}
	}
}

// do asks the interface.
func (r *running) do(method, path, body string, header ...string) (status int, answer string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// A seen status is what these tests look at.
type seen struct {
	Mode       string `json:"mode"`
	Fleet      string `json:"fleet"`
	ConfigHash string `json:"config_hash"`
	Replicas   []struct {
		Name    string      `json:"name"`
		Breaker seenBreaker `json:"breaker"`
	} `json:"replicas"`
	Consumers []seenConsumer  `json:"consumers"`
	ReadPath  json.RawMessage `json:"read_path"`
	Settings  struct {
		TripMS   float64 `json:"trip_ms"`
		Breaches int     `json:"breaches"`
	} `json:"settings"`
	Reload *api.Reload `json:"reload"`
}

type seenBreaker struct {
	State string `json:"state"`
}

type seenConsumer struct {
	Name      string  `json:"name"`
	Delivered int     `json:"delivered"`
	TimeoutMS float64 `json:"timeout_ms"`
	Bulkhead  int     `json:"bulkhead"`
	Depth     struct {
		Durability string `json:"durability"`
	} `json:"depth"`
	Breaker seenBreaker `json:"breaker"`
}

// state is that of a breaker by its name.
func (s *seen) state(name string) string {
	for _, r := range s.Replicas {
		if r.Name == name {
			return r.Breaker.State
		}
	}
	for _, c := range s.Consumers {
		if c.Name == name {
			return c.Breaker.State
		}
	}
	return "absent"
}

func (r *running) status() (s seen) {
	r.t.Helper()
	status, answer := r.do("GET", "/api/v1/status", "")
	if status != http.StatusOK {
		r.t.Fatalf("status: got %d %s", status, answer)
	}
	decode(r.t, answer, &s)
	return s
}

func decode(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
}

// emit sends one event.
func (r *running) emit(id string) (status int, answer string) {
	r.t.Helper()
	event := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"test","type":"order.paid","data":{"n":1}}`, id)
	return r.do("POST", "/api/v1/emit", event, "Content-Type", "application/cloudevents+json")
}

// taker is a consumer that counts what it takes by ID.
type taker struct {
	*httptest.Server
	mu    sync.Mutex
	taken map[string]int
	fail  bool
	conns int // so far
}

func newTaker(t *testing.T) *taker {
	t.Helper()
	k := &taker{taken: map[string]int{}}
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.fail {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		k.taken[r.Header.Get("Ce-Id")]++
	}))
	k.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if s == http.StateNew {
			k.conns++
		}
	}
	k.Start()
	t.Cleanup(k.Close)
	return k
}

func (k *taker) count(id string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken[id]
}

// connections is how many were made so far.
func (k *taker) connections() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.conns
}

func (k *taker) become(fail bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fail = fail
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func sampleOf(node string, at time.Time) replica.Sample { return replica.Sample{Node: node, At: at} }
