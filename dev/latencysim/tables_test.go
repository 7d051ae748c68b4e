package main

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// REQ-B2: a healthy consumer with 0.5 % of slow calls, at 100 calls/s, is cut off less than once in ten
// days by the CUSUM with its defaults. docs/latency.md has the table; this is one row of it, shorter.
func TestFalseOpeningsAreRare(t *testing.T) {
	const days = 100
	n := falseCUSUM(rand.New(rand.NewPCG(1, 1)), consumer{100, 0.005}, []float64{10, limit}, days*day)
	if n[1] == 0 || float64(n[1]) >= 0.1*days {
		t.Errorf("limit %d: got %d openings in %d days, want some and less than %g", limit, n[1], days, 0.1*days)
	}
	if n[0] < 20*n[1] {
		t.Errorf("limit 10: got %d openings beside %d, want at least 20 times as many", n[0], n[1])
	}
	if windows := falsePercentile(rand.New(rand.NewPCG(1, 2)), consumer{100, 0.005}, minCalls, days*day/10); windows < n[0]/10 {
		t.Errorf("percentile: got %d openings in a tenth of the days, want more than a CUSUM of limit 10, which has %d in all", windows, n[0])
	}
}

func inShort(s scenario) []time.Duration { return s.times(rand.New(rand.NewPCG(1, 3)), 60) }

// What happens to a consumer at 500 calls/s, and how soon its breaker opens.
func TestScenarios(t *testing.T) {
	hang, stall := degrades(1), stalls(stallLength)
	for name, tc := range map[string]struct {
		scenario
		least, most time.Duration // of the median
		slowest     time.Duration // the P99
	}{
		"hang, CUSUM":                  {scenario{happens: hang, rule: sumOver(limit)}, 55 * ms, 90 * ms, 100 * ms},
		"hang, percentile":             {scenario{happens: hang, rule: windowsOf(minCalls)}, 2 * time.Second, 3 * time.Second, 3200 * ms},
		"hang, 16 asked first":         {scenario{happens: hang, rule: sumOver(limit), bulkhead: 16, asksFirst: true}, 55 * ms, 90 * ms, 100 * ms},
		"hang, 16 asked after":         {scenario{happens: hang, rule: sumOver(limit), bulkhead: 16}, 195 * ms, 210 * ms, 220 * ms},
		"hang, 16 fill no window":      {scenario{happens: hang, rule: windowsOf(minCalls), bulkhead: 16}, never, never, never},
		"5 % slow, CUSUM":              {scenario{happens: degrades(0.05), rule: sumOver(limit)}, 300 * ms, 800 * ms, 2 * time.Second},
		"stall, CUSUM":                 {scenario{happens: stall, rule: sumOver(limit)}, 55 * ms, 110 * ms, 120 * ms},
		"stall, percentile":            {scenario{happens: stall, rule: windowsOf(minCalls)}, never, never, never},
		"stall, threshold above":       {scenario{happens: stall, rule: sumOver(limit), threshold: aboveTheStall}, never, never, never},
		"stall, 8 in flight":           {scenario{happens: stall, rule: sumOver(limit), bulkhead: 8, asksFirst: true}, never, never, never},
		"stall, 16 in flight":          {scenario{happens: stall, rule: sumOver(limit), bulkhead: 16, asksFirst: true}, 55 * ms, 110 * ms, 120 * ms},
		"stall, 16 and a higher limit": {scenario{happens: stall, rule: sumOver(25), bulkhead: 16, asksFirst: true}, never, never, never},
	} {
		s := tc.scenario
		s.rate, s.share, s.within = 500, healthyNow, forAStall
		if s.threshold == 0 {
			s.threshold = limitDefault
		}
		took := inShort(s)
		if median, p99 := at(took, 0.5), at(took, 0.99); median < tc.least || median > tc.most || p99 > tc.slowest {
			t.Errorf("%s: got a median of %s and a P99 of %s, want %s to %s and at most %s",
				name, atLeast(median, s.within), atLeast(p99, s.within), atLeast(tc.least, s.within), atLeast(tc.most, s.within), atLeast(tc.slowest, s.within))
		}
	}
}

func printed(name string) string {
	var out strings.Builder
	p := program{out: &out, seed: 7, days: 1, runs: 2}
	p.print(name)
	return out.String()
}

// A table is whole, and the same again from the same seed.
func TestTables(t *testing.T) {
	for _, name := range []string{"stalls", "bulkheads"} {
		table := printed(name)
		if table != printed(name) {
			t.Errorf("%s: the same seed gave another table", name)
		}
		lines := strings.Split(strings.TrimSpace(table), "\n")
		for _, line := range lines[2:] {
			if strings.Count(line, "|") != strings.Count(lines[2], "|") {
				t.Errorf("%s: %q has not as many cells as %q", name, line, lines[2])
			}
		}
		if len(lines) < 4+5 {
			t.Errorf("%s: got %d lines", name, len(lines))
		}
	}
	p := program{}
	if p.print("what") {
		t.Error("a table of an unknown name was printed")
	}
}

func TestFigures(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{short(0.04321), "0.043"},
		{short(17234), "17,000"},
		{short(1234567), "1,200,000"},
		{count(999), "999"},
		{aDay(0, 200), "< 0.015"},
		{aDay(9, 200), "0.045"},
		{length(72400 * time.Microsecond), "72 ms"},
		{length(131 * time.Second), "130 s"},
		{medianAndP99([]time.Duration{never, never}, time.Minute), "> 60 s"},
		{percent(0.001), "0.1 %"},
		{percent(shareOver(1, 10)), "1 %"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
