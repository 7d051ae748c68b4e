//go:build unix

package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/fleet"
	"github.com/breakwater-go/breakwater/internal/relay"
)

func TestReady(t *testing.T) {
	r := theRig(t)
	if !strings.HasPrefix(r.Version(), "postgres ") {
		t.Errorf("version: got %q, want postgres and a number", r.Version())
	}
	for name, n := range r.nodes {
		got := r.query(t, name, "SELECT current_user, rolsuper, pg_has_role(current_user, 'pg_monitor', 'member'), pg_is_in_recovery(), "+
			"current_setting('fsync'), current_setting('max_connections') FROM pg_roles WHERE rolname = current_user")
		want := fmt.Sprintf("breakwater|f|t|%s|on|100", map[bool]string{true: "f", false: "t"}[name == "primary"])
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if _, err := os.Stat(n.Log); err != nil {
			t.Error(err)
		}
	}
	got := r.query(t, "primary", "SELECT string_agg(application_name, ' ' ORDER BY application_name) FROM pg_stat_replication")
	if want := "r1 r2"; got != want {
		t.Errorf("replicas of the primary: got %q, want %q", got, want)
	}
}

// PostgreSQL refuses root: as root the servers are user postgres's.
func TestServersAreNotRoots(t *testing.T) {
	r := theRig(t)
	pids, err := r.Servers()
	must(t, err)
	if len(pids) < 4 {
		t.Fatalf("got %d server processes, want at least one a node", len(pids))
	}
	for _, pid := range pids {
		info, err := os.Stat("/proc/" + strconv.Itoa(pid))
		if errors.Is(err, os.ErrNotExist) {
			continue // a backend that ended, or a system without /proc
		}
		must(t, err)
		uid := info.Sys().(*syscall.Stat_t).Uid
		if uid == 0 || (os.Geteuid() != 0 && int(uid) != os.Geteuid()) {
			t.Errorf("process %d runs as user %d", pid, uid)
		}
	}
}

func TestWrongPasswordIsRefused(t *testing.T) {
	r := theRig(t)
	for _, dsn := range []string{r.nodes["r1"].DSN, r.nodes["r1"].AdminDSN} {
		u, err := url.Parse(dsn)
		must(t, err)
		u.User = url.UserPassword(u.User.Username(), "wrong")
		if err := r.sql.run(t.Context(), u.String(), "SELECT 1"); err == nil || !strings.Contains(err.Error(), "password") {
			t.Errorf("with a wrong password: got %v, want a refusal", err)
		}
	}
}

// Replay stands still while the replica goes on receiving.
func TestPauseAndResume(t *testing.T) {
	r := theRig(t)
	r.wantCaughtUp(t)
	must(t, r.Pause(t.Context(), "r2"))
	r.write(t)
	lsn := r.query(t, "primary", "SELECT pg_current_wal_lsn()")
	r.await(t, "r2", fmt.Sprintf("SELECT pg_last_wal_receive_lsn() >= '%s' AND pg_last_wal_replay_lsn() < '%[1]s'", lsn))
	r.wantRows(t, "r2", r.rows-1)
	must(t, r.CatchUp(t.Context(), "r1", "r3"))
	must(t, r.Resume(t.Context(), "r2"))
	r.wantCaughtUp(t)
}

func TestApplyDelay(t *testing.T) {
	r := theRig(t)
	must(t, r.SetApplyDelay(t.Context(), "r2", time.Hour))
	r.write(t)
	lsn := r.query(t, "primary", "SELECT pg_current_wal_lsn()")
	r.await(t, "r2", fmt.Sprintf("SELECT pg_last_wal_receive_lsn() >= '%s'", lsn))
	r.wantRows(t, "r2", r.rows-1)
	must(t, r.SetApplyDelay(t.Context(), "r2", 0))
	r.wantCaughtUp(t)
}

func TestLinkCutByRefusing(t *testing.T)   { testCut(t, theRig(t), relay.Refuse) }
func TestLinkCutBySwallowing(t *testing.T) { testCut(t, theRig(t), relay.Blackhole) }

// A replica that is cut off answers, and says that it has replayed all that it
// has received (behaviours-routing 2): it looks fresh, and is not.
func testCut(t *testing.T, r *rig, mode relay.Mode) {
	t.Helper()
	r.wantCaughtUp(t)
	before, err := r.LinkAccepts("r2")
	must(t, err)
	must(t, r.CutLink("r2", mode))
	r.write(t)
	must(t, r.CatchUp(t.Context(), "r1", "r3"))
	r.wantRows(t, "r2", r.rows-1)
	r.await(t, "r2", "SELECT pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()")
	must(t, r.HealLink("r2"))
	r.wantCaughtUp(t)
	if after, err := r.LinkAccepts("r2"); err != nil || after <= before {
		t.Errorf("connections over the link: got %d, %v, want more than %d", after, err, before)
	}
}

func TestSlowLink(t *testing.T) {
	r := theRig(t)
	const delay = 100 * time.Millisecond
	must(t, r.SetLinkDelay("r2", delay))
	begin := time.Now()
	r.write(t)
	must(t, r.CatchUp(t.Context(), "r2"))
	if got := time.Since(begin); got < delay {
		t.Errorf("caught up in %v over a link that takes %v", got, delay)
	}
	must(t, r.SetLinkDelay("r2", 0))
	r.wantCaughtUp(t)
}

// r3 has what r1 has: its own link is whole, and yet it is cut off.
func TestCascade(t *testing.T) {
	r := theRig(t)
	if got := r.query(t, "r1", "SELECT string_agg(application_name, ' ') FROM pg_stat_replication"); got != "r3" {
		t.Fatalf("replicas of r1: got %q, want r3", got)
	}
	must(t, r.CutLink("r1", relay.Blackhole))
	r.write(t)
	must(t, r.CatchUp(t.Context(), "r2"))
	r.wantRows(t, "r1", r.rows-1)
	r.wantRows(t, "r3", r.rows-1)
	must(t, r.HealLink("r1"))
	r.wantCaughtUp(t)
}

func TestFreezeAndThaw(t *testing.T) {
	r := theRig(t)
	must(t, r.Freeze("r2"))
	must(t, r.Freeze("r2"))
	_, states, err := r.Tree("r2")
	must(t, err)
	if strings.Trim(states, "TZ") != "" || strings.Count(states, "T") < 3 { // Z: a session that was just ending
		t.Errorf("states of r2's processes: got %q, want only T (stopped) and Z (ended)", states)
	}
	wantMute(t, r.nodes["r2"])
	r.write(t)
	must(t, r.CatchUp(t.Context(), "r1", "r3"))
	must(t, r.Thaw("r2"))
	must(t, r.Thaw("r2"))
	r.wantCaughtUp(t)
}

// wantMute connects, which the kernel accepts for a frozen server, says what
// every server answers at once, and hears nothing.
func wantMute(t *testing.T, n fleet.Node) {
	t.Helper()
	c, err := net.DialTimeout("tcp", net.JoinHostPort(n.Host, strconv.Itoa(n.Port)), patience)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(200*time.Millisecond)))
	sslRequest := []byte{0, 0, 0, 8, 4, 210, 22, 47}
	_, err = c.Write(sslRequest)
	must(t, err)
	if got, err := io.ReadAll(io.LimitReader(c, 1)); len(got) > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frozen server answered %q, %v", got, err)
	}
}

func wantRefused(t *testing.T, n fleet.Node) {
	t.Helper()
	c, err := net.DialTimeout("tcp", net.JoinHostPort(n.Host, strconv.Itoa(n.Port)), patience)
	if err == nil {
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%s: connect: got %v, want refused", n.Name, err)
	}
}

func TestKillAndRestartReplica(t *testing.T) { testKill(t, theRig(t), "r2") }
func TestKillAndRestartPrimary(t *testing.T) { testKill(t, theRig(t), "primary") }

// Nothing committed is lost, and no process of the dead server is left.
func testKill(t *testing.T, r *rig, name string) {
	t.Helper()
	r.write(t)
	pids, _, err := r.Tree(name)
	must(t, err)
	must(t, r.Kill(name))
	must(t, r.Kill(name))
	for _, pid := range pids {
		if s := fleet.StateOf(pid); s != 0 && s != 'Z' {
			t.Errorf("%s: process %d is in state %c after Kill", name, pid, s)
		}
	}
	wantRefused(t, r.nodes[name])
	must(t, r.Restart(t.Context(), name))
	r.write(t)
	r.wantCaughtUp(t)
}

func TestStopAndRestart(t *testing.T) {
	r := theRig(t)
	must(t, r.Stop(t.Context(), "r2"))
	must(t, r.Stop(t.Context(), "r2"))
	wantRefused(t, r.nodes["r2"])
	r.write(t)
	must(t, r.Restart(t.Context(), "r2"))
	r.wantCaughtUp(t)
}

func TestRestartOfARunningServer(t *testing.T) {
	r := theRig(t)
	before := r.query(t, "r2", "SELECT pg_postmaster_start_time()")
	must(t, r.Restart(t.Context(), "r2"))
	if after := r.query(t, "r2", "SELECT pg_postmaster_start_time()"); after == before {
		t.Error("the server is the one from before")
	}
	r.wantCaughtUp(t)
}

// A port that someone else holds for a while delays a restart, no more.
func TestRestartOnATakenPort(t *testing.T) {
	r := theRig(t)
	must(t, r.Stop(t.Context(), "r2"))
	squatter, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.nodes["r2"].Port)))
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- r.Restart(t.Context(), "r2") }()
	r.logs.await(t, "trying again")
	must(t, squatter.Close())
	must(t, <-done)
	r.wantCaughtUp(t)
}

func TestSwitchSegment(t *testing.T) {
	r := theRig(t)
	segment := func() string { return r.query(t, "primary", "SELECT pg_walfile_name(pg_current_wal_insert_lsn())") }
	seen := map[string]bool{segment(): true}
	for range 2 {
		must(t, r.SwitchSegment(t.Context()))
		r.write(t)
		seen[segment()] = true
	}
	if got, want := len(seen), 3; got != want {
		t.Errorf("segments: got %d, want %d: %v", got, want, seen)
	}
	r.wantCaughtUp(t)
}

func TestWrongUse(t *testing.T) {
	r := theRig(t)
	must(t, r.Freeze("r2"))
	must(t, r.Kill("r3"))
	for _, c := range []struct {
		err  error
		want string
	}{
		{r.Pause(t.Context(), "r9"), "name one of primary, r1, r2, r3"},
		{r.CatchUp(t.Context(), "r9"), "name one of primary, r1, r2, r3"},
		{r.CutLink("r9", relay.Refuse), "name one of primary, r1, r2, r3"},
		{r.Pause(t.Context(), "primary"), "name one of r1, r2, r3"},
		{r.CutLink("primary", relay.Refuse), "name one of r1, r2, r3"},
		{r.CutLink("r1", relay.Pass), "use Refuse or Blackhole"},
		{r.CutLink("r1", relay.Mode(7)), "use Pass, Refuse or Blackhole"},
		{r.SetLinkDelay("r1", -1), "negative"},
		{r.SetApplyDelay(t.Context(), "r1", -1), "use 0 to"},
		{r.Resume(t.Context(), "r2"), "Thaw it first"},
		{r.Stop(t.Context(), "r2"), "Thaw it first"},
		{r.Promote(t.Context(), "r3"), "Restart it first"},
		{r.Freeze("r3"), "Restart it first"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", c.err, c.want)
		}
	}
	must(t, r.Heal(t.Context()))
	r.wantCaughtUp(t)
}

// The promoted one takes writes of its own, which r3 below it follows; Heal
// makes both of them replicas again.
func TestPromote(t *testing.T) {
	r := theRig(t)
	must(t, r.Pause(t.Context(), "r1"))
	must(t, r.Promote(t.Context(), "r1"))
	r.exec(t, "r1", "INSERT INTO fact VALUES (-1)")
	r.write(t)
	r.wantRows(t, "r1", r.rows)
	must(t, r.Heal(t.Context()))
	for _, name := range []string{"r1", "r3"} {
		if got := r.query(t, name, "SELECT count(*) FROM fact WHERE n = -1"); got != "0" {
			t.Errorf("rows of the promoted server's own on %s after Heal: got %s, want 0", name, got)
		}
	}
	r.wantCaughtUp(t)
}

func TestHealEverythingAtOnce(t *testing.T) {
	r := theRig(t)
	must(t, r.Pause(t.Context(), "r1"))
	must(t, r.SetApplyDelay(t.Context(), "r1", time.Hour))
	must(t, r.CutLink("r1", relay.Blackhole))
	must(t, r.Freeze("r1"))
	must(t, r.SetLinkDelay("r2", time.Second))
	must(t, r.CutLink("r2", relay.Refuse))
	must(t, r.Kill("r2"))
	must(t, r.Promote(t.Context(), "r3"))
	must(t, r.Stop(t.Context(), "r3"))
	must(t, r.Freeze("primary"))
	must(t, r.Kill("primary"))
	must(t, r.Heal(t.Context()))
	r.write(t)
	r.wantCaughtUp(t)
}

// Between the choice of a port and the server's start another process may take
// it; then another port is chosen, and replicas below find it.
func TestFirstStartOnATakenPort(t *testing.T) {
	r := theRig(t)
	must(t, r.Stop(t.Context(), "r1"))
	old := r.nodes["r1"].Port
	squatter, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(old)))
	must(t, err)
	defer squatter.Close()
	must(t, r.StartElsewhere(t.Context(), "r1"))
	r.look()
	if r.nodes["r1"].Port == old {
		t.Fatalf("r1 is still at the taken port %d", old)
	}
	r.write(t)
	r.wantCaughtUp(t)
}
