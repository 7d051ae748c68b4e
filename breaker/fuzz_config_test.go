package breaker

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A drawer makes configurations of the bytes of a fuzz input; when they are used up it draws zeros.
type drawer []byte

func (d *drawer) next() int {
	if len(*d) == 0 {
		return 0
	}
	n := (*d)[0]
	*d = (*d)[1:]
	return int(n)
}

func draw[T any](d *drawer, values ...T) T { return values[d.next()%len(values)] }

func (d *drawer) duration() time.Duration {
	return draw(d, 0, time.Second, 50*ms, ms, 10*ms, 3*time.Second, time.Minute, 1, -1, -time.Hour,
		longestDuration, longestDuration+1, math.MaxInt64, math.MinInt64)
}

func (d *drawer) share() float64 {
	return draw(d, 0, 0.5, 0.01, 0.9, 1, -0.5, 2, math.NaN(), math.Inf(1), math.Inf(-1), math.SmallestNonzeroFloat64, math.Nextafter(1, 0))
}

func (d *drawer) count() int { return draw(d, 0, 1, 2, 5, 20, 1000, -1, math.MaxInt, math.MinInt) }

func (d *drawer) rule() Rule {
	switch d.next() % 9 {
	case 0:
		return ConsecutiveFailures{Count: d.count()}
	case 1:
		return FailureRateByCount{Calls: d.count(), Rate: d.share(), MinCalls: d.count()}
	case 2:
		return FailureRateByTime{Span: d.duration(), Rate: d.share(), MinCalls: d.count()}
	case 3:
		return Signal{Name: draw(d, "lag", "queue", ""), Trip: d.share(), Reenter: d.share(), Breaches: d.count()}
	case 4:
		return SlowCallRate{Threshold: d.duration(), Span: d.duration(), Rate: d.share(), MinCalls: d.count()}
	case 5:
		return Percentile{Quantile: d.share(), Threshold: d.duration(), Span: d.duration(), Windows: d.count(), MinCalls: d.count()}
	case 6:
		return CUSUM{Threshold: d.duration(), Healthy: d.share(), Sick: d.share(), Limit: d.share()}
	case 7:
		return DryRun{Rule: d.rule()}
	default:
		return nil
	}
}

func (d *drawer) config() Config {
	c := Config{
		Histogram: d.next()%2 == 1,
		Calls:     Calls{MaxInFlight: d.count(), Timeout: d.duration()},
		Open:      Backoff{Base: d.duration(), Max: d.duration(), Jitter: draw(d, -1, d.duration()), Sticky: d.duration()},
		Probe: Probe{
			Of: d.count(), Rate: d.share(), Concurrent: d.count(), Successes: d.count(), Lease: d.duration(),
			Longest: d.duration(), Expiry: Expiry(d.next() % 4), Reserved: d.next()%2 == 1,
		},
		Ramp: Ramp{For: d.duration(), From: d.share(), Rate: d.share(), MinCalls: d.count()},
	}
	for range d.next() % 5 {
		c.Rules = append(c.Rules, d.rule())
	}
	return c
}

// faultText is a field, its value and the mend.
var faultText = regexp.MustCompile(`^breaker: [A-Z][A-Za-z]*(\[\d\])?(\.[A-Z][A-Za-z]*)* is .+: .+$`)

func wantFaults(t *testing.T, err error) {
	t.Helper()
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !faultText.MatchString(line) {
			t.Errorf("got %q, want a field, its value and the mend", line)
		}
	}
}

// FuzzNew: no configuration makes New panic, and a refused one names its fields.
func FuzzNew(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 4, 4, 4, 5, 6, 7, 8})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 7, 4, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 6})
	f.Fuzz(func(t *testing.T, data []byte) {
		d := drawer(data)
		b, err := New(d.config())
		if err != nil {
			wantFaults(t, err)
			return
		}
		if !run(b, nil) || b.State() != Closed {
			t.Errorf("a new breaker: %+v", b.Stats())
		}
	})
}

// FuzzReconfigure goes from any configuration to any other, while calls run and the clock jumps, also
// backwards: each admitted call counts once, transitions are legal, a refused configuration
// changes nothing, and in the end a healthy target closes the breaker (REQ-B8, B16, B18).
func FuzzReconfigure(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1, 2, 3})
	f.Add([]byte{0, 0, 1, 2, 9, 0, 0, 5, 6, 9, 1, 1, 1, 7, 7, 0, 3, 4, 4, 4, 0, 8, 8})
	f.Add([]byte{0, 7, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 2, 4, 1, 1, 5, 4, 4, 1, 1, 1, 6, 2, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 2000 {
			return
		}
		newConfigRun(t).all(drawer(data))
	})
}

type configRun struct{ *fuzzRun }

func newConfigRun(t *testing.T) *configRun {
	t.Helper()
	return &configRun{fuzzRun: newFuzzRun(t)}
}

func (r *configRun) all(d drawer) {
	for len(d) > 0 {
		r.operation(&d)
	}
	for i := range r.permits {
		r.permits[i].Done(nil)
	}
	s := r.b.Stats()
	if got := s.Successes + s.Failures + s.Ignored + s.Late; got != r.admitted {
		r.t.Errorf("results: got %d, want one for each of %d admitted calls", got, r.admitted)
	}
	r.heal()
}

func (r *configRun) operation(d *drawer) {
	switch d.next() % 10 {
	case 0:
		r.reconfigureAny(d)
	case 1, 2:
		r.allow(d)
	case 3, 4:
		if n := len(r.permits); n > 0 {
			p := &r.permits[d.next()%n]
			p.DoneAs(draw(d, Success, Failure, Ignored, Fatal), nil) // also one that was used
		}
	case 5:
		r.clk.advance(time.Duration(1<<(d.next()%32)) * time.Microsecond)
	case 6:
		r.clk.now -= time.Duration(1<<(d.next()%32)) * time.Microsecond
	case 7:
		r.b.TripFor(d.duration(), Reason{})
	case 8:
		_ = r.b.Force(draw(d, Closed, ForcedClosed, Disabled, ForcedOpen), "")
	case 9:
		r.b.Observe("lag", d.share())
	}
}

func (r *configRun) allow(d *drawer) {
	ask := draw(d, r.b.Allow, r.b.AllowProbe)
	p, err := ask()
	if err != nil {
		return
	}
	if stateOf(p.word) != Disabled {
		r.admitted++
	}
	r.permits = append(r.permits, p)
}

func (r *configRun) reconfigureAny(d *drawer) {
	before := r.b.settings.Load()
	c := d.config()
	c.Open.Jitter = -1
	if err := r.b.Reconfigure(c); err != nil {
		wantFaults(r.t, err)
		if r.b.settings.Load() != before {
			r.t.Error("a refused configuration changed the settings")
		}
	}
}

// heal shows that what came before has broken nothing: with simple settings a healthy target closes.
func (r *configRun) heal() {
	if s := r.b.State(); s != Closed && s != HalfOpen && s != Open {
		return
	}
	if err := r.b.Reconfigure(Config{}); err != nil {
		r.t.Fatal(err)
	}
	for range 10 {
		r.clk.advance(2 * longestDuration)
		run(r.b, nil)
	}
	if r.b.State() != Closed {
		r.t.Errorf("a healthy target did not close the breaker: %+v", r.b.Stats())
	}
}
