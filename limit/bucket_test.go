package limit

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

const (
	ms  = time.Millisecond
	day = 24 * time.Hour
	age = 1 << 23 * time.Second
)

// An ask is one call at an explicit instant since NewBucket.
type ask struct {
	at      time.Duration
	n, keep int
	want    bool
	wait    time.Duration // of RetryAfter after it
}

func TestBucketByInstants(t *testing.T) {
	for _, tc := range []struct {
		name   string
		config BucketConfig
		asks   []ask
	}{
		{"starts full, then by rate", BucketConfig{Rate: 10, Burst: 2}, []ask{
			{0, 1, 0, true, 0},
			{0, 1, 0, true, 100 * ms},
			{0, 1, 0, false, 100 * ms},
			{100*ms - 1, 1, 0, false, 1},
			{100 * ms, 1, 0, true, 100 * ms},
			{150 * ms, 1, 0, false, 50 * ms},
			{200 * ms, 1, 0, true, 100 * ms},
		}},
		{"all or nothing", BucketConfig{Rate: 10, Burst: 5}, []ask{
			{0, 3, 0, true, 100 * ms},
			{0, 3, 0, false, 100 * ms},
			{0, 2, 0, true, 200 * ms},
			{0, 6, 0, false, Never},
			{day, 6, 0, false, Never},
			{day, 5, 0, true, 500 * ms},
		}},
		{"a share for others", BucketConfig{Rate: 10, Burst: 4}, []ask{ // REQ-D3
			{0, 1, 2, true, 0},
			{0, 1, 2, true, 100 * ms},
			{0, 1, 2, false, 100 * ms},
			{0, 1, 1, true, 100 * ms},
			{0, 1, 0, true, 100 * ms},
			{0, 1, 0, false, 100 * ms},
			{0, 1, 2, false, 300 * ms},
			{300 * ms, 1, 2, true, 100 * ms},
			{300 * ms, 1, 4, false, Never},
			{day, 0, 4, true, 0},
			{day, 4, 1, false, Never},
		}},
		{"an idle hour saves no more than the burst", BucketConfig{Rate: 1000, Burst: 3}, []ask{
			{time.Hour, 3, 0, true, 3 * ms},
			{time.Hour, 1, 0, false, ms},
		}},
		{"the clock goes back", BucketConfig{Rate: 10, Burst: 1}, []ask{
			{500 * ms, 1, 0, true, 100 * ms},
			{100 * ms, 1, 0, false, 500 * ms},
			{599 * ms, 1, 0, false, ms},
			{600 * ms, 1, 0, true, 100 * ms},
		}},
		{"nothing and less than nothing take nothing", BucketConfig{Rate: 10, Burst: 1}, []ask{
			{0, 0, 0, true, 0},
			{0, -5, -5, true, 0},
			{0, math.MinInt, math.MinInt, true, 0},
			{0, 1, -1, true, 100 * ms},
			{0, 0, 0, true, 0},
			{0, -1, 0, true, 0},
			{0, 1, 0, false, 100 * ms},
		}},
		{"sums that would overflow", BucketConfig{Rate: 10, Burst: 3}, []ask{
			{0, math.MaxInt, 0, false, Never},
			{0, math.MaxInt, math.MaxInt, false, Never},
			{0, 1, math.MaxInt, false, Never},
			{0, math.MinInt, math.MaxInt, false, Never},
			{0, 3, 0, true, 300 * ms},
		}},
		{"the slowest", BucketConfig{Rate: 0x1p-20, Burst: 8}, []ask{ // fills in 97 days
			{0, 8, 0, true, age},
			{age - 1, 8, 0, false, 1},
			{age, 8, 0, true, age},
			{2*age - 1, 8, 0, false, 1},
			{2 * age, 8, 0, true, age},
			{3*age - 1, 8, 0, false, 1},
			{3 * age, 8, 0, true, age},
		}},
		{"the fastest", BucketConfig{Rate: 1e9, Burst: 1}, []ask{
			{0, 1, 0, true, 1},
			{0, 1, 0, false, 1},
			{1, 1, 0, true, 1},
			{2, 1, 0, true, 1},
			{2, 1, 0, false, 1},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := mustBucket(t, tc.config)
			for i, a := range tc.asks {
				if got := b.allow(a.at, a.n, a.keep); got != a.want {
					t.Errorf("ask %d, %+v: got %v", i, a, got)
				}
				if got := b.retryAfter(a.at, a.n, a.keep); got != a.wait {
					t.Errorf("ask %d, %+v: retry after %v", i, a, got)
				}
			}
		})
	}
}

// A meter reaches 208 days; what is beyond is counted by its successor, without
// a token more or less.
func TestBucketOutlivesItsMeter(t *testing.T) {
	const century = 100 * 365 * day
	for _, at := range []time.Duration{reach - 1, reach, reach + 1, reach + reach/2 + 1, century, 2 * century, math.MaxInt64 - reach} {
		b := mustBucket(t, BucketConfig{Rate: 1, Burst: 10})
		if !b.allow(at-2*time.Second, 10, 0) {
			t.Fatalf("%v: refused after an idle age", at)
		}
		for second, want := range []float64{2, 3, 4} {
			if got := b.tokens(at + time.Duration(second)*time.Second); math.Abs(got-want) > 1e-6 {
				t.Errorf("%v + %d s: got %v tokens, want %v", at, second, got, want)
			}
		}
		if b.allow(at, 3, 0) || !b.allow(at, 2, 0) || b.allow(at, 1, 0) {
			t.Errorf("%v: not exactly 2 tokens", at)
		}
		if b.allow(0, 1, 0) { // a caller that looked at the clock long ago
			t.Errorf("%v: an old instant is admitted from an empty bucket", at)
		}
		if b.allow(at+time.Second, 2, 0) || !b.allow(at+time.Second, 1, 0) {
			t.Errorf("%v: not exactly 1 token a second later", at)
		}
	}
}

// Instants that no clock tells harm nobody for longer than they say.
func TestAllowAtAnyInstant(t *testing.T) {
	b := mustBucket(t, BucketConfig{Rate: 1, Burst: 4})
	if err := b.Reconfigure(BucketConfig{Rate: 1, Burst: 4}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Unix(math.MinInt64, 0), b.base.Add(-time.Hour)} {
		if !b.AllowAt(at, 1, 0) {
			t.Errorf("%v: refused with tokens left", at)
		}
	}
	if b.AllowAt(time.Time{}, 1, 0) {
		t.Error("admitted from an empty bucket")
	}
	if !b.AllowAt(time.Now().Add(time.Second), 1, 0) {
		t.Error("refused once a token is back")
	}
	future := time.Unix(math.MaxInt32*100, 0)
	if !b.AllowAt(future, 4, 0) || b.AllowAt(future, 1, 0) {
		t.Error("the far future is not a full bucket")
	}
}

// An ideal bucket in exact numbers: tokens that come back at a rate, and no more
// than burst of them.
type ideal struct {
	tokens, rate, burst *big.Rat // rate in tokens a nanosecond
	last                time.Duration
}

// idealOf has the rate that the bucket keeps, which is that of the config or a little less.
func idealOf(m *meter) *ideal {
	burst := new(big.Rat).SetInt64(int64(m.config.Burst))
	return &ideal{tokens: burst, burst: burst, rate: big.NewRat(1<<unitBits, m.token)}
}

func (i *ideal) allow(now time.Duration, n, keep int) bool {
	elapsed := new(big.Rat).SetInt64(int64(now - i.last))
	i.last = now
	grown := new(big.Rat).Add(i.tokens, elapsed.Mul(elapsed, i.rate))
	if grown.Cmp(i.burst) > 0 {
		grown = i.burst
	}
	i.tokens = grown
	left := new(big.Rat).Sub(grown, new(big.Rat).SetInt64(int64(n)))
	if left.Cmp(new(big.Rat).SetInt64(int64(keep))) < 0 {
		return false
	}
	i.tokens = left
	return true
}

func randomConfig(rng *rand.Rand) BucketConfig {
	rate := math.Pow(10, rng.Float64()*12-3) // 1 in 1000 s to 1e9 a second
	return BucketConfig{Rate: rate, Burst: 1 + rng.IntN(1+int(min(rate*60, 300)))}
}

// Every decision is that of the ideal bucket: no rounding adds up (REQ-D3).
// RetryAfter is exact to the nanosecond.
func TestBucketAgainstTheIdeal(t *testing.T) {
	for seed := range rounds(t, 300) {
		rng := rand.New(rand.NewPCG(2, uint64(seed)))
		b := mustBucket(t, randomConfig(rng))
		m := b.meter.Load()
		model := idealOf(m)
		token := float64(m.token) / (1 << unitBits)
		var now time.Duration
		for range 300 {
			now += time.Duration(rng.ExpFloat64() * token * []float64{0, 0.5, 1, 3}[rng.IntN(4)])
			n, keep := rng.IntN(4), rng.IntN(3)
			if n+keep > m.config.Burst {
				continue
			}
			wait := b.retryAfter(now, n, keep)
			if rng.IntN(4) == 0 && wait > 0 && now < reach/2 {
				if b.allow(now+wait-1, n, keep) {
					t.Fatalf("seed %d: admitted 1 ns before RetryAfter, %v", seed, wait)
				}
				now += wait
				wait = 0
			}
			got, want := b.allow(now, n, keep), model.allow(now, n, keep)
			if got != want || got != (wait == 0) {
				t.Fatalf("seed %d, %+v at %v: AllowKeeping(%d, %d) is %v, ideal %v, RetryAfter %v",
					seed, m.config, now, n, keep, got, want, wait)
			}
			ideal, _ := model.tokens.Float64()
			if got := b.tokens(now); math.Abs(got-ideal) > 1e-9*(1+ideal) {
				t.Fatalf("seed %d: %v tokens, ideal %v", seed, got, ideal)
			}
		}
	}
}

// The rate that is kept is never above the one that was asked for, and nearly it.
func TestTokenUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	rates := []float64{1e9, 999999999, 1e9 / 3, 200, 3, 7, 1e6, 0.1, 1.0 / 3, 1 / maxFill.Seconds()}
	for range rounds(t, 20_000) {
		rates = append(rates, math.Exp(rng.Float64()*36.8-16)) // 1.1e-7 to 1e9
	}
	exact := new(big.Float).SetPrec(200)
	for _, rate := range rates {
		units := tokenUnits(rate)
		got := exact.Mul(new(big.Float).SetInt64(units), big.NewFloat(rate))
		if got.Cmp(big.NewFloat(unitsPerSecond)) < 0 {
			t.Errorf("rate %v: a token in %d units is faster than that", rate, units)
		}
		over, _ := got.Quo(got, big.NewFloat(unitsPerSecond)).Float64()
		if over-1 > rate/unitsPerSecond+0x1p-51 {
			t.Errorf("rate %v: kept to within %g", rate, over-1)
		}
	}
	if got := tokenUnits(200); got != 5_000_000<<unitBits {
		t.Errorf("rate 200: a token in %d units", got)
	}
}

// A free-form rate, burst and sequence of calls, against the ideal bucket.
func FuzzBucket(f *testing.F) {
	f.Add(200.0, 200, []byte{1, 0, 50, 9, 200, 255, 3, 3})
	f.Add(1e9, 1, []byte{0, 0, 1, 1})
	f.Add(1e-7, 1, []byte{255, 255})
	f.Fuzz(func(t *testing.T, rate float64, burst int, steps []byte) {
		b, err := NewBucket(BucketConfig{Rate: rate, Burst: burst})
		if err != nil || len(steps) > 500 {
			return
		}
		m := b.meter.Load()
		model := idealOf(m)
		var now time.Duration
		for _, s := range steps {
			// Eight steps of time, up to 2 tokens; up to 7 tokens; up to 3 to keep.
			now += time.Duration(float64(m.token) / (1 << unitBits) * float64(s>>5) / 3.5)
			if now >= reach {
				return // its successor rounds once: TestBucketOutlivesItsMeter
			}
			n, keep := int(s&7), int(s>>3&3)
			if got, want := b.allow(now, n, keep), model.allow(now, n, keep); got != want {
				t.Fatalf("%+v at %v: AllowKeeping(%d, %d) is %v, ideal %v", m.config, now, n, keep, got, want)
			}
		}
	})
}

// The methods without an instant look at the clock.
func TestBucketOnTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustBucket(t, BucketConfig{})
		if got := b.Tokens(); got != 200 { // REQ-D3
			t.Errorf("a new bucket: got %v tokens, want 200", got)
		}
		if !b.AllowN(198) || !b.Allow() || b.AllowKeeping(1, 1) || !b.AllowKeeping(1, 0) || b.Allow() {
			t.Error("not exactly 200 admitted at once")
		}
		if got := b.RetryAfter(1, 0); got != 5*ms {
			t.Errorf("retry after: got %v, want 5ms", got)
		}
		time.Sleep(5 * ms)
		if !b.AllowAt(time.Now(), 1, 0) || b.Allow() {
			t.Error("not exactly 1 admitted after 5 ms")
		}
		time.Sleep(30 * day)
		if !b.AllowN(200) || b.Allow() {
			t.Error("not exactly 200 admitted after an idle month")
		}
	})
}

func TestBucketReconfigure(t *testing.T) { // REQ-D9
	for _, tc := range []struct {
		name     string
		from, to BucketConfig
		take     int
		want     float64 // tokens after it
		wantFull time.Duration
	}{
		{"faster", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 100, Burst: 10}, 4, 6, 40 * ms},
		{"slower", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 1, Burst: 10}, 4, 6, 4 * time.Second},
		{"larger burst adds none", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 10, Burst: 100}, 0, 10, 9 * time.Second},
		{"smaller burst", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 10, Burst: 5}, 4, 5, 0},
		{"smaller burst, less there", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 10, Burst: 5}, 8, 2, 300 * ms},
		{"empty stays empty", BucketConfig{Rate: 10, Burst: 10}, BucketConfig{Rate: 1000, Burst: 1000}, 10, 0, time.Second},
		{"far apart", BucketConfig{Rate: 1e9, Burst: 1e9}, BucketConfig{Rate: 1e-6, Burst: 5}, 0, 5, 0},
		{"far apart, back", BucketConfig{Rate: 1e-6, Burst: 5}, BucketConfig{Rate: 1e9, Burst: 1e9}, 2, 3, time.Second - 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := mustBucket(t, tc.from)
				b.AllowN(tc.take)
				if err := b.Reconfigure(tc.to); err != nil {
					t.Fatal(err)
				}
				if got := b.Tokens(); math.Abs(got-tc.want) > 1e-6 {
					t.Errorf("tokens: got %v, want %v", got, tc.want)
				}
				if got := b.RetryAfter(tc.to.Burst, 0); (got - tc.wantFull).Abs() > 1 {
					t.Errorf("full after: got %v, want %v", got, tc.wantFull)
				}
			})
		})
	}
}

// A fraction of a token is a part of the fill too, and a refused config changes nothing.
func TestBucketReconfigureKeepsFractions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustBucket(t, BucketConfig{Rate: 1, Burst: 2})
		b.AllowN(2)
		time.Sleep(750 * ms)
		wantErrors(t, b.Reconfigure(BucketConfig{Rate: -1, Burst: -1}), "Rate is -1", "Burst is -1")
		for range 100 {
			if err := b.Reconfigure(BucketConfig{Rate: 1, Burst: 2}); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.RetryAfter(1, 0); got != 250*ms {
			t.Errorf("a token is back after %v, want 250ms", got)
		}
	})
}

// Who meets a closed meter goes on with its successor, and does not bring the old settings back.
func TestClosedMeterKeepsItsSuccessor(t *testing.T) {
	b := mustBucket(t, BucketConfig{Rate: 1, Burst: 2})
	old := b.meter.Load()
	want := BucketConfig{Rate: 5, Burst: 7}
	if err := b.Reconfigure(want); err != nil {
		t.Fatal(err)
	}
	if got := old.take(0, 1, 0); got != moved {
		t.Errorf("a closed meter: got %v, want moved", got)
	}
	if got := b.successor(old, 0).config; got != want {
		t.Errorf("settings: got %+v, want %+v", got, want)
	}
}

// Tokens owed until a later instant are not turned into tokens that are there.
func TestReconfigureWithTokensOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := mustBucket(t, BucketConfig{Rate: 1, Burst: 5})
		if !b.AllowAt(time.Now().Add(time.Hour), 5, 0) || b.Tokens() != 0 {
			t.Fatalf("%v tokens", b.Tokens())
		}
		if got := b.RetryAfter(1, 0); got != time.Hour+time.Second {
			t.Errorf("retry after: got %v, want an hour and a second", got)
		}
		if err := b.Reconfigure(BucketConfig{Rate: 1, Burst: 5}); err != nil {
			t.Fatal(err)
		}
		if got := b.RetryAfter(1, 0); b.Tokens() != 0 || got != time.Second {
			t.Errorf("%v tokens, retry after %v; want none, and a second", b.Tokens(), got)
		}
	})
}

func TestConvert(t *testing.T) {
	for _, tc := range []struct{ level, token, to, size, want int64 }{
		{0, 7, 9, 90, 0},
		{7, 7, 9, 90, 9},
		{10, 7, 9, 90, 12}, // 12.86
		{700, 7, 9, 90, 90},
		{1 << 61, 1 << 61, 256, 1 << 40, 256},
		{1 << 61, 256, 1 << 61, 1 << 61, 1 << 61}, // the quotient is 2^114
		{1 << 60, 256, 1 << 11, 1 << 61, 1 << 61}, // 2^63
	} {
		if got := convert(tc.level, tc.token, tc.to, tc.size); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}

// A token that is no whole number of units is rounded up in use too: no call more than Burst + Rate * t.
func TestBucketRoundsAgainstTheCaller(t *testing.T) {
	b := mustBucket(t, BucketConfig{Rate: 3e8, Burst: 1000})
	const span = ms
	admitted := 0
	for now := range span + 1 {
		if b.allow(now, 1, 0) {
			admitted++
		}
	}
	if most := 1000 + 3e8*span.Seconds(); float64(admitted) > most || float64(admitted) < most*0.99 {
		t.Errorf("admitted in %v: got %d, want at most %v and nearly as many", span, admitted, most)
	}
}
