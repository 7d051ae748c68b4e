package proxycheck

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/fleettest"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
)

// example is the configuration that users start from, and that is tested here.
const example = "../../../../deploy/haproxy/haproxy.cfg"

// alone has the health check and the agent check each decide by itself, beside the example, which has both. No load goes there.
const alone = `
backend by-http
    option httpchk
    http-check send meth GET uri-lf /replica/%[srv_name]
    http-check expect status 200
    default-server check addr 127.0.0.1 port 8080 inter 500ms fall 1 rise 1
    server r1 127.0.0.1:5501

backend by-agent
    default-server weight 100 check inter 500ms agent-check agent-addr 127.0.0.1 agent-port 8081 agent-inter 500ms
    server r1 127.0.0.1:5501 agent-send "r1\n"
`

// A rig is a real fleet with our checks beside it and a real HAProxy before it.
type rig struct {
	pg    *fleet.Fleet
	db    *pgxread.DB
	stats string         // HAProxy's socket
	end   func()         // of our checks, as if this process had died
	ports map[string]int // those of the example
	bin   string         // where pgbench is
	base  time.Time
	acks  truth.Acks

	mu struct {
		sync.Mutex
		opened time.Duration // r1's breaker, the first time; 0: not yet
		reads  []read
	}
}

// A read is one connection through HAProxy with one statement on it.
type read struct {
	began time.Duration
	port  int // of who answered
	age   time.Duration
	err   error
}

func (r *rig) now() time.Duration { return time.Since(r.base) }

func newRig(t *testing.T) *rig {
	t.Helper()
	found, err := fleet.Find(t.Context(), "")
	fleettest.Must(t, err)
	r := &rig{base: time.Now(), bin: found.Dir, ports: map[string]int{}}
	r.startFleet(t)
	r.openDB(t)
	r.startHAProxy(t)
	return r
}

func (r *rig) startFleet(t *testing.T) {
	t.Helper()
	var err error
	r.pg, err = fleet.Start(t.Context(), fleet.Config{Replicas: 3, SQL: runSQL})
	fleettest.Must(t, err)
	t.Cleanup(func() { fleettest.Must(t, r.pg.Close()) })
	for _, sql := range truth.SetupSQL() {
		fleettest.Must(t, runSQL(t.Context(), fleettest.Node(r.pg, "primary").DSN, sql))
	}
	fleettest.Must(t, r.pg.CatchUp(t.Context()))
}

func runSQL(ctx context.Context, dsn, query string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, query, pgx.QueryExecModeSimpleProtocol)
	return err
}

// openDB opens the fleet with our defaults, but for half as long a slow start.
func (r *rig) openDB(t *testing.T) {
	t.Helper()
	c := pgxread.Config{Settings: replica.Settings{Ramp: 5 * time.Second}, Observer: replica.Observer{OnTransition: r.transition}}
	for _, n := range r.pg.Nodes() {
		node := pgxread.Node{Name: n.Name, DSN: n.DSN}
		if n.Name == "primary" {
			c.Primary = node
		} else {
			c.Replicas = append(c.Replicas, node)
		}
	}
	var err error
	r.db, err = pgxread.Open(t.Context(), c)
	fleettest.Must(t, err)
	t.Cleanup(r.db.Close)
}

func (r *rig) transition(tr breaker.Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if tr.Name == "r1" && tr.To == breaker.Open && r.mu.opened == 0 {
		r.mu.opened = r.now()
	}
}

// startHAProxy starts our checks, and HAProxy with the example's settings but for addresses.
func (r *rig) startHAProxy(t *testing.T) {
	t.Helper()
	set := func() *replica.Set { return r.db.Set() }
	mux := http.NewServeMux()
	mux.Handle("/replica/{name}", Handler(set, nil))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	a, agent := serve(t, AgentConfig{Set: set})
	r.end = func() {
		web.Close()
		_ = a.Close()
	}
	_, agentPort, err := net.SplitHostPort(agent)
	fleettest.Must(t, err)

	dir := t.TempDir()
	r.stats = filepath.Join(dir, "admin.sock")
	r.ports["5433"], r.ports["5434"] = freePort(t), freePort(t)
	replace := map[string]string{
		"/run/haproxy/admin.sock": r.stats, "port 8080": "port " + web.URL[strings.LastIndex(web.URL, ":")+1:], "agent-port 8081": "agent-port " + agentPort,
		":5433": fmt.Sprintf(":%d", r.ports["5433"]), ":5434": fmt.Sprintf(":%d", r.ports["5434"]),
	}
	for i, name := range []string{"primary", "r1", "r2", "r3"} {
		replace[fmt.Sprintf(":550%d", i)] = fmt.Sprintf(":%d", fleettest.Node(r.pg, name).Port)
	}
	text, err := os.ReadFile(example)
	fleettest.Must(t, err)
	config := string(text) + alone
	for from, to := range replace {
		if !strings.Contains(string(text), from) {
			t.Fatalf("%s has no %q, which this test replaces", example, from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	path := filepath.Join(dir, "haproxy.cfg")
	fleettest.Must(t, os.WriteFile(path, []byte(config), 0o600))
	runHAProxy(t, path)
	fleettest.Eventually(t, "HAProxy has all replicas up", func() bool {
		up := 0
		for _, s := range r.servers("replicas") {
			if s.up {
				up++
			}
		}
		return up == 3
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fleettest.Must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func runHAProxy(t *testing.T, config string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	for _, other := range []string{"/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
		if _, statErr := os.Stat(other); err != nil && statErr == nil {
			program, err = other, nil
		}
	}
	if err != nil {
		t.Fatal("this test needs HAProxy, which is not on PATH nor in /usr/sbin: tools/install.sh haproxy installs it")
	}
	var said bytes.Buffer
	c := exec.Command(program, "-db", "-f", config) //nolint:gosec // as configured above
	c.Stdout, c.Stderr = &said, &said
	fleettest.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("HAProxy said:\n%s", &said)
		}
	})
}

// A serverState is what HAProxy has of a server.
type serverState struct {
	up     bool
	weight int
}

// servers asks HAProxy's stats socket.
func (r *rig) servers(backend string) map[string]serverState {
	conn, err := net.Dial("unix", r.stats)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(fleettest.Patience))
	_, _ = io.WriteString(conn, "show servers state "+backend+"\n")
	all, lines := map[string]serverState{}, bufio.NewScanner(conn)
	for lines.Scan() {
		f := strings.Fields(lines.Text()) // be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight …
		if len(f) > 8 && f[1] == backend {
			weight, _ := strconv.Atoi(f[7])
			all[f[3]] = serverState{up: f[5] == "2", weight: weight}
		}
	}
	return all
}

// through is a connection string by way of one of the example's ports.
func (r *rig) through(t *testing.T, port string) *pgx.ConnConfig {
	t.Helper()
	c, err := pgx.ParseConfig(fleettest.Node(r.pg, "primary").DSN)
	fleettest.Must(t, err)
	c.Host, c.Port, c.ConnectTimeout = "127.0.0.1", uint16(r.ports[port]), 5*time.Second //nolint:gosec // a port
	return c
}

// readOnce connects through HAProxy, reads the counter and who answers, and hangs up.
func (r *rig) readOnce(ctx context.Context, c *pgx.ConnConfig) {
	x := read{began: r.now()}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err == nil {
		n := int64(0)
		err = conn.QueryRow(ctx, "SELECT n, inet_server_port() FROM lab_counter", pgx.QueryExecModeSimpleProtocol).Scan(&n, &x.port)
		x.age = r.acks.Age(n, x.began)
		_ = conn.Close(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	x.err = err
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.reads = append(r.mu.reads, x)
}

// load writes the counter, reads it, and has pgbench do so, until the context ends; wait returns pgbench's transactions.
func (r *rig) load(ctx context.Context, t *testing.T) (wait func() (transactions int)) {
	t.Helper()
	c, bench := r.through(t, "5433"), r.bench(t)
	var all sync.WaitGroup
	total := 0
	all.Go(func() { r.write(ctx, t) })
	for range 2 {
		all.Go(func() {
			every(ctx, 10*time.Millisecond, func() { r.readOnce(ctx, c) })
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			total += bench(ctx)
		}
	})
	return func() int {
		all.Wait()
		return total
	}
}

func every(ctx context.Context, d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// write commits the counter through HAProxy's port for writes.
func (r *rig) write(ctx context.Context, t *testing.T) {
	t.Helper()
	conn, err := pgx.ConnectConfig(ctx, r.through(t, "5434"))
	if err != nil {
		t.Errorf("the writer: %v", err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	n := int64(1)
	every(ctx, 20*time.Millisecond, func() {
		if _, err := conn.Exec(ctx, truth.WriteSQL, n, "on"); err == nil {
			r.acks.Add(n, r.now())
			n++
		} else if ctx.Err() == nil {
			t.Errorf("the writer: %v", err)
		}
	})
}

// bench returns a run of pgbench -C: a connection for each transaction, which reads the counter. pgbench ends at the first connection that fails, so runs are short.
func (r *rig) bench(t *testing.T) func(context.Context) (transactions int) {
	t.Helper()
	program := filepath.Join(r.bin, "pgbench")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("this test needs pgbench beside the server's programs: %v; Debian and the RPMs have it in postgresql or postgresql-contrib", err)
	}
	script := filepath.Join(t.TempDir(), "read.sql")
	fleettest.Must(t, os.WriteFile(script, []byte(truth.ReadSQL+";\n"), 0o600))
	c := r.through(t, "5433")
	done := regexp.MustCompile(`actually processed: (\d+)`)
	return func(ctx context.Context) int {
		cmd := exec.CommandContext(ctx, program, "-C", "-n", "-c", "2", "-R", "60", "-T", "1", "-f", script, //nolint:gosec // as found above
			"-h", c.Host, "-p", strconv.Itoa(int(c.Port)), "-U", c.User, c.Database)
		cmd.Env = append(os.Environ(), "PGPASSWORD="+c.Password)
		out, _ := cmd.CombinedOutput() // it fails where a connection did
		n := 0
		if m := done.FindSubmatch(out); m != nil {
			n, _ = strconv.Atoi(string(m[1]))
		}
		return n
	}
}
