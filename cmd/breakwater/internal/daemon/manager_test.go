package daemon

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// A manager is a service manager at a real socket.
type manager struct {
	t        *testing.T
	name     string
	messages chan string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t, filepath.Join(t.TempDir(), "notify"), make(chan string, 1000)}
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			m.messages <- string(buf[:n])
		}
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-ended
	})
	return m
}

// getenv is the environment that it gives.
func (m *manager) getenv(name string) string {
	return map[string]string{"NOTIFY_SOCKET": m.name, "WATCHDOG_USEC": "200000"}[name]
}

// next waits for a message; none but the watchdog's may come before.
func (m *manager) next(want string) {
	m.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got := <-m.messages:
			if strings.HasPrefix(got, want) {
				return
			}
			if !strings.HasPrefix(got, "WATCHDOG=1") {
				m.t.Fatalf("got %q, want %s", got, want)
			}
		case <-timeout:
			m.t.Fatalf("no %s", want)
		}
	}
}

// The service manager is told of the start, of a reload, that the process lives, and of the end, in this order.
func TestServiceManager(t *testing.T) {
	m, k := newManager(t), newTaker(t)
	text := "consumers: [{name: a, url: '" + k.URL + "'}]\n"
	r := begin(t, configured(t, text), m.getenv)
	r.ready()
	m.next("READY=1\nSTATUS=1 consumer")
	m.next("WATCHDOG=1")
	m.next("WATCHDOG=1")
	r.reload("listen: 127.0.0.1:0\n" + text)
	m.next("RELOADING=1\nMONOTONIC_USEC=")
	m.next("READY=1")
	r.end()
	m.next("STOPPING=1\nSTATUS=")
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// It is told of an end that comes while the process starts too, which balancers need not notice. The primary takes connections and says nothing.
func TestServiceManagerIsToldOfAnEndDuringTheStart(t *testing.T) {
	primary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer primary.Close()
	m := newManager(t)
	nodes := fmt.Sprintf("primary: {dsn: 'host=127.0.0.1 port=%d'}\nreplicas: []\nsettings: {calm: 1h, sample_timeout: 30m}\nshutdown: {delay: 1h}\n", primary.Addr().(*net.TCPAddr).Port)
	r := begin(t, configured(t, nodes), m.getenv)
	conn, err := primary.Accept() // it is being sampled
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r.end()
	m.next("STOPPING=1\nSTATUS=")
	if err := r.stop(); err != nil || r.out.String() != "" {
		t.Errorf("got %v and %q, want no error, and nobody told that it was ready", err, r.out)
	}
}

// While a sampler says nothing the process is not well, and the watchdog is not told that it is alive.
func TestSilentSampler(t *testing.T) {
	_, lines := nodes(t, 1)
	file := configured(t, fleetText(lines))
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(Options{File: file, Config: c, Log: &text{}, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.standard.Close()
	if err := d.parts.open(t.Context(), c, &observers{}, d.publish); err != nil { // nobody hears the samplers
		t.Fatal(err)
	}
	defer func() { _ = d.parts.close() }()
	if err := d.well(); err != nil {
		t.Errorf("at the start: got %v, want none", err)
	}
	d.pulse.heard(sampleOf("r1", time.Now().Add(-time.Minute)))
	if err := d.well(); !errors.Is(err, errHeartbeat) || !strings.Contains(err.Error(), "r1") {
		t.Errorf("r1 has said nothing for a minute: got %v, want it named", err)
	}
}
