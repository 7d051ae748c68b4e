package breakermodel

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/breakwater-go/breakwater/breaker"
)

func drawConfig(t *rapid.T) breaker.Config {
	c := breaker.Config{
		Open: breaker.Backoff{
			Base:   time.Second,
			Max:    5 * time.Second,
			Jitter: -1,
			Sticky: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "sticky"),
		},
		Probe:     drawProbe(t),
		Ramp:      drawRamp(t),
		Histogram: rapid.Bool().Draw(t, "histogram"),
	}
	limits := []time.Duration{8 * unit, 12 * unit} // both have ticks of one unit
	limit := func() time.Duration { return rapid.SampledFrom(limits).Draw(t, "threshold") }
	rules := []breaker.Rule{
		breaker.ConsecutiveFailures{},
		breaker.FailureRateByCount{Calls: 8, Rate: drawRate(t), MinCalls: drawMinCalls(t)},
		breaker.FailureRateByTime{Span: 10 * time.Second, Rate: drawRate(t)},
		breaker.Signal{Name: "lag", Trip: 0.5, Reenter: 0.2},
		breaker.SlowCallRate{Threshold: limit(), Span: rapid.SampledFrom([]time.Duration{20 * unit, time.Second}).Draw(t, "span")},
		breaker.Percentile{
			Threshold: limit(), Span: rapid.SampledFrom([]time.Duration{5 * unit, 50 * time.Millisecond}).Draw(t, "window"),
			Quantile: rapid.SampledFrom([]float64{0.5, 0.75, 0.9}).Draw(t, "quantile"), MinCalls: rapid.IntRange(1, 4).Draw(t, "min calls"),
		},
		breaker.CUSUM{Threshold: limit()},
	}
	latency := rapid.Bool().Draw(t, "latency rules")
	for i, r := range rules {
		if _, is := limitOf(r); (latency || !is) && rapid.Bool().Draw(t, fmt.Sprintf("with rule %d", i)) {
			c.Rules = append(c.Rules, drawDry(t, redraw(t, r)))
		}
	}
	if len(c.Rules) == 0 {
		c.Rules = []breaker.Rule{redraw(t, rules[0])}
	}
	return c
}

// redraw is a rule with other thresholds that leave alone what it measures.
func redraw(t *rapid.T, r breaker.Rule) breaker.Rule {
	switch r := r.(type) {
	case breaker.ConsecutiveFailures:
		r.Count = rapid.IntRange(1, 6).Draw(t, "count")
		return r
	case breaker.FailureRateByTime:
		r.MinCalls = drawMinCalls(t)
		return r
	case breaker.Signal:
		r.Breaches = rapid.IntRange(1, 3).Draw(t, "breaches")
		return r
	case breaker.SlowCallRate:
		r.Rate, r.MinCalls = drawRate(t), drawMinCalls(t)
		return r
	case breaker.Percentile:
		r.Windows = rapid.IntRange(1, 3).Draw(t, "windows")
		return r
	case breaker.CUSUM:
		r.Healthy, r.Sick = 0.1, rapid.SampledFrom([]float64{0.3, 0.6}).Draw(t, "sick")
		r.Limit = rapid.SampledFrom([]float64{1, 3, 6}).Draw(t, "limit")
		return r
	default:
		return r
	}
}

func drawRate(t *rapid.T) float64 {
	return rapid.SampledFrom([]float64{0.25, 0.5, 0.74}).Draw(t, "rate")
}

func drawMinCalls(t *rapid.T) int { return rapid.IntRange(1, 8).Draw(t, "min calls") }

func drawDry(t *rapid.T, r breaker.Rule) breaker.Rule {
	if rapid.IntRange(0, 4).Draw(t, "dry") == 0 {
		return breaker.DryRun{Rule: r}
	}
	return r
}

func drawProbe(t *rapid.T) breaker.Probe {
	p := breaker.Probe{
		Concurrent: rapid.IntRange(1, 3).Draw(t, "concurrent"),
		Successes:  rapid.IntRange(1, 3).Draw(t, "successes"),
		Lease:      rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second}).Draw(t, "lease"),
		Longest:    7 * time.Second,
		Expiry:     breaker.Expiry(rapid.IntRange(0, 2).Draw(t, "expiry")),
		Reserved:   rapid.Bool().Draw(t, "reserved"),
	}
	if rapid.Bool().Draw(t, "by rate") {
		p.Successes, p.Of = 1, rapid.IntRange(1, 5).Draw(t, "of")
		p.Rate = rapid.SampledFrom([]float64{0.2, 0.5, 0.6, 0.9, 1}).Draw(t, "share")
	}
	return p
}

func drawRamp(t *rapid.T) breaker.Ramp {
	return breaker.Ramp{
		For:      rapid.SampledFrom([]time.Duration{0, 2 * time.Second, 20 * time.Second}).Draw(t, "ramp"),
		From:     rapid.SampledFrom([]float64{0.1, 0.5}).Draw(t, "from"),
		Rate:     drawRate(t),
		MinCalls: drawMinCalls(t),
	}
}
