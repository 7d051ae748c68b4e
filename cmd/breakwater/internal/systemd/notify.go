// Package systemd tells the service manager how the process fares: sd_notify(3), by a datagram to the socket that NOTIFY_SOCKET names.
//
// # Concurrency
//
// All methods may be called at any time from any goroutine. A nil Notifier tells nobody.
package systemd

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// sendWithin bounds the wait for a service manager that does not read.
const sendWithin = time.Second

// A Notifier sends to the service manager. Make it with [New].
type Notifier struct {
	at       *net.UnixAddr // immutable
	interval time.Duration // of the watchdog; 0: none; immutable
}

// New finds the socket that the environment names; nil without an error where it names none. getenv is os.Getenv.
func New(getenv func(string) string) (*Notifier, error) {
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil //nolint:nilnil // there is no service manager
	}
	if path[0] != '/' && path[0] != '@' {
		return nil, fmt.Errorf("systemd: NOTIFY_SOCKET is %q: it must be a path or begin with @", path)
	}
	// net knows a name that begins with @ as one of the abstract namespace.
	n := &Notifier{at: &net.UnixAddr{Name: path, Net: "unixgram"}, interval: watchdog(getenv)}
	conn, err := net.DialUnix("unixgram", nil, n.at)
	if err != nil {
		return nil, fmt.Errorf("systemd: NOTIFY_SOCKET: %w", err)
	}
	return n, conn.Close()
}

// watchdog is the time within which the service manager wants to be told; 0 where it does not, or means another process.
func watchdog(getenv func(string) string) time.Duration {
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 || usec > int64(24*time.Hour/time.Microsecond) {
		return 0
	}
	return time.Duration(usec) * time.Microsecond
}

// Watchdog is how often Alive is due, half of what the service manager waits; 0: never.
func (n *Notifier) Watchdog() time.Duration {
	if n == nil {
		return 0
	}
	return n.interval / 2
}

// Ready tells that the process serves, after its start and after each Reloading.
func (n *Notifier) Ready(status string) error { return n.send("READY=1", "STATUS="+oneLine(status)) }

// Reloading tells that the configuration is read again; Ready ends it.
func (n *Notifier) Reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("systemd: the clock: %w", err)
	}
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Status is one line for people.
func (n *Notifier) Status(text string) error { return n.send("STATUS=" + oneLine(text)) }

// Stopping tells that the end has begun.
func (n *Notifier) Stopping(status string) error {
	return n.send("STOPPING=1", "STATUS="+oneLine(status))
}

// Alive is what the watchdog waits for.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// send connects each time: a service manager that was started anew has another socket of the same name.
func (n *Notifier) send(lines ...string) error {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, n.at)
	if err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	defer conn.Close()                                    //nolint:errcheck // it was written to
	_ = conn.SetWriteDeadline(time.Now().Add(sendWithin)) // a socket has deadlines
	if _, err := conn.Write([]byte(strings.Join(lines, "\n"))); err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	return nil
}

// oneLine keeps a text from being read as further assignments.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
