package systemd

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// manager is the service manager's end of a real socket.
func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func received(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// What is sent is what sd_notify(3) says, over a socket with a path and over an abstract one.
func TestMessages(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@breakwater-test-" + strconv.Itoa(os.Getpid())} {
		c := manager(t, name)
		n, err := New(environment(map[string]string{"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000"}))
		if err != nil {
			t.Fatal(err)
		}
		for want, send := range map[string]func() error{
			`^READY=1\nSTATUS=two lines$`:               func() error { return n.Ready("two\nlines") },
			`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*$`: n.Reloading,
			`^STOPPING=1\nSTATUS=draining$`:             func() error { return n.Stopping("draining") },
			`^STATUS=fine$`:                             func() error { return n.Status("fine") },
			`^WATCHDOG=1$`:                              n.Alive,
		} {
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if got := received(t, c); !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("got %q, want %s", got, want)
			}
		}
		if got := n.Watchdog(); got != 1500*time.Millisecond {
			t.Errorf("got a ping each %v, want 1.5s, half of WATCHDOG_USEC", got)
		}
	}
}

// A service manager that was started anew has another socket in the place of the first, and is told.
func TestSocketIsMadeAnew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	first := manager(t, name)
	n, err := New(environment(map[string]string{"NOTIFY_SOCKET": name}))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := n.Alive(); err == nil {
		t.Error("while there is no socket: got no error")
	}
	second := manager(t, name)
	if err := n.Alive(); err != nil {
		t.Fatal(err)
	}
	if got := received(t, second); got != "WATCHDOG=1" {
		t.Errorf("got %q, want WATCHDOG=1", got)
	}
}

// Without a service manager nobody is told, and that is no error.
func TestNobodyToTell(t *testing.T) {
	n, err := New(environment(nil))
	if n != nil || err != nil {
		t.Fatalf("got %v, %v, want nil, nil", n, err)
	}
	if n.Ready("x") != nil || n.Alive() != nil || n.Watchdog() != 0 {
		t.Error("a nil Notifier tells somebody")
	}
}

// A watchdog that is another process's, or none, is not heeded.
func TestWatchdogOfOthers(t *testing.T) {
	for _, vars := range []map[string]string{
		{"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "-5"}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "99999999999999999"}, {},
	} {
		if got := watchdog(environment(vars)); got != 0 {
			t.Errorf("%v: got %v, want none", vars, got)
		}
	}
	if got := watchdog(environment(map[string]string{"WATCHDOG_USEC": "10", "WATCHDOG_PID": strconv.Itoa(os.Getpid())})); got != 10*time.Microsecond {
		t.Errorf("of this process: got %v, want 10µs", got)
	}
}

// A wrong name is a fault that says so, and a socket that is gone an error.
func TestNoSocket(t *testing.T) {
	for _, name := range []string{"relative", filepath.Join(t.TempDir(), "none")} {
		if n, err := New(environment(map[string]string{"NOTIFY_SOCKET": name})); err == nil || n != nil {
			t.Errorf("%s: got %v, %v, want an error", name, n, err)
		}
	}
}
