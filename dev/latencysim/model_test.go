package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

const ms = time.Millisecond

// A pairing is a rule of package breaker and the detector that repeats it.
type pairing struct {
	name      string
	rule      breaker.Rule
	repeats   func() detector
	threshold time.Duration
	rate      float64
	share     float64
	bulkhead  int
}

func pairings() []pairing {
	window := func(span time.Duration, inARow int, minCalls uint64) func() detector {
		return func() detector { return &percentile{span: span, inARow: inARow, minCalls: minCalls} }
	}
	limit := func(l float64) func() detector { return func() detector { return newCUSUM(l) } }
	return []pairing{
		{"cusum 20", breaker.CUSUM{}, limit(14), 50 * ms, 20, 0.05, 0},
		{"cusum 100", breaker.CUSUM{Limit: 8}, limit(8), 50 * ms, 100, 0.03, 0},
		{"cusum 500", breaker.CUSUM{}, limit(14), 50 * ms, 500, 0.02, 4},
		{"cusum 2000", breaker.CUSUM{Limit: 10, Threshold: 7 * ms}, limit(10), 7 * ms, 2000, 0.005, 9},
		{"percentile 20", breaker.Percentile{MinCalls: 5, Windows: 2}, window(time.Second, 2, 5), 50 * ms, 20, 0.05, 2},
		{"percentile 9", breaker.Percentile{Span: 200 * ms, MinCalls: 1, Windows: 2}, window(200*ms, 2, 1), 50 * ms, 9, 0.3, 0},
		{"percentile 100", breaker.Percentile{Windows: 1, MinCalls: 98}, window(time.Second, 1, 98), 50 * ms, 100, 0.01, 0},
		{"percentile 150", breaker.Percentile{}, window(time.Second, 3, 100), 50 * ms, 150, 0.02, 0},
		{"percentile 500", breaker.Percentile{Span: 100 * ms, MinCalls: 20}, window(100*ms, 3, 20), 50 * ms, 500, 0.02, 5},
		{"percentile 900", breaker.Percentile{}, window(time.Second, 3, 100), 50 * ms, 900, 0.02, 0},
	}
}

// The model admits and refuses the same calls as the breaker, and opens at the same ones for the
// same reason.
func TestModelIsTheBreaker(t *testing.T) {
	for i, p := range pairings() {
		t.Run(p.name, func(t *testing.T) {
			openings := 0
			for seed := range uint64(5) {
				synctest.Test(t, func(t *testing.T) {
					got := p.playModel(seed, uint64(i))
					want := p.playBreaker(t, seed, uint64(i))
					if at := firstDifference(got, want); at >= 0 {
						t.Fatalf("seed %d, call %d: the model %q, the breaker %q", seed, at, got[at], want[at])
					}
					openings += countOpenings(got)
				})
			}
			if openings < 5 {
				t.Errorf("got %d openings: too few to show anything", openings)
			}
		})
	}
}

const callsOfAPlay = 6000

func (p pairing) traffic(seed, stream uint64) traffic {
	return traffic{
		rng: rand.New(rand.NewPCG(seed, stream)), rate: p.rate, threshold: p.threshold,
		lasts: healthy(p.share), bulkhead: p.bulkhead, asksFirst: seed%2 == 0,
	}
}

func (p pairing) playModel(seed, stream uint64) (log []string) {
	m := newModel(p.repeats(), p.threshold)
	openings := 0
	play(p.traffic(seed, stream), noting[ticket]{m, &log}, func(time.Duration) bool {
		if m.openings > openings {
			openings = m.openings
			value, slow, calls := m.rule.reason()
			log = append(log, fmt.Sprintf("opened %.9g %d %d", value, slow, calls))
		}
		return len(log) > callsOfAPlay
	})
	return log
}

func (p pairing) playBreaker(t *testing.T, seed, stream uint64) (log []string) {
	t.Helper()
	g := newBubbled(t, p.rule)
	g.timeouts = seed%2 == 1
	play(p.traffic(seed, stream), noting[*bubbledCall]{g, &log}, func(time.Duration) bool {
		for ; len(g.opened) > 0; g.opened = g.opened[1:] {
			log = append(log, g.opened[0])
		}
		return len(log) > callsOfAPlay
	})
	return log
}

// A noting guard keeps what was admitted.
type noting[permit any] struct {
	guard[permit]
	log *[]string
}

func (n noting[permit]) begin(now time.Duration, slow bool) (permit, bool) {
	p, ok := n.guard.begin(now, slow)
	*n.log = append(*n.log, fmt.Sprint(ok, now))
	return p, ok
}

// A bubbled guard is a breaker in a bubble.
type bubbled struct {
	b        *breaker.Breaker
	base     time.Time
	timeouts bool     // slow calls end with an error
	opened   []string // from closed, not looked at yet
}

type bubbledCall struct {
	breaker.Permit
	slow bool
}

func newBubbled(t *testing.T, rule breaker.Rule) *bubbled {
	t.Helper()
	g := &bubbled{base: time.Now()}
	b, err := breaker.New(breaker.Config{
		Rules: []breaker.Rule{rule},
		Open:  breaker.Backoff{Jitter: -1},
		Observer: breaker.Observer{OnTransition: func(tr breaker.Transition) {
			if tr.From == breaker.Closed && tr.To == breaker.Open {
				g.opened = append(g.opened, describe(tr.Reason))
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g.b = b
	return g
}

var counts = regexp.MustCompile(`(\d+) of (?:the last )?(\d+) calls`)

// describe is the value of a reason, and the two counts in its detail.
func describe(r breaker.Reason) string {
	n := counts.FindStringSubmatch(r.Detail)
	return fmt.Sprintf("opened %.9g %s %s", r.Value, n[1], n[2])
}

func (g *bubbled) wait(until time.Duration) { time.Sleep(until - time.Since(g.base)) }

func (g *bubbled) begin(now time.Duration, slow bool) (*bubbledCall, bool) {
	g.wait(now)
	p, err := g.b.Allow()
	return &bubbledCall{p, slow}, err == nil
}

func (g *bubbled) end(now time.Duration, c *bubbledCall) {
	g.wait(now)
	var err error
	if c.slow && g.timeouts {
		err = context.DeadlineExceeded
	}
	c.Done(err)
}

func (g *bubbled) ignore(now time.Duration, c *bubbledCall) {
	g.wait(now)
	c.DoneAs(breaker.Ignored, nil)
}

func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return min(i, len(a)-1, len(b)-1)
		}
	}
	return -1
}

func countOpenings(log []string) (n int) {
	for _, line := range log {
		if strings.HasPrefix(line, "opened") {
			n++
		}
	}
	return n
}
