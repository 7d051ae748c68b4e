package main

import (
	"math"
	"time"
)

// A detector is a latency rule as package breaker computes it, fed with ticks.
type detector interface {
	// reset forgets everything at now.
	reset(now time.Duration)
	// ripened takes in the calls of the tick that began at an instant, and tells whether to open.
	ripened(at time.Duration, calls, slow uint64) bool
	// settle judges what is complete: every tick that began before horizon was handed in.
	settle(horizon time.Duration) bool
	// reason is the value with which it opened, and its slow and all calls.
	reason() (value float64, slow, calls uint64)
}

// The defaults of breaker.CUSUM.
const (
	healthyShare = 0.005
	sickShare    = 0.02
)

type cusum struct {
	limit       float64
	up, down    float64
	sum, peak   float64
	calls, slow uint64 // since the sum was 0
}

func newCUSUM(limit float64) *cusum {
	return &cusum{limit: limit, up: math.Log(sickShare / healthyShare), down: math.Log((1 - sickShare) / (1 - healthyShare))}
}

func (d *cusum) reset(time.Duration) { d.sum, d.calls, d.slow = 0, 0, 0 }

func (d *cusum) ripened(_ time.Duration, calls, slow uint64) bool {
	d.sum += float64(slow)*d.up + float64(calls-slow)*d.down
	d.calls += calls
	d.slow += slow
	d.peak = max(d.peak, d.sum)
	if d.sum <= 0 {
		d.reset(0)
	}
	return d.sum >= d.limit
}

func (*cusum) settle(time.Duration) bool { return false }

func (d *cusum) reason() (value float64, slow, calls uint64) { return d.sum, d.slow, d.calls }

type percentile struct {
	span        time.Duration
	inARow      int
	minCalls    uint64
	origin      time.Duration // windows are counted from here
	window      int64         // the open one
	calls, slow uint64
	row         int

	closedCalls, closedSlow uint64 // of the newest window that was judged
}

const quantile = 0.99

func newPercentile(minCalls uint64) *percentile {
	return &percentile{span: time.Second, inARow: 3, minCalls: minCalls}
}

func (d *percentile) reset(now time.Duration) {
	*d = percentile{span: d.span, inARow: d.inARow, minCalls: d.minCalls, origin: now}
}

func (d *percentile) ripened(at time.Duration, calls, slow uint64) bool {
	opens := d.settle(at)
	d.calls += calls
	d.slow += slow
	return opens
}

func (d *percentile) settle(horizon time.Duration) (opens bool) {
	window := int64((horizon - d.origin) / d.span)
	if window <= d.window {
		return false
	}
	opens = d.judge()
	if window > d.window+1 { // an empty window ends the row
		d.row, opens = 0, false
	}
	d.closedCalls, d.closedSlow = d.calls, d.slow
	d.window, d.calls, d.slow = window, 0, 0
	return opens
}

func (d *percentile) judge() bool {
	if d.calls < d.minCalls || float64(d.calls-d.slow)/float64(d.calls) >= quantile {
		d.row = 0
		return false
	}
	d.row++
	return d.row >= d.inARow
}

func (d *percentile) reason() (value float64, slow, calls uint64) {
	return float64(d.closedSlow) / float64(d.closedCalls), d.closedSlow, d.closedCalls
}
