package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/internal/relay"
)

// Node is what a client needs to know of one server. It is a value; faults do
// not change it.
type Node struct {
	Name     string // "primary", "r1", "r2", …
	Host     string // "127.0.0.1"
	Port     int
	DSN      string // role breakwater: no superuser, pg_monitor, owns database lab; holds its password
	AdminDSN string // superuser postgres, database postgres; holds its password
	Log      string // path of the server's log, until Close
}

// node is one server and what was done to it.
type node struct {
	name     string       // immutable
	upstream *node        // immutable; nil: the primary
	relay    *relay.Relay // immutable; its link to upstream; nil: the primary
	data     string       // immutable: data directory
	log      string       // immutable: log file
	port     int          // written by Start only

	op struct {
		sync.Mutex               // held for a whole operation on this node
		proc       *process      // nil: never started
		applyDelay time.Duration // recovery_min_apply_delay
		frozen     bool          //
		paused     bool          //
		diverged   bool          // it, or one that it streams from, was promoted          //
	}
}

func (n *node) addr() string { return net.JoinHostPort(host, strconv.Itoa(n.port)) }

// dsn builds a URL; url.URL quotes what needs it.
func (n *node) dsn(role, password, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(role, password), Host: n.addr(),
		Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (n *node) runningLocked() bool { return n.op.proc != nil && !n.op.proc.hasEnded() }

// settings is the part of the configuration in which nodes differ. It is
// included by postgresql.conf, so writing it anew replaces all of it.
func (n *node) settings(adminPassword string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "port = %d\n", n.port)
	// The cluster name shows in every process's title; it starts with the
	// fleet's directory, by which Sweep knows its own where there is no /proc.
	fmt.Fprintf(&b, "cluster_name = '%s %s'\n", filepath.Base(filepath.Dir(n.data)), n.name)
	if n.upstream == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "primary_conninfo = 'host=%s port=%d user=%s password=%s application_name=%s sslmode=disable'\n",
		host, n.relay.Port(), adminRole, adminPassword, n.name)
	fmt.Fprintf(&b, "recovery_min_apply_delay = %d\n", n.op.applyDelay.Milliseconds())
	return b.String()
}

// writeSettings replaces the node's settings in one step, so that a server that
// reads them meanwhile sees the old or the new ones.
func (n *node) writeSettings(adminPassword string, a *account) error {
	path := filepath.Join(n.data, nodeConf)
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(n.settings(adminPassword)), 0o600); err != nil {
		return err
	}
	if err := a.own(tmp); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// tail returns the last complaints in the log from offset on.
func (n *node) tail(offset int64) string {
	text, err := os.ReadFile(n.log)
	if err != nil || int64(len(text)) <= offset {
		return "(nothing in " + n.log + ")"
	}
	lines := strings.Split(strings.TrimSpace(string(text[offset:])), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}

func (n *node) logSize() int64 {
	info, err := os.Stat(n.log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// freePort finds a port that nobody listens on now. It may be taken before the
// server listens, so whoever starts one must be ready to choose again. Ports of
// the usual ephemeral ranges (32768 up) are left out: a client that dials a
// dead server there can be given that very port as its own and meet itself.
func freePort(taken func(int) bool) (int, error) {
	for range 200 {
		p := firstPort + rand.IntN(lastPort-firstPort)
		if taken(p) {
			continue
		}
		ln, err := net.Listen("tcp4", net.JoinHostPort(host, strconv.Itoa(p))) //nolint:noctx // binds and returns
		if err != nil {
			continue
		}
		return p, ln.Close()
	}
	return 0, errors.New("fleet: no free port between 20000 and 32000 on 127.0.0.1 in 200 tries")
}
