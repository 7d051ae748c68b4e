package limit

import (
	"math"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) { // REQ-D3
	for _, tc := range []struct{ in, want BucketConfig }{
		{BucketConfig{}, BucketConfig{Rate: 200, Burst: 200}},
		{BucketConfig{Rate: 0.5}, BucketConfig{Rate: 0.5, Burst: 1}},
		{BucketConfig{Rate: 2.5}, BucketConfig{Rate: 2.5, Burst: 3}},
		{BucketConfig{Burst: 7}, BucketConfig{Rate: 200, Burst: 7}},
	} {
		if got := tc.in.withDefaults(); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.in, got, tc.want)
		}
	}
	for _, tc := range []struct{ in, want BulkheadConfig }{
		{BulkheadConfig{}, BulkheadConfig{Limit: 20, MaxWaiting: 20}},
		{BulkheadConfig{Limit: 3}, BulkheadConfig{Limit: 3, MaxWaiting: 3}},
		{BulkheadConfig{MaxWaiting: -1}, BulkheadConfig{Limit: 20, MaxWaiting: 0}},
	} {
		if got := tc.in.withDefaults(); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.in, got, tc.want)
		}
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	for _, tc := range []struct {
		config BucketConfig
		want   []string
	}{
		{BucketConfig{Rate: -1, Burst: -1}, []string{"limit: Rate is -1: use a number above 0", "limit: Burst is -1: use at least 1"}},
		{BucketConfig{Rate: math.NaN()}, []string{"Rate is NaN"}},
		{BucketConfig{Rate: math.Inf(1)}, []string{"Rate is +Inf"}},
		{BucketConfig{Rate: 1e10, Burst: 1}, []string{"Rate is 1e+10"}},
		{BucketConfig{Rate: 1, Burst: 8_640_001}, []string{"Burst is 8640001: at a Rate of 1 the bucket fills in 100 days; lower Burst"}},
		{BucketConfig{Rate: 1e-9}, []string{"Burst is 1: at a Rate of 1e-09 the bucket fills in 11574 days"}},
		{BucketConfig{Rate: math.SmallestNonzeroFloat64}, []string{"Burst is 1: at a Rate of 5e-324"}},
	} {
		_, err := NewBucket(tc.config)
		wantErrors(t, err, tc.want...)
	}
	_, err := NewBulkhead(BulkheadConfig{Limit: -1, MaxWaiting: maxLimit + 1})
	wantErrors(t, err, "limit: Limit is -1: use 1 to 1048575", "limit: MaxWaiting is 1048576: use at most 1048575")
	_, err = NewBulkhead(BulkheadConfig{Limit: maxLimit + 1})
	wantErrors(t, err, "limit: Limit is 1048576")
}

// The widest bucket of every rate keeps its sums within an int64.
func TestWidestBucket(t *testing.T) {
	for _, rate := range []float64{1 / maxFill.Seconds(), 0.1, 1.0 / 3, 1, 1e6 / 3, 1e9/2 + 1, 1e9} {
		burst := int(rate * maxFill.Seconds())
		b := mustBucket(t, BucketConfig{Rate: rate, Burst: max(burst, 1)})
		m := b.meter.Load()
		if m.size <= 0 || m.size > 1<<61 {
			t.Errorf("rate %v: size %d is more than 2^61 units", rate, m.size)
		}
		if !b.allow(reach-1, m.config.Burst, 0) || b.allow(reach-1, 1, 0) {
			t.Errorf("rate %v: not exactly %d admitted at the end of its reach", rate, m.config.Burst)
		}
		if top := m.full.Load(); top >= closed {
			t.Errorf("rate %v: full is %d, which reads as closed", rate, top)
		}
	}
}

func TestMinBulkhead(t *testing.T) {
	for _, tc := range []struct {
		rate float64
		mean time.Duration
		want int
	}{
		{2000, 3300 * time.Microsecond, 17}, // 6.6 at once on average
		{500, 10 * ms, 14},
		{100, 10 * ms, 5},
		{5000, 200 * ms, 1127},
		{0, time.Second, 1},
		{1e-9, ms, 1},
		{-5, time.Second, 1},
		{5, -time.Second, 1},
		{math.NaN(), time.Second, 1},
		{math.Inf(1), time.Second, 1_048_575},
		{1e18, math.MaxInt64, 1_048_575},
	} {
		if got := MinBulkhead(tc.rate, tc.mean); got != tc.want {
			t.Errorf("%v a second of %v: got %d, want %d", tc.rate, tc.mean, got, tc.want)
		}
	}
}

// What MinBulkhead promises, by Erlang's loss formula for calls that come at
// random to a number of slots.
func TestMinBulkheadRefusesFew(t *testing.T) {
	for running := 1.0; running < 2000; running *= 1.001 {
		slots := MinBulkhead(running, time.Second)
		want := 0.004
		if running >= 5 {
			want = 0.0005
		}
		if got := erlangLoss(running, slots); got > want {
			t.Errorf("%.2f at once on average, %d slots: a share of %.5f is refused, want at most %v", running, slots, got, want)
		}
	}
}

// erlangLoss is the share of calls that finds every slot taken.
func erlangLoss(running float64, slots int) float64 {
	loss := 1.0
	for n := range slots {
		loss = running * loss / (float64(n+1) + running*loss)
	}
	return loss
}
