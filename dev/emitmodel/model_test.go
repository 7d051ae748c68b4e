package emitmodel_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
)

const consumer = "c"

// What the consumer does with a trigger.
const (
	accept = iota
	fail
	reject
	hang
	slow
	sicknesses
)

// A process is one run of the program, until it crashes or ends.
type process struct {
	m      *machine
	router *emit.Router
	dead   bool // it was killed: what it still does has no effect
}

// machine is a run with what it knows of the past.
type machine struct {
	ordered bool
	mixed   bool // ordered now and then: nothing is known of the order
	absent  bool // the consumer is taken out
	disk    *disk
	now     *process
	emits   sync.WaitGroup

	mu       sync.Mutex
	health   int
	n        int
	took     map[string][]int // numbers, by key, in the order in which the consumer took them
	seen     map[int]bool
	safe     map[int]bool // delivered or stored, as their emitters were told
	shed     map[int]bool // told to the emitter
	gone     map[int]bool // emitted while the consumer was out
	unparked map[string]bool
	faults   []string
}

var priorities = []string{"compliance", "normal", "idle-ping"}

func start(rt *rapid.T) *machine {
	m := &machine{
		ordered: rapid.Bool().Draw(rt, "ordered"), mixed: rapid.IntRange(0, 3).Draw(rt, "mixed") == 3, disk: newDisk(), took: map[string][]int{}, seen: map[int]bool{},
		safe: map[int]bool{}, shed: map[int]bool{}, gone: map[int]bool{}, unparked: map[string]bool{},
	}
	m.run(rt)
	return m
}

func (m *machine) fault(format string, args ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, args...))
}

// run starts a process.
func (m *machine) run(rt *rapid.T) {
	p := &process{m: m}
	router, err := emit.New(emit.Config{
		Priorities: priorities, DeadLetters: m.disk.open(),
		Consumers: []emit.Consumer{p.consumer(), other},
		Observer:  emit.Observer{OnShed: p.onShed},
	})
	if err != nil {
		rt.Fatal(err)
	}
	p.router, m.now, m.absent = router, p, false
}

func (p *process) consumer() emit.Consumer {
	return emit.Consumer{Name: consumer, Sink: p, Ordered: p.m.ordered, Bulkhead: 4}
}

// other is there so that the consumer can be taken out; no emit is for it.
var other = emit.Consumer{
	Name: "other", Types: []string{"none"},
	Sink: emit.SinkFunc(func(context.Context, emit.Trigger) error { return errors.New("unexpected") }),
}

// reconfigure changes settings of the consumer, or takes it out, or back in (REQ-B16).
func (m *machine) reconfigure(rt *rapid.T) {
	if m.mixed {
		m.ordered = rapid.Bool().Draw(rt, "ordered")
	}
	c, k := m.now.router.Config(), m.now.consumer()
	k.Timeout = rapid.SampledFrom([]time.Duration{0, 150 * time.Millisecond, time.Second}).Draw(rt, "timeout")
	k.Bulkhead = rapid.IntRange(1, 6).Draw(rt, "bulkhead")
	c.Consumers = []emit.Consumer{k, other}
	if m.absent = rapid.Bool().Draw(rt, "absent"); m.absent {
		c.Consumers = c.Consumers[1:]
	}
	if err := m.now.router.Reconfigure(c); err != nil {
		rt.Fatal(err)
	}
}

// back puts the consumer in again.
func (m *machine) back(rt *rapid.T) {
	c := m.now.router.Config()
	c.Consumers, m.absent = []emit.Consumer{m.now.consumer(), other}, false
	if err := m.now.router.Reconfigure(c); err != nil {
		rt.Fatal(err)
	}
}

func (p *process) onShed(l emit.Letter, why error) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if l.Seq == 0 || p.dead {
		return
	}
	if l.Priority == 0 || !errors.Is(why, emit.ErrFull) {
		p.m.fault("letter %s of priority %d was evicted: %v", l.Trigger.ID, l.Priority, why)
	}
	if !p.m.disk.hasDropped(number(l.Trigger)) {
		p.m.fault("letter %s is told to be evicted, and is not", l.Trigger.ID)
	}
}

func number(t emit.Trigger) int {
	n, _ := strconv.Atoi(t.ID)
	return n
}

// Deliver is the consumer.
func (p *process) Deliver(ctx context.Context, t emit.Trigger) error {
	p.m.mu.Lock()
	health := p.m.health
	p.m.mu.Unlock()
	wait := 3 * time.Millisecond
	switch health {
	case fail:
		return errors.New("500")
	case reject:
		return emit.ErrRejected
	case hang:
		wait = time.Hour
	case slow:
		wait = 120 * time.Millisecond
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.dead {
		return errors.New("killed")
	}
	p.m.take(t)
	return nil
}

// take holds the order of keys: an earlier trigger never comes after a later one, but for one that a person sent back.
func (m *machine) take(t emit.Trigger) {
	n, took := number(t), m.took[t.Key]
	if last := len(took) - 1; m.ordered && !m.mixed && !m.unparked[t.Key] && last >= 0 && took[last] > n {
		m.fault("key %s: %d was taken after %d", t.Key, n, took[last])
	}
	if m.gone[n] {
		m.fault("%d was delivered though the consumer was out", n)
	}
	if m.shed[n] {
		m.fault("%d was delivered after its emitter was told that it is shed", n)
	}
	m.took[t.Key] = append(took, n)
	m.seen[n] = true
}

// emit begins an emit, which may last.
func (m *machine) emit(rt *rapid.T, do func(*emit.Router, context.Context, emit.Trigger) (emit.Receipt, error)) {
	p := m.now
	m.mu.Lock()
	m.n++
	n := m.n
	m.mu.Unlock()
	t := emit.Trigger{
		ID: strconv.Itoa(n), Type: "x", Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"),
		Priority: rapid.SampledFrom(priorities).Draw(rt, "priority"),
	}
	absent := m.absent
	m.emits.Go(func() {
		receipt, err := do(p.router, context.Background(), t)
		if absent {
			m.nobody(n, err)
			return
		}
		got := receipt.Of(consumer)
		m.mu.Lock()
		defer m.mu.Unlock()
		if p.dead {
			return // nobody heard the answer
		}
		switch got.Outcome {
		case emit.Delivered, emit.Stored:
			m.safe[n] = true
		case emit.Shed:
			m.shed[n] = true
		case emit.Refused:
			if t.Priority != priorities[0] {
				m.fault("%d of priority %s was refused: %v", n, t.Priority, err)
			}
		default:
			m.fault("%d: %v", n, got)
		}
		if (err == nil) != m.safe[n] {
			m.fault("%d: %v with error %v", n, got.Outcome, err)
		}
	})
	synctest.Wait() // it has come before the next one
}

// nobody notes an emit while the consumer is out.
func (m *machine) nobody(n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[n] = true
	if !errors.Is(err, emit.ErrNoConsumer) {
		m.fault("%d: %v though the consumer is out", n, err)
	}
}

// end kills the process, or ends it in order, and starts the next.
func (m *machine) end(rt *rapid.T, crash bool) {
	p := m.now
	if crash {
		m.mu.Lock()
		p.dead = true
		m.mu.Unlock()
		m.disk.crash()
	}
	ctx, cancel := context.WithTimeout(context.Background(), rapid.SampledFrom([]time.Duration{0, 20 * time.Millisecond, time.Second}).Draw(rt, "deadline"))
	defer cancel()
	_ = p.router.Drain(ctx)
	m.emits.Wait()
	m.run(rt)
}

func (m *machine) check(rt *rapid.T) {
	all := m.now.router.Stats()
	s := all.Consumers[0]
	if m.absent {
		s.Depth = all.Absent[consumer]
	}
	if s.Emitted != s.Delivered+s.Stored+s.Shed+s.Refused {
		rt.Fatalf("emitted %d, delivered %d, stored %d, shed %d, refused %d", s.Emitted, s.Delivered, s.Stored, s.Shed, s.Refused)
	}
	if others := s.Depth.Letters - first(s.Depth.ByPriority); s.Depth.Letters > maxLetters || others > maxLetters-reserved {
		rt.Fatalf("%d letters, %d of them not never-shed; the bounds are %d and %d", s.Depth.Letters, others, maxLetters, maxLetters-reserved)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		rt.Fatal(f)
	}
}

func first(counts []int) int {
	if len(counts) == 0 {
		return 0
	}
	return counts[0]
}

// finish heals the consumer: what was acknowledged must arrive, unless it was evicted or is parked (and then unparked).
func (m *machine) finish(rt *rapid.T) {
	m.emits.Wait()
	m.back(rt)
	m.set(accept)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	for range 2 { // what had crashed too often by now is parked by the first
		m.unpark(ctx)
		if _, err := m.now.router.Replay(ctx, consumer, emit.Filter{}); err != nil {
			rt.Fatalf("Replay: %v; %+v", err, m.now.router.Stats().Consumers[0])
		}
	}
	time.Sleep(15 * time.Second) // for the verdict on the recovery
	m.check(rt)
	for n := range m.safe {
		if !m.seen[n] && !m.disk.hasDropped(n) {
			rt.Fatalf("%d is lost: %+v", n, m.now.router.Stats())
		}
	}
	if s := m.now.router.Stats().Consumers[0]; s.Stored != 0 || s.Depth.Letters != 0 || s.Breaker.State == breaker.Open {
		rt.Fatalf("at the end: %+v", s)
	}
}

// unpark notes the keys whose order a person gives up, for good.
func (m *machine) unpark(ctx context.Context) {
	for l := range m.now.router.Letters(ctx, consumer, emit.Filter{Parked: new(true)}) {
		m.mu.Lock()
		m.unparked[l.Trigger.Key] = true
		m.mu.Unlock()
	}
}

func (m *machine) set(health int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health = health
}

// quiet hides from rapid that it has a *testing.T, whose deadline it would ask for: a test in a
// bubble has none.
type quiet struct{ testing.TB }

// A thousand runs, unless -rapid.checks asks for more.
func TestRouterKeepsItsPromises(t *testing.T) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) { rapid.Check(quiet{t}, property) })
}

func property(rt *rapid.T) {
	m := start(rt)
	defer func() { _ = m.now.router.Close() }()
	rt.Repeat(map[string]func(*rapid.T){
		"":            m.check,
		"emit":        func(rt *rapid.T) { m.emit(rt, (*emit.Router).Emit) },
		"emit too":    func(rt *rapid.T) { m.emit(rt, (*emit.Router).Emit) },
		"hand over":   func(rt *rapid.T) { m.emit(rt, (*emit.Router).HandOver) },
		"sicken":      func(rt *rapid.T) { m.set(rapid.IntRange(fail, sicknesses-1).Draw(rt, "sickness")) },
		"heal":        func(*rapid.T) { m.set(accept) },
		"crash":       func(rt *rapid.T) { m.end(rt, true) },
		"reconfigure": m.reconfigure,
		"restart":     func(rt *rapid.T) { m.end(rt, false) },
		"replay": func(rt *rapid.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			m.unpark(ctx)
			_, _ = m.now.router.Replay(ctx, consumer, emit.Filter{Key: rapid.SampledFrom([]string{"", "a"}).Draw(rt, "of")})
		},
		"discard parked": func(rt *rapid.T) {
			_, _ = m.now.router.Discard(context.Background(), consumer, emit.Filter{Parked: new(true)})
		},
		"wait": func(rt *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 5 * time.Second}).Draw(rt, "time"))
			synctest.Wait()
		},
	})
	m.finish(rt)
}
