package daemon

import (
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
)

// The service manager, at a real socket, is told of the start, of a reload, that the process lives, and of the end, in this order.
func TestServiceManager(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	messages := make(chan string, 1000)
	go func() {
		defer close(messages)
		buf := make([]byte, 4096)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			messages <- string(buf[:n])
		}
	}()
	k := newTaker(t)
	text := "consumers: [{name: a, url: '" + k.URL + "'}]\n"
	vars := map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "200000"}
	r := begin(t, configured(t, text), func(name string) string { return vars[name] })
	r.ready()
	next := func(want string) {
		t.Helper()
		timeout := time.After(patience)
		for {
			select {
			case m := <-messages:
				if strings.HasPrefix(m, want) {
					return
				}
				if !strings.HasPrefix(m, "WATCHDOG=1") {
					t.Fatalf("got %q, want %s", m, want)
				}
			case <-timeout:
				t.Fatalf("no %s", want)
			}
		}
	}
	next("READY=1\nSTATUS=1 consumer")
	next("WATCHDOG=1")
	next("WATCHDOG=1")
	r.reload("listen: 127.0.0.1:0\n" + text)
	next("RELOADING=1\nMONOTONIC_USEC=")
	next("READY=1")
	r.end()
	next("STOPPING=1\nSTATUS=")
	if err := r.stop(); err != nil {
		t.Error(err)
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
