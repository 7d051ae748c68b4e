package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

func main() {
	p := program{out: os.Stdout}
	table := flag.String("table", "all", "which: false, thresholds, detection, stalls, bulkheads or all")
	flag.Uint64Var(&p.seed, "seed", 1, "of the random numbers")
	flag.IntVar(&p.days, "days", 200, "simulated for each rate of false openings, at least")
	flag.IntVar(&p.runs, "runs", 1000, "of each scenario")
	flag.Parse()
	if flag.NArg() > 0 || p.days < 1 || p.runs < 1 || !p.print(*table) {
		flag.Usage()
		os.Exit(2)
	}
}

// A program prints tables.
type program struct {
	out  io.Writer
	seed uint64
	days int
	runs int
}

// print prints one table or all, and reports whether there is one of that name.
func (p program) print(name string) (known bool) {
	for _, t := range []struct {
		name  string
		print func()
	}{
		{"false", p.falseOpenings},
		{"thresholds", p.thresholds},
		{"detection", p.detection},
		{"stalls", p.stalls},
		{"bulkheads", p.bulkheads},
	} {
		if name == "all" || name == t.name {
			t.print()
			known = true
		}
	}
	return known
}

// rng is the source of one row, so that a row does not depend on which others are made.
func (p program) rng(row ...float64) *rand.Rand {
	mix := uint64(0)
	for _, x := range row {
		mix = mix*1_000_003 + math.Float64bits(x)
	}
	return rand.New(rand.NewPCG(p.seed, mix))
}

func (p program) title(text string) { fmt.Fprintf(p.out, "\n%s\n\n", text) }

func (p program) row(cells ...string) { fmt.Fprintf(p.out, "| %s |\n", strings.Join(cells, " | ")) }

func (p program) head(cells ...string) {
	p.row(cells...)
	p.row(strings.Split(strings.Repeat("--- ", len(cells)-1)+"---", " ")...)
}

func rates() []float64 { return []float64{20, 100, 500, 2000, 5000} }

const (
	limit       = 14 // the default of breaker.CUSUM
	higherLimit = 20
	minCalls    = 100  // the default of breaker.Percentile
	slowBudget  = 40e6 // calls to simulate in a row of false openings, where that is more days than asked for
)

// limitFor keeps false openings as rare at any rate as the default does at 100 calls/s.
func limitFor(rate float64) float64 { return math.Round(10*(limit+math.Log(rate/100))) / 10 }

func (p program) falseOpenings() {
	p.title("False openings a day of a healthy consumer")
	p.head("calls/s", "slow", "days", "CUSUM 10", "CUSUM 14", "CUSUM 20", "CUSUM 14 + ln(rate/100)", "Percentile 3 × 1 s, min 100")
	for _, rate := range rates() {
		for _, share := range []float64{0.001, 0.005, 0.009} {
			c := consumer{rate, share}
			days := p.daysOf(c)
			n := falseCUSUM(p.rng(rate, share), c, []float64{10, limit, higherLimit, limitFor(rate)}, time.Duration(days)*day)
			fewer := min(days, p.days) // each window costs the same, whatever the rate
			windows := falsePercentile(p.rng(rate, share, 1), c, minCalls, time.Duration(fewer)*day)
			p.row(count(rate), percent(share), count(float64(days)), aDay(n[0], days), aDay(n[1], days), aDay(n[2], days),
				fmt.Sprintf("%g: %s", limitFor(rate), aDay(n[3], days)), aDay(windows, fewer))
		}
	}
}

// daysOf is more than was asked for where slow calls are rare, and less where the rules open too
// often to need it.
func (p program) daysOf(c consumer) int {
	if c.share > healthyShare {
		return max(1, p.days/10)
	}
	return max(p.days, min(10*p.days, int(slowBudget/(c.rate*c.share*day.Seconds()))))
}

// thresholds shows what becomes of a threshold near the healthy P99, where durations are lognormal.
func (p program) thresholds() {
	p.title("500 calls/s with lognormal durations: share of slow calls, and false openings a day of CUSUM 14")
	p.head("threshold over healthy P99", "P99 is 3 medians", "10 medians", "30 medians")
	for _, factor := range []float64{1, 1.5, 2, 3} {
		cells := []string{fmt.Sprint(factor)}
		for _, spread := range []float64{3, 10, 30} {
			c := consumer{500, shareOver(factor, spread)}
			days := max(1, p.days/4)
			n := falseCUSUM(p.rng(factor, spread), c, []float64{limit}, time.Duration(days)*day)
			cells = append(cells, fmt.Sprintf("%s: %s", percent(c.share), aDay(n[0], days)))
		}
		p.row(cells...)
	}
}

// shareOver is the share of the lognormal durations over a multiple of their P99, which is a multiple of
// their median.
func shareOver(factor, medians float64) float64 {
	z99 := math.Sqrt2 * math.Erfinv(2*quantile-1)
	z := z99 * (1 + math.Log(factor)/math.Log(medians))
	return math.Erfc(z/math.Sqrt2) / 2
}

func sumOver(limit float64) func() detector { return func() detector { return newCUSUM(limit) } }

func windowsOf(minCalls uint64) func() detector {
	return func() detector { return newPercentile(minCalls) }
}

// healthyNow is the share of slow calls before something happens.
const healthyNow = 0.001

func (p program) detection() {
	p.title("Time to open, median / P99")
	p.head("calls/s", "rule", "all hang", "5 % slow", "2 % slow")
	for _, rate := range rates() {
		p.detectionOf(rate, "CUSUM 14", sumOver(limit))
		if l := limitFor(rate); l != limit {
			p.detectionOf(rate, fmt.Sprintf("CUSUM %g", l), sumOver(l))
		}
		p.detectionOf(rate, "CUSUM 20", sumOver(higherLimit))
		p.detectionOf(rate, "Percentile", windowsOf(minCalls))
	}
}

func (p program) detectionOf(rate float64, name string, rule func() detector) {
	cells := []string{count(rate), name}
	for _, share := range []float64{1, 0.05, 0.02} {
		cells = append(cells, p.takes(scenario{rate: rate, share: healthyNow, threshold: limitDefault}, share, rule))
	}
	p.row(cells...)
}

const (
	stallLength   = 100 * time.Millisecond
	aboveTheStall = 125 * time.Millisecond
	forAStall     = 4 * time.Second
)

func (p program) stalls() {
	p.title("A stall of 100 ms: share of the stalls that open, and what stops that")
	p.head("calls/s", "CUSUM 14", "CUSUM 20", "Percentile",
		"Limit under which 99.9 % stay", "with it: hang", "5 % slow", "CUSUM 14, Threshold 125 ms", "with it: hang", "5 % slow")
	for _, rate := range rates() {
		s := scenario{rate: rate, share: healthyNow, happens: stalls(stallLength), threshold: limitDefault, within: forAStall}
		passes := math.Ceil(at(s.peaks(p.rng(rate, 1), p.runs), 0.999)) + 1
		long := s
		long.threshold = aboveTheStall
		p.row(count(rate), p.opens(s, sumOver(limit)), p.opens(s, sumOver(higherLimit)), p.opens(s, windowsOf(minCalls)),
			fmt.Sprint(passes), p.takes(s, 1, sumOver(passes)), p.takes(s, 0.05, sumOver(passes)),
			p.opens(long, sumOver(limit)), p.takes(long, 1, sumOver(limit)), p.takes(long, 0.05, sumOver(limit)))
	}
}

func (p program) bulkheads() {
	p.title("500 calls/s behind a bulkhead, calls end by a timeout of 200 ms: time to open when all hang, and share of the stalls of 100 ms that open")
	p.head("bulkhead", "asked first: CUSUM 14", "CUSUM 25", "asked after: CUSUM 14", "CUSUM 25",
		"Percentile min 100", "min 20", "stall: CUSUM 14", "CUSUM 25")
	for _, n := range []int{4, 8, 16, 32, 64, 0} {
		s := scenario{rate: 500, share: healthyNow, threshold: limitDefault, bulkhead: n, happens: stalls(stallLength), within: forAStall}
		first := s
		first.asksFirst = true
		p.row(bulkheadName(n), p.takes(first, 1, sumOver(limit)), p.takes(first, 1, sumOver(25)),
			p.takes(s, 1, sumOver(limit)), p.takes(s, 1, sumOver(25)), p.takes(s, 1, windowsOf(minCalls)), p.takes(s, 1, windowsOf(20)),
			p.opens(first, sumOver(limit)), p.opens(first, sumOver(25)))
	}
}

// opens is the share of the runs of s that open.
func (p program) opens(s scenario, rule func() detector) string {
	s.rule = rule
	return percent(openedShare(s.times(p.rng(s.rate, float64(s.threshold), 2), p.runs)))
}

// patience is how long an opening is waited for: 60,000 calls, or half a minute.
func patience(rate float64) time.Duration {
	return max(30*time.Second, time.Duration(60_000/rate)*time.Second)
}

// takes is the time to open where a share of the calls becomes slow instead.
func (p program) takes(s scenario, share float64, rule func() detector) string {
	s.rule, s.happens, s.within = rule, degrades(share), patience(s.rate)
	took := s.times(p.rng(s.rate, float64(s.threshold), share), p.runs)
	return medianAndP99(took, s.within)
}

func bulkheadName(n int) string {
	if n == 0 {
		return "none"
	}
	return count(float64(n))
}

// aDay is a rate, or the bound under which it is with 95 % certainty if nothing was seen.
func aDay(n, days int) string {
	if n == 0 {
		return fmt.Sprintf("< %.2g", 3/float64(days))
	}
	return short(float64(n) / float64(days))
}

// short is two digits that count.
func short(x float64) string {
	if x >= 100 {
		unit := math.Pow(10, math.Floor(math.Log10(x))-1)
		return count(math.Round(x/unit) * unit)
	}
	return fmt.Sprintf("%.2g", x)
}

// count is a whole number with its thousands apart.
func count(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(x float64) string {
	if x > 0 && x < 1e-5 {
		return "< 0.001 %"
	}
	return fmt.Sprintf("%.3g %%", 100*x)
}

// medianAndP99 of what opened within a time.
func medianAndP99(took []time.Duration, within time.Duration) string {
	p50, p99 := atLeast(at(took, 0.5), within), atLeast(at(took, 0.99), within)
	if p50 == p99 {
		return p50
	}
	return p50 + " / " + p99
}

// atLeast is a duration, or that it was waited for in vain.
func atLeast(d, within time.Duration) string {
	if d == never {
		return "> " + length(within)
	}
	return length(d)
}

func length(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return short(d.Seconds()) + " s"
}
