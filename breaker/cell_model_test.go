package breaker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A breaker whose successes are counted in many cells, become full and get their stripes at any time says what a
// plain count of the same random sequence says, after each step (REQ-B1, B2, B5, B8).
func TestStripesAgreeWithAPlainCount(t *testing.T) {
	grown, fuller, opened := 0, 0, uint64(0)
	for seed := range uint64(rounds(t, 400)) {
		m := newCellModel(t, seed)
		for step := range 400 {
			m.step()
			m.check(fmt.Sprintf("seed %d, step %d", seed, step))
		}
		fuller += m.fuller
		opened += m.b.Stats().Openings
		if m.b.stripes.Load() != nil {
			grown++
		}
	}
	if grown == 0 || fuller == 0 || opened == 0 {
		t.Errorf("got %d runs with stripes, %d cells that were filled, %d openings: want some of each", grown, fuller, opened)
	}
}

// cellModel is a breaker beside what it should have counted.
type cellModel struct {
	t      *testing.T
	rng    *rand.Rand
	b      *Breaker
	clk    *hookClock
	calls  []held // under way
	fuller int    // cells that were made full

	state                              State
	generation                         uint64
	successes, failures, ignored, late uint64
	streak                             uint64
	window                             []bool // whether each of the last modelWindow calls failed
}

type held struct {
	*Permit

	generation uint64
}

const (
	modelStreak = 6
	modelWindow = 10
	modelMin    = 5
)

func newCellModel(t *testing.T, seed uint64) *cellModel {
	t.Helper()
	b, clk := newHooked(t, Config{
		Rules:    []Rule{ConsecutiveFailures{Count: modelStreak}, FailureRateByCount{Calls: modelWindow, MinCalls: modelMin}},
		Open:     Backoff{Base: time.Second},
		Probe:    Probe{Lease: time.Hour, Longest: time.Hour},
		Classify: classifyTest,
	})
	rng := rand.New(rand.NewPCG(3, seed))
	before := uint64(cellRoom - rng.IntN(60)) // successes, so that it gets its stripes in the midst of the sequence
	b.cell.word.Add(before << cellGenBits)
	m := &cellModel{t: t, rng: rng, b: b, clk: clk, successes: before}
	m.force() // the rules forget them
	return m
}

func (m *cellModel) step() {
	switch n := m.rng.IntN(100); {
	case n < 45 || len(m.calls) == 0:
		m.begin()
	case n < 95:
		i := m.rng.IntN(len(m.calls))
		p := m.calls[i]
		m.calls = slices.Delete(m.calls, i, i+1)
		m.end(p)
	case n < 96:
		m.force()
	default:
		m.fill()
	}
	if m.state == Open && m.rng.IntN(8) == 0 {
		m.clk.advance(m.b.Stats().RetryAfter)
		m.move(HalfOpen)
	}
}

func (m *cellModel) force() {
	force(m.t, m.b)
	m.move(Closed)
}

func (m *cellModel) begin() {
	p, err := m.b.Allow()
	probing := slices.ContainsFunc(m.calls, func(h held) bool { return h.probe != nil })
	if want := m.state == Closed || m.state == HalfOpen && !probing; want != (err == nil) {
		m.t.Fatalf("Allow in %v: got %v", m.state, err)
	}
	if err == nil {
		m.calls = append(m.calls, held{&p, m.generation})
	}
}

func (m *cellModel) end(p held) {
	stale, probe := p.generation != m.generation, p.probe != nil
	switch n := m.rng.IntN(20); {
	case n < 8:
		p.Done(errDown)
		m.count(stale, &m.failures)
		if !stale {
			m.failed(probe)
		}
	case n < 9:
		p.Done(errNeutral)
		m.count(stale && probe, &m.ignored) // of a call that is no probe it does not matter when it ends
	case probe:
		p.Done(nil)
		m.count(stale, &m.successes)
		if !stale {
			m.move(Closed)
		}
	default:
		m.succeed(p.Permit)
		m.count(stale, &m.successes)
		if !stale {
			m.streak = 0
			m.push(false)
		}
	}
}

func (m *cellModel) count(stale bool, counter *uint64) {
	if stale {
		counter = &m.late
	}
	*counter++
}

// succeed is Done(nil), by itself or in a cell by chance, with a change of the cells between its two steps.
func (m *cellModel) succeed(p *Permit) {
	if m.rng.IntN(4) == 0 {
		p.Done(nil)
		return
	}
	c, word := m.cell(), p.word
	if !c.count(word) {
		m.fill()
		m.b.amend(c, word)
	}
}

// cell is one by chance; the first one, too, when there are stripes: of a call that looked before.
func (m *cellModel) cell() *cell {
	var all []*cell
	m.b.cellsLocked(func(c *cell) { all = append(all, c) })
	return all[m.rng.IntN(len(all))]
}

// fill takes successes from one cell to another, so that it is all but full, or full, and the sum stays.
func (m *cellModel) fill() {
	from, to := m.cell(), m.cell()
	if from == to {
		return
	}
	n := (countMask + uint64(m.rng.IntN(3)) - to.word.Load()>>cellGenBits&countMask) << cellGenBits
	to.word.Add(n)
	from.word.Add(-n)
	m.fuller++
}

func (m *cellModel) failed(probe bool) {
	m.streak++
	m.push(true)
	bad := 0
	for _, b := range m.window {
		if b {
			bad++
		}
	}
	n := len(m.window)
	if probe || m.streak >= modelStreak || n >= modelMin && 2*bad > n {
		m.move(Open)
	}
}

func (m *cellModel) push(bad bool) {
	m.window = append(m.window, bad)
	m.window = m.window[max(0, len(m.window)-modelWindow):]
}

func (m *cellModel) move(to State) {
	m.state = to
	m.generation++
	if to != Open {
		m.streak, m.window = 0, nil
	}
}

func (m *cellModel) check(when string) {
	m.t.Helper()
	s := m.b.Stats()
	got := fmt.Sprint(s.State, s.Generation, s.Successes, s.Failures, s.Ignored, s.Late, s.ConsecutiveFailures)
	want := fmt.Sprint(m.state, m.generation, m.successes, m.failures, m.ignored, m.late, m.streak)
	if got != want {
		m.t.Fatalf("%s: state, generation, successes, failures, ignored, late, streak:\n got %s\nwant %s", when, got, want)
	}
}
