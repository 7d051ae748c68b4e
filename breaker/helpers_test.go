package breaker

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errDown    = errors.New("down")
	errNeutral = errors.New("the caller's own fault")
)

// classifyTest knows errNeutral beside the default.
func classifyTest(err error) Outcome {
	if errors.Is(err, errNeutral) {
		return Ignored
	}
	return defaultClassify(err)
}

// behaviourConfig is what the behaviour sequences run on unless they say
// otherwise: window 10 s, at least 5 calls, 50 %, open 1 s, 1 probe, 1 success.
func behaviourConfig() Config {
	return Config{
		Name:     "b",
		Rules:    []Rule{FailureRateByTime{MinCalls: 5}},
		Open:     Backoff{Base: time.Second, Jitter: -1},
		Classify: classifyTest,
	}
}

func mustNew(t *testing.T, c Config) *Breaker {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// start asks for a permit that must be given.
func start(t *testing.T, b *Breaker) *Permit {
	t.Helper()
	p, err := b.Allow()
	if err != nil {
		t.Fatalf("Allow: got %v, want a permit", err)
	}
	return &p
}

// run runs one call that ends with err and reports whether it was admitted.
func run(b *Breaker, err error) bool {
	p, refused := b.Allow()
	if refused != nil {
		return false
	}
	p.Done(err)
	return true
}

func runN(t *testing.T, b *Breaker, n int, err error) {
	t.Helper()
	for i := range n {
		if !run(b, err) {
			t.Fatalf("call %d of %d: refused", i+1, n)
		}
	}
}

func wantState(t *testing.T, b *Breaker, want State) {
	t.Helper()
	if got := b.State(); got != want {
		t.Fatalf("state: got %v, want %v (%v)", got, want, b.Stats().Reason)
	}
}

// trip opens a breaker of behaviourConfig and waits until it is half-open.
func trip(t *testing.T, b *Breaker) {
	t.Helper()
	runN(t, b, 5, errDown)
	wantState(t, b, Open)
	after(2 * time.Second)
	wantState(t, b, HalfOpen)
}

// after lets d pass in a bubble, with the timers that are due then.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A recorder keeps what an Observer is told.
type recorder struct {
	mu          sync.Mutex
	transitions []Transition
	faults      []Fault
}

func (r *recorder) observer() Observer {
	return Observer{
		OnTransition: func(tr Transition) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.transitions = append(r.transitions, tr)
		},
		OnFault: func(f Fault) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.faults = append(r.faults, f)
		},
	}
}

// path is the states that were entered, in words.
func (r *recorder) path() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var words []string
	for i := range r.transitions {
		words = append(words, r.transitions[i].To.String())
	}
	return strings.Join(words, " ")
}

func (r *recorder) periods() (ds []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.transitions {
		if tr := &r.transitions[i]; tr.To == Open {
			ds = append(ds, tr.OpenPeriod)
		}
	}
	return ds
}

// fakeClock is moved by hand; timers fire inside advance, on its goroutine.
type fakeClock struct {
	now    time.Duration
	timers []*fakeTimer
}

type fakeTimer struct {
	at time.Duration
	f  func()
}

func (c *fakeClock) since() time.Duration { return c.now }
func (c *fakeClock) wall() time.Time      { return time.Unix(1_000_000, 0).Add(c.now) }

func (c *fakeClock) after(d time.Duration, f func()) (stop func() bool) {
	ft := &fakeTimer{at: c.now + d, f: f}
	c.timers = append(c.timers, ft)
	return func() bool { stopped := ft.f != nil; ft.f = nil; return stopped }
}

func (c *fakeClock) advance(d time.Duration) {
	c.now += d
	due := c.timers
	c.timers = nil
	for _, ft := range due {
		switch {
		case ft.f == nil:
		case ft.at <= c.now:
			ft.f()
		default:
			c.timers = append(c.timers, ft)
		}
	}
}
