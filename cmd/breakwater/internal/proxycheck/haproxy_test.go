package proxycheck

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/internal/fleettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interval is that of the example's checks; grace is what reading HAProxy's state and a busy machine add to what is seen of it.
const (
	interval = 500 * time.Millisecond
	grace    = 250 * time.Millisecond
)

// HAProxy with the example's settings ejects by our breaker and takes a replica back with its slow start (REQ-R4, REQ-R5, REQ-R9): after it has ejected one no read
// through it is late, and the sessions to that one are shut down.
func TestHAProxyEjectsByOurBreaker(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithCancel(t.Context())
	wait := r.load(ctx, t)
	defer wait()
	defer stop()
	held := r.hold(t)
	fleettest.Eventually(t, "every replica has answered", func() bool { return len(r.answered(0, r.now())) == 3 })

	fleettest.Must(t, r.pg.Pause(t.Context(), "r1"))
	paused := r.now()
	down := r.when(t, map[string]bool{"replicas": false, "by-http": false, "by-agent": false})
	r.shutDown(t, held)
	fleettest.Eventually(t, "reads were made while r1 was out", func() bool { return r.reads(down["replicas"], r.now()) > 100 })
	fleettest.Eventually(t, "our breaker has opened", func() bool { return r.opened() > 0 })
	opened := r.opened()
	fleettest.Must(t, r.pg.Resume(t.Context(), "r1"))
	resumed := r.now()
	up := r.when(t, map[string]bool{"replicas": true})["replicas"]
	weights := r.weights(t)
	fleettest.Eventually(t, "r1 has answered again", func() bool { return r.answered(up, r.now())[r.port("r1")] > 0 })
	stop()
	transactions := wait()
	r.end()
	fleettest.Eventually(t, "nothing is up where our checks do not answer", func() bool {
		all := r.servers("replicas")
		return len(all) == 3 && !all["r1"].up && !all["r2"].up && !all["r3"].up
	})
	if !r.servers("by-agent")["r1"].up {
		t.Error("an agent that is gone takes its server down: then docs/proxies.md may say so")
	}

	for backend, at := range down {
		if at > opened+interval+grace {
			t.Errorf("%s ejected r1 %v after our breaker had opened, want at most %v", backend, at-opened, interval)
		}
		t.Logf("%s ejected r1 %v after the pause, %v after our breaker opened", backend, at-paused, at-opened)
	}
	if n := r.answered(down["replicas"], up-interval)[r.port("r1")]; n > 0 {
		t.Errorf("r1 answered %d reads that began after it was ejected", n)
	}
	before, after := r.late(paused, down["replicas"]), r.late(down["replicas"], r.now())
	if after.over > 0 {
		t.Errorf("%d late answers after the ejection, the worst %v old, want none", after.over, after.worst)
	}
	if !slices.IsSorted(weights) || weights[0] > 50 || weights[len(weights)-1] != 100 {
		t.Errorf("weights of r1 after its return: got %v, want a ramp to 100", weights)
	}
	t.Logf("between pause and ejection: %d reads, the worst %v old; after it: %d reads, %d failed, %d late (over 500ms), the worst %v old",
		before.reads, before.worst, after.reads, after.failed, after.over, after.worst)
	t.Logf("r1 came back %v after replay went on, with the weights %v; pgbench -C: %d transactions", up-resumed, weights, transactions)
}

// hold opens sessions through HAProxy until each replica has two, and returns them by the port of who has them.
func (r *rig) hold(t *testing.T) map[int][]*pgx.Conn {
	t.Helper()
	held := map[int][]*pgx.Conn{}
	enough := func() bool {
		full := 0
		for _, conns := range held {
			if len(conns) >= 2 {
				full++
			}
		}
		return full == 3
	}
	for range 100 {
		if enough() {
			return held
		}
		conn, err := pgx.ConnectConfig(t.Context(), r.through(t, "5433"))
		fleettest.Must(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		port := 0
		fleettest.Must(t, conn.QueryRow(t.Context(), "SELECT inet_server_port()").Scan(&port))
		held[port] = append(held[port], conn)
	}
	t.Fatalf("100 sessions did not reach each replica twice: %v", len(held))
	return nil
}

// shutDown wants the sessions to r1 ended, and no others.
func (r *rig) shutDown(t *testing.T, held map[int][]*pgx.Conn) {
	t.Helper()
	for port, conns := range held {
		for _, conn := range conns {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := conn.Exec(ctx, "SELECT 1", pgx.QueryExecModeSimpleProtocol)
			hung := ctx.Err() != nil
			cancel()
			if ended := err != nil && !hung; ended != (port == r.port("r1")) {
				t.Errorf("a session to port %d (r1: %v): ended %v, %v", port, port == r.port("r1"), ended, err)
			}
		}
	}
}

func (r *rig) port(name string) int { return fleettest.Node(r.pg, name).Port }

// when waits until HAProxy has r1 up or down in each backend, and returns when it was seen.
func (r *rig) when(t *testing.T, want map[string]bool) map[string]time.Duration {
	t.Helper()
	seen := map[string]time.Duration{}
	fleettest.Eventually(t, "HAProxy has seen it", func() bool {
		for backend, up := range want {
			if s, ok := r.servers(backend)["r1"]; ok && s.up == up && seen[backend] == 0 {
				seen[backend] = r.now()
			}
		}
		return len(seen) == len(want)
	})
	return seen
}

// weights are those that HAProxy gives r1 until it has its full one, each once.
func (r *rig) weights(t *testing.T) (all []int) {
	t.Helper()
	fleettest.Eventually(t, "r1 has its full weight", func() bool {
		w := r.servers("replicas")["r1"].weight
		if len(all) == 0 || all[len(all)-1] != w {
			all = append(all, w)
		}
		return w == 100
	})
	return all
}

func (r *rig) opened() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.opened
}

// lateness is what became of reads.
type lateness struct {
	reads, failed, over int
	worst               time.Duration
}

// limit is our default trip threshold: an answer older than that is late.
const limit = 500 * time.Millisecond

// late looks at the reads that began in [from, to).
func (r *rig) late(from, to time.Duration) (l lateness) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.mu.reads {
		if x.began < from || x.began >= to {
			continue
		}
		l.reads++
		if x.err != nil {
			l.failed++
			continue
		}
		if x.age > limit {
			l.over++
		}
		l.worst = max(l.worst, x.age)
	}
	return l
}

func (r *rig) reads(from, to time.Duration) int { return r.late(from, to).reads }

// answered counts the reads that began in [from, to), by the port of who answered.
func (r *rig) answered(from, to time.Duration) map[int]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	by := map[int]int{}
	for _, x := range r.mu.reads {
		if x.began >= from && x.began < to && x.err == nil {
			by[x.port]++
		}
	}
	return by
}
