package readpathmodel_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// nodes is a Backend of one replica, eligible, late or gone, and a primary. It is used by one goroutine at
// a time but for Eligible.
type nodes struct {
	eligible  atomic.Bool
	age       time.Duration // of the replica while it is late; 0: it does not answer
	primary   []time.Time   // when reads began there
	lateReads int
}

// takesLate tells whether the replica takes a read that accepts a late one.
func (n *nodes) takesLate(req replica.Requirement) bool {
	return n.age > 0 && n.age <= req.AcceptLate
}

type reqKey struct{}

func (n *nodes) WithRead(ctx context.Context, req replica.Requirement, info *readpath.ReadInfo) context.Context {
	*info = readpath.ReadInfo{Node: "r1", PickedAt: time.Now(), Primary: req.PrimaryOnly}
	if !req.PrimaryOnly && !n.eligible.Load() {
		info.Late, info.Hi = true, n.age
	}
	return context.WithValue(ctx, reqKey{}, req)
}

func (n *nodes) Eligible(req replica.Requirement) bool {
	return req.PrimaryOnly || n.eligible.Load() || req.AcceptLate > 0 && n.takesLate(req)
}

func (n *nodes) Sampled() bool     { return true }
func (n *nodes) Failed(error) bool { return false }

func (n *nodes) load(ctx context.Context) (int, error) {
	switch req := ctx.Value(reqKey{}).(replica.Requirement); {
	case req.PrimaryOnly:
		n.primary = append(n.primary, time.Now())
	case n.eligible.Load():
	case n.takesLate(req):
		n.lateReads++
	default:
		return 0, &replica.NoReplicaError{Reasons: []replica.NodeReason{{Node: "r1", Condition: replica.Late}}}
	}
	return 1, nil
}

// machine is a run, with what it knows of the past.
type machine struct {
	nodes  nodes
	router *readpath.Router
	budget readpath.Budget
	order  []readpath.Class
	late   time.Duration // DegradablePolicy.LateReplicas

	steps []readpath.ModeChange
}

var endpoints = map[readpath.Class]string{readpath.Critical: "balance", readpath.Degradable: "product", readpath.Sheddable: "related"}

func start(rt *rapid.T) *machine {
	m := &machine{
		order:  rapid.Permutation([]readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable}).Draw(rt, "order"),
		budget: drawBudget(rt),
		late:   rapid.SampledFrom([]time.Duration{0, 5 * time.Second}).Draw(rt, "late"),
	}
	m.nodes.eligible.Store(true)
	router, err := readpath.New(m.config(rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(rt, "sustain")))
	if err != nil {
		rt.Fatal(err)
	}
	m.router = router
	return m
}

func drawBudget(rt *rapid.T) readpath.Budget {
	return readpath.Budget{
		Rate:          rapid.SampledFrom([]float64{0.5, 3, 50}).Draw(rt, "rate"),
		Burst:         rapid.IntRange(1, 6).Draw(rt, "burst"),
		CriticalShare: rapid.SampledFrom([]float64{-1, 0.5}).Draw(rt, "share"),
	}
}

func (m *machine) config(sustain time.Duration) readpath.Config {
	c := readpath.Config{
		Backend: &m.nodes, Budget: m.budget, Endpoints: map[string]readpath.Endpoint{},
		Degradable: readpath.DegradablePolicy{LateReplicas: m.late},
		Recovery:   readpath.Recovery{Order: m.order, Sustain: sustain},
		Observer:   readpath.Observer{OnMode: func(c readpath.ModeChange) { m.steps = append(m.steps, c) }},
	}
	for class, name := range endpoints {
		c.Endpoints[name] = readpath.Endpoint{Class: class}
	}
	return c
}

func (m *machine) read(rt *rapid.T, class readpath.Class) {
	before, lateBefore, eligible := len(m.nodes.primary), m.nodes.lateReads, m.nodes.eligible.Load()
	withheld := slices.Contains(m.router.Stats().Withheld, class)
	chosen := class == readpath.Degradable && m.late > 0
	late := chosen && !eligible && m.nodes.age > 0 && m.nodes.age <= m.late
	res, err := readpath.Get(context.Background(), m.router, readpath.Call{Endpoint: endpoints[class]}, m.nodes.load)
	asked := len(m.nodes.primary) > before
	switch {
	case (m.nodes.lateReads > lateBefore) != late:
		rt.Fatalf("%v: read from a replica that is %v late: %v, with a limit of %v", class, m.nodes.age, !late, m.late)
	case late && (!res.Stale || res.Age != m.nodes.age):
		rt.Fatalf("%v: got %+v from a replica that is %v late; want it flagged with its age", class, res, m.nodes.age)
	case (res.Source == readpath.FromReplica) != (late || eligible && (!withheld || chosen)):
		rt.Fatalf("%v: source %v; eligible: %v, withheld: %v, late: %v", class, res.Source, eligible, withheld, late)
	case eligible && res.Source == readpath.FromReplica && res.Stale:
		rt.Fatalf("%v: got %+v, flagged though the replica is fresh", class, res)
	case class == readpath.Critical && (res.Stale || err == nil && res.Source == readpath.FromDefault):
		rt.Fatalf("critical: got %+v, which is not fresh", res)
	case class == readpath.Sheddable && asked:
		rt.Fatal("a sheddable read was sent to the primary")
	case (res.Source == readpath.FromPrimary) != asked:
		rt.Fatalf("%v: source %v, though the primary was asked: %v", class, res.Source, asked)
	case err != nil && !errors.Is(err, readpath.ErrDegraded) && !errors.Is(err, readpath.ErrShed):
		rt.Fatalf("%v: %v", class, err)
	}
}

// readPrimary asks for the primary alone: it answers, whatever the class, or the read is refused within the budget.
func (m *machine) readPrimary(rt *rapid.T, class readpath.Class) {
	before := slices.Clone(m.nodes.primary)
	withheld := slices.Contains(m.router.Stats().Withheld, class)
	res, err := readpath.Get(context.Background(), m.router, readpath.Call{Endpoint: endpoints[class], PrimaryOnly: true}, m.nodes.load)
	refused := withheld && errors.Is(err, readpath.ErrDegraded)
	if !refused && (err != nil || res.Source != readpath.FromPrimary || res.Stale) || (len(m.nodes.primary) > len(before)) == refused {
		rt.Fatalf("%v, of the primary alone: got %+v, %v; withheld: %v", class, res, err, withheld)
	}
	if !withheld {
		m.nodes.primary = before // no fall-back
	}
}

// check holds what is true at every moment.
func (m *machine) check(rt *rapid.T) {
	s := m.router.Stats()
	if (s.Mode == readpath.Normal) != (len(s.Withheld) == 0) || (s.Mode == readpath.Degraded) != (len(s.Withheld) == len(m.order)) {
		rt.Fatalf("mode %v withholds %v", s.Mode, s.Withheld)
	}
	if given := m.order[:len(m.order)-len(s.Withheld)]; !slices.Equal(m.order[len(given):], s.Withheld) {
		rt.Fatalf("withheld: %v, want the end of %v", s.Withheld, m.order)
	}
	m.checkBudget(rt)
}

// checkBudget: in any interval at most burst + rate × t reads began at the primary.
func (m *machine) checkBudget(rt *rapid.T) {
	reads := m.nodes.primary
	for i := range reads {
		t := reads[len(reads)-1].Sub(reads[i]).Seconds()
		if n := len(reads) - i; float64(n) > float64(m.budget.Burst)+m.budget.Rate*t+1e-6 {
			rt.Fatalf("%d reads of the primary within %v s; the budget is %+v", n, t, m.budget)
		}
	}
}

// lose has the replica be late by age, or gone. The Router is not asked meanwhile.
func (m *machine) lose(age time.Duration) {
	m.nodes.age = age
	m.nodes.eligible.Store(false)
}

// Each step of the mode goes on from the one before: to nothing, or to one class more.
func (m *machine) checkSteps(rt *rapid.T) {
	given := len(m.order)
	for _, s := range m.steps {
		if len(s.Given) != 0 && len(s.Given) != given+1 || !slices.Equal(s.Given, m.order[:len(s.Given)]) {
			rt.Fatalf("after %d classes: %v; the order is %v", given, s.Given, m.order)
		}
		given = len(s.Given)
	}
}

// quiet hides from rapid that it has a *testing.T, whose deadline it would ask for: a test in a
// bubble has none.
type quiet struct{ testing.TB }

// Three thousand runs, unless -rapid.checks asks for more.
func TestPathKeepsItsPromises(t *testing.T) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "3000"); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) { rapid.Check(quiet{t}, property) })
}

func property(rt *rapid.T) {
	m := start(rt)
	defer m.router.Close()
	rt.Repeat(map[string]func(*rapid.T){
		"":           m.check,
		"critical":   func(rt *rapid.T) { m.read(rt, readpath.Critical) },
		"degradable": func(rt *rapid.T) { m.read(rt, readpath.Degradable) },
		"sheddable":  func(rt *rapid.T) { m.read(rt, readpath.Sheddable) },
		"primary": func(rt *rapid.T) {
			m.readPrimary(rt, rapid.SampledFrom(m.order).Draw(rt, "class"))
		},
		"lose": func(*rapid.T) { m.lose(0) },
		"lag": func(rt *rapid.T) {
			m.lose(rapid.SampledFrom([]time.Duration{3 * time.Second, 7 * time.Second}).Draw(rt, "age"))
		},
		"recover": func(*rapid.T) { m.nodes.eligible.Store(true) },
		"wait": func(rt *rapid.T) {
			time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, 130 * time.Millisecond, time.Second, 4 * time.Second}).Draw(rt, "time"))
			synctest.Wait()
		},
	})
	m.router.Close() // its watcher tells of no step any more
	m.checkSteps(rt)
}
