package replica_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

// server is a scripted node: tests set what a look at it says.
type server struct {
	name string
	mu   struct {
		sync.Mutex
		look     replica.Look
		err      error
		delay    time.Duration
		hang     chan struct{} // not nil: looks ignore their context until it is closed
		panics   int           // looks left to panic
		looks    int
		connects int
		probes   int
		fences   int
		flushes  int
		flush    func(l *replica.Look) error     // nil: all is flushed at once
		probe    func() (breaker.Outcome, error) // nil: a Success
	}
}

func (s *server) set(change func(l *replica.Look)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.mu.look)
}

func (s *server) moveTo(position uint64) { s.set(func(l *replica.Look) { l.Position = position }) }

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.err = err
}

func (s *server) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.delay = d
}

func (s *server) counts() (looks, probes, fences int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.looks, s.mu.probes, s.mu.fences
}

func (s *server) connect(context.Context) (replica.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.connects++
	return s, s.mu.err
}

func (s *server) begin() (delay time.Duration, hang chan struct{}, panics bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.looks++
	panics = s.mu.panics > 0
	s.mu.panics--
	return s.mu.delay, s.mu.hang, panics
}

// Look answers after the delay with what the script says then.
func (s *server) Look(ctx context.Context) (replica.Look, error) {
	delay, hang, panics := s.begin()
	if panics {
		panic("scripted panic")
	}
	if hang != nil {
		<-hang
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return replica.Look{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.look, s.mu.err
}

func (s *server) Close() {}

// Flush flushes as the script says.
func (s *server) Flush(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.flushes++
	if s.mu.flush == nil {
		s.mu.look.Flushed = s.mu.look.Position
		return nil
	}
	return s.mu.flush(&s.mu.look)
}

// flushBy scripts what a Flush does.
func (s *server) flushBy(flush func(l *replica.Look) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.flush = flush
}

func (s *server) flushed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.flushes
}

// hold has the server write that many bytes and flush none of them.
func (s *server) hold(bytes uint64) {
	s.set(func(l *replica.Look) {
		l.Flushed = max(l.Flushed, l.Position)
		l.Position += bytes
	})
}

func (s *server) probe(context.Context) (breaker.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.probes++
	if s.mu.probe == nil {
		return breaker.Success, nil
	}
	return s.mu.probe()
}

func (s *server) fence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.fences++
}

func (s *server) node() replica.Node {
	return replica.Node{Name: s.name, Target: s, Connect: s.connect, Probe: s.probe, Fence: s.fence}
}

// cluster is a scripted primary with its replicas, and what the Set told about them.
type cluster struct {
	*replica.Set
	t       testing.TB
	primary *server
	r       []*server
	told    struct {
		sync.Mutex
		transitions []breaker.Transition
		conditions  []replica.ConditionChange
		samples     []replica.Sample
		faults      []breaker.Fault
	}
}

func newServer(name string, recovery bool) *server {
	s := &server{name: name}
	s.mu.look = replica.Look{SystemID: "7", Instance: name, InRecovery: recovery, Timeline: 1, Position: 1000}
	return s
}

func (c *cluster) config(replicas int) replica.Config {
	c.primary = newServer("primary", false)
	cfg := replica.Config{Primary: c.primary.node(), Observer: c.observer()}
	cfg.Open.Jitter = -1
	for i := range replicas {
		s := newServer(fmt.Sprintf("r%d", i+1), true)
		c.r = append(c.r, s)
		cfg.Replicas = append(cfg.Replicas, s.node())
	}
	return cfg
}

func (c *cluster) observer() replica.Observer {
	return replica.Observer{
		OnTransition: func(t breaker.Transition) { note(c, &c.told.transitions, t) },
		OnCondition:  func(e replica.ConditionChange) { note(c, &c.told.conditions, e) },
		OnSample:     func(e replica.Sample) { note(c, &c.told.samples, e) },
		OnFault:      func(f breaker.Fault) { note(c, &c.told.faults, f) },
	}
}

func note[E any](c *cluster, list *[]E, e E) {
	c.told.Lock()
	defer c.told.Unlock()
	*list = append(*list, e)
}

// inBubble runs a test against a ready Set in a synctest bubble.
func inBubble(t *testing.T, replicas int, adjust func(*replica.Config), body func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		cfg := c.config(replicas)
		if adjust != nil {
			adjust(&cfg)
		}
		set, err := replica.NewSet(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.Set = set
		defer set.Close()
		if err := set.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		body(c)
	})
}

// write moves the primary on, and with it the replicas named.
func (c *cluster) write(position uint64, replicas ...*server) {
	c.primary.moveTo(position)
	for _, r := range replicas {
		r.moveTo(position)
	}
}

// writing moves the primary on every 20 ms for d, with it the replicas named.
func (c *cluster) writing(d time.Duration, replicas ...*server) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c.write(c.position(c.primary)+100, replicas...)
	}
}

func (c *cluster) position(s *server) (p uint64) {
	s.set(func(l *replica.Look) { p = l.Position })
	return p
}

func (c *cluster) stats(i int) replica.NodeStats { return c.Stats().Replicas[i] }

func (c *cluster) state(i int) breaker.State { return c.stats(i).Breaker.State }

func (c *cluster) wantState(i int, want breaker.State) {
	c.t.Helper()
	if got := c.stats(i); got.Breaker.State != want {
		c.t.Fatalf("state of %s = %v, want %v (%v: %s; reason %v)", got.Name, got.Breaker.State, want, got.Condition, got.Detail, got.Breaker.Reason)
	}
}

// picks counts where n reads of one kind go, by node name, "" for refused ones.
func (c *cluster) picks(n int, r replica.Requirement) map[string]int {
	got := map[string]int{}
	for range n {
		choice, err := c.Pick(r)
		if err != nil {
			got[""]++
			continue
		}
		got[choice.Name()]++
		choice.Done(nil)
	}
	return got
}

// waitFor lets time pass in small steps until the condition holds, for at most d.
func (c *cluster) waitFor(d time.Duration, what string, holds func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > d {
			c.t.Fatalf("%s: not within %v", what, d)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}
