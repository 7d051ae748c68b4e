package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/internal/fleet"
)

const (
	blockFile  = "internal/config/testdata/requirements.yaml"
	faultyFile = "internal/config/testdata/faults/ten-mistakes.yaml"
)

func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "breakwater.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The exit status is 0, 1 or 2; what is fine stands on standard output, faults on standard error,
// one a line.
func TestCheck(t *testing.T) {
	t.Setenv("BREAKWATER_TEST_R1", "host=r1")
	t.Setenv("BREAKWATER_TEST_R2", "host=r2")
	whole := configFile(t, "primary: {dsn: host=h password=hunter2}\nreplicas:\n- {name: a, dsn_env: BREAKWATER_TEST_R1}\n- {name: b, dsn_env: BREAKWATER_TEST_R2}\n"+
		"endpoints: {x: critical, y: sheddable, z: sheddable}\n")
	settings := configFile(t, "settings: {trip: 1s}\n")
	dir := t.TempDir()
	for _, tt := range []struct {
		name     string
		args     []string
		status   int
		out, err string
		lines    int // on standard error
	}{
		{"the block", []string{blockFile}, exitHeld, blockFile + ": fine: degraded mode for 0 endpoints; not for serve, which wants nodes or consumers\n", "", 0},
		{"nodes", []string{whole}, exitHeld, whole + ": fine: a primary and 2 replicas (a, b); degraded mode for 3 endpoints (1 critical, 2 sheddable); serves on 127.0.0.1:8080 (no credential)\n", "", 0},
		{"settings", []string{settings}, exitHeld, settings + ": fine: settings only; not for serve, which wants nodes or consumers\n", "", 0},
		{"faults", []string{faultyFile}, exitFailed, "", faultyFile + ":3:8: primary.dsn does not parse: ", 10},
		{"nothing to connect to", []string{"--connect", settings}, exitFailed, "", settings + ":1:1: primary is missing: ", 1},
		{"no such file", []string{dir + "/none.yaml"}, exitFailed, "", dir + "/none.yaml:1:1: the file cannot be read, ", 1},
		{"a directory", []string{dir}, exitFailed, "", dir + ":1:1: the file is a directory", 1},
		{"no file", nil, exitUsage, "", "breakwater: no file: name ", 1},
		{"two files", []string{blockFile, faultyFile}, exitUsage, "", `breakwater: unexpected argument "` + faultyFile, 1},
		{"an unknown flag", []string{"--frobnicate", blockFile}, exitUsage, "", "breakwater: unknown flag: --frobnicate; see breakwater check --help", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := runBinary(t, append([]string{"check"}, tt.args...)...)
			if got.status != tt.status || got.out != tt.out {
				t.Errorf("got status %d, standard output %q, want %d, %q", got.status, got.out, tt.status, tt.out)
			}
			if !strings.HasPrefix(got.err, tt.err) || strings.Count(got.err, "\n") != tt.lines {
				t.Errorf("got standard error\n%swant %d lines that begin with\n%s", got.err, tt.lines, tt.err)
			}
			if strings.Contains(got.out+got.err, "hunter2") {
				t.Errorf("the password is shown:\n%s%s", got.out, got.err)
			}
		})
	}
}

// --connect on a real primary with a replica: fails, and says what to install, where there is no
// PostgreSQL.
func TestCheckConnect(t *testing.T) {
	pg, err := fleet.Start(t.Context(), fleet.Config{Replicas: 1, SQL: execute, Dir: enterable(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	primary, replica := pg.Nodes()[0], pg.Nodes()[1]
	if err := execute(t.Context(), primary.AdminDSN, "CREATE ROLE plain LOGIN PASSWORD 'hunter2'"); err != nil {
		t.Fatal(err)
	}
	if err := pg.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	plainAt := func(n fleet.Node, password string) string {
		c, err := pgx.ParseConfig(n.DSN)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("host=%s port=%d dbname=%s user=plain password=%s pool_max_conns=3", c.Host, c.Port, c.Database, password)
	}
	t.Setenv("PRIMARY_DSN", primary.DSN)
	t.Setenv("REPLICA_DSN", replica.DSN)
	t.Setenv("PLAIN_PRIMARY_DSN", plainAt(primary, "hunter2"))
	t.Setenv("PLAIN_REPLICA_DSN", plainAt(replica, "hunter2"))
	t.Setenv("REFUSED_DSN", plainAt(primary, "hunter3"))
	version := "PostgreSQL " + strings.TrimPrefix(pg.Version(), "postgres ")

	good := configFile(t, "primary: {dsn_env: PRIMARY_DSN, reads_dsn_env: PLAIN_PRIMARY_DSN}\n"+
		"replicas:\n- {name: r1, dsn_env: PLAIN_REPLICA_DSN, sample_dsn_env: REPLICA_DSN}\n")
	got := runBinary(t, "check", "--connect", good)
	want := good + ": fine: a primary and 1 replica (r1); serves on 127.0.0.1:8080 (no credential)\n" +
		"primary: " + version + `, not in recovery, role "breakwater" with the rights of pg_monitor` + "\n" +
		"primary for reads: " + version + `, not in recovery, role "plain" without the rights of pg_monitor` + "\n" +
		"r1: " + version + `, in recovery, role "plain" without the rights of pg_monitor` + "\n" +
		"r1 for samples: " + version + `, in recovery, role "breakwater" with the rights of pg_monitor` + "\n"
	if got.status != exitHeld || got.out != want || got.err != "" {
		t.Errorf("got status %d\n%s%swant 0\n%s", got.status, got.out, got.err, want)
	}

	bad := configFile(t, "primary: {dsn_env: REPLICA_DSN, reads_dsn_env: REFUSED_DSN}\n"+
		"replicas:\n- {name: r1, dsn_env: PRIMARY_DSN}\n- {name: r2, dsn_env: PLAIN_REPLICA_DSN}\n- {name: r3, dsn: host=127.0.0.1 port=1 password=hunter2}\n")
	got = runBinary(t, "check", "--connect", bad)
	lines := strings.Split(strings.TrimSpace(got.err), "\n")
	if got.status != exitFailed || len(lines) != 5 || !strings.HasPrefix(got.out, bad+": fine: ") {
		t.Fatalf("got status %d\n%s%s", got.status, got.out, got.err)
	}
	for i, want := range []string{
		":1:20: primary.dsn_env leads to a server that is in recovery: name the primary",
		`:1:48: primary.reads_dsn_env leads to no server: it says "password authentication failed for user \"plain\"" (SQLSTATE 28P01); mend`,
		":3:23: replicas[0].dsn_env leads to a server that is not in recovery: name a replica",
		`:4:23: replicas[1].dsn_env has a role that may not see how a replica receives: on the primary, GRANT pg_monitor TO "plain"`,
		":5:19: replicas[2].dsn leads to no server: connection refused; see",
	} {
		if !strings.HasPrefix(lines[i], bad+want) {
			t.Errorf("got  %s\nwant %s%s", lines[i], bad, want)
		}
	}
	for _, secret := range []string{"hunter", primary.DSN, replica.DSN} {
		if strings.Contains(got.out+got.err, secret) {
			t.Errorf("%q is shown:\n%s%s", secret, got.out, got.err)
		}
	}
}

// A server that takes the connection and says nothing costs the time limit, once for all of them.
func TestCheckConnectIsBounded(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	_, port, _ := net.SplitHostPort(mute.Addr().String())
	dsn := "host=127.0.0.1 password=hunter2 sslmode=disable port=" + port
	c, err := config.Parse("f", []byte("primary: {dsn: "+dsn+"}\nreplicas: [{name: a, dsn: "+dsn+", sample_dsn: "+dsn+"}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	begin := time.Now()
	err = checkNodes(t.Context(), c, 200*time.Millisecond, &out, &errOut)
	if took := time.Since(begin); status(err) != exitFailed || took > connectWithin {
		t.Errorf("got %v after %v, want status 1 after 0.2 s", err, took)
	}
	if n := strings.Count(errOut.String(), "no answer in time"); n != 3 || out.Len() > 0 || strings.Contains(errOut.String(), "hunter2") {
		t.Errorf("got\n%s%swant three without an answer", out.String(), errOut.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkNodes(ctx, c, time.Minute, &out, &errOut); !errors.Is(err, errInterrupted) {
		t.Errorf("ended before: got %v, want errInterrupted", err)
	}
}

// What a connection must be is judged by what was found.
func TestFaultsOfADial(t *testing.T) {
	fine := seen{version: "15.18", number: 150018, inRecovery: true, role: "app", rights: true, system: "7"}
	for want, change := range map[string]func(*dial){
		"":                                     func(*dial) {},
		"leads to PostgreSQL 12.3: use":        func(d *dial) { d.seen.version, d.seen.number = "12.3", 120003 },
		"leads to another cluster":             func(d *dial) { d.seen.system = "8" },
		"leads to a server that is not in rec": func(d *dial) { d.seen.inRecovery = false },
		"leads to a server that is in recover": func(d *dial) { d.replica = false },
		`has a role that may not see`:          func(d *dial) { d.seen.rights = false },
	} {
		d := &dial{replica: true, samples: true, seen: fine}
		change(d)
		got := d.faults("7")
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], want)) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A file that nobody writes, a pipe for one, is waited for until a signal ends the wait.
func TestInterruptWhileReading(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := check(ctx, pipe, false, io.Discard, io.Discard); !errors.Is(err, errInterrupted) {
		t.Errorf("got %v, want errInterrupted", err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets the reader go
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
}

// --connect tries the hosts of consumers, and sends them nothing.
func TestCheckConnectConsumers(t *testing.T) {
	there, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	sent := make(chan int, 1)
	go func() {
		conn, err := there.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		n, _ := conn.Read(make([]byte, 1))
		sent <- n
	}()
	file := configFile(t, "consumers:\n- {name: there, url: \"http://"+there.Addr().String()+"/hunter2\"}\n- {name: gone, url: \"https://127.0.0.1:1/hunter2\"}\n")
	got := runBinary(t, "check", "--connect", file)
	want := file + ": fine: 2 consumers (there, gone), dead letters in memory; serves on 127.0.0.1:8080 (no credential)\n" +
		"there: " + there.Addr().String() + " takes connections\n"
	if got.status != exitFailed || got.out != want || !strings.HasPrefix(got.err, file+":3:21: consumers[1].url leads to no server: connection refused; see") {
		t.Errorf("got status %d\n%s%swant 1\n%s", got.status, got.out, got.err, want)
	}
	if strings.Contains(got.out+got.err, "hunter2") {
		t.Errorf("the path is shown:\n%s%s", got.out, got.err)
	}
	if n := <-sent; n != 0 {
		t.Error("something was sent to the consumer")
	}
}

// schema prints what editors take.
func TestSchema(t *testing.T) {
	got := runBinary(t, "schema")
	if got.status != exitHeld || got.out != config.Schema || got.err != "" {
		t.Errorf("got status %d, %q", got.status, got.err)
	}
}
