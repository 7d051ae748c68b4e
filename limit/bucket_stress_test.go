package limit

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An admission is n tokens at an instant.
type admission struct {
	at time.Duration
	n  int
}

// wantBound checks every interval at once: at most burst + rate * t tokens in
// any t. In units: n tokens from i to j are n*token ≤ burst*token + t, so that
// (tokens up to j)*token - t(j) is at most burst*token above any
// (tokens before i)*token - t(i).
func wantBound(t *testing.T, all []admission, token int64, burst int) {
	t.Helper()
	slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.at, b.at) })
	var taken, lowest int64
	for i, a := range all {
		at := int64(a.at) << unitBits
		if before := taken - at; i == 0 || before < lowest {
			lowest = before
		}
		taken += int64(a.n) * token
		if over := taken - at - lowest - int64(burst)*token; over > 0 {
			t.Fatalf("admission %d of %d, at %v: %.3f tokens too many in some interval that ends there", i+1, len(all), a.at, float64(over)/float64(token))
		}
	}
}

// REQ-D3: in any interval at most burst + rate * t, from many goroutines that
// decide later than they looked at the clock.
func TestStressBucketNeverAdmitsTooMuch(t *testing.T) {
	for _, c := range []BucketConfig{{Rate: 1e6, Burst: 1}, {Rate: 3e5, Burst: 7}, {Rate: 12345.678, Burst: 100}} {
		b := mustBucket(t, c)
		var clock atomic.Int64
		var mu sync.Mutex
		var all []admission
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(4, uint64(w)))
				var mine []admission
				for range rounds(t, 20_000) {
					now := time.Duration(clock.Add(rng.Int64N(500)))
					if rng.IntN(16) == 0 {
						runtime.Gosched() // so that now is old
					}
					if n := 1 + rng.IntN(2); b.allow(now, n, rng.IntN(2)) {
						mine = append(mine, admission{now, n})
					}
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			})
		}
		wg.Wait()
		if len(all) < 20 {
			t.Errorf("%+v: only %d admissions", c, len(all))
		}
		t.Logf("%+v: %d admissions in %v", c, len(all), time.Duration(clock.Load()))
		wantBound(t, all, b.meter.Load().token, c.Burst)
	}
}

// And never too little: where more is asked for than there is, all there is is
// admitted, while the settings change and tokens are neither made nor lost.
func TestStressBucketAdmitsAllThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still between the rounds
		configs := []BucketConfig{{Rate: 200, Burst: 100_000}, {Rate: 400, Burst: 1_000_000}, {Rate: 100, Burst: 200_000}}
		b := mustBucket(t, configs[0])
		for round, want := range []int64{100_000, 50, 50} {
			var got atomic.Int64
			whileReconfiguring(t, b, configs, func() {
				for range 60_000 {
					if b.Allow() {
						got.Add(1)
					}
				}
			})
			if got.Load() != want {
				t.Errorf("round %d: %d admitted, want %d", round, got.Load(), want)
			}
			time.Sleep(250 * ms)
		}
	})
}

// Whoever reads the bucket in the instant of a Reconfigure sees what it holds.
func TestStressBucketReadWhileReconfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		configs := []BucketConfig{{Rate: 200, Burst: 100}, {Rate: 400, Burst: 1000}}
		b := mustBucket(t, configs[0])
		b.AllowN(50)
		whileReconfiguring(t, b, configs, func() {
			for range rounds(t, 20_000) {
				if tokens, wait := b.Tokens(), b.RetryAfter(50, 0); tokens != 50 || wait != 0 {
					t.Errorf("%v tokens, 50 of them after %v; want 50 at once", tokens, wait)
				}
				if b.AllowN(51) || !b.AllowKeeping(0, 50) {
					t.Error("not exactly 50 tokens")
				}
			}
		})
	})
}

// whileReconfiguring runs f on four goroutines, and ends with the first of configs.
func whileReconfiguring(t *testing.T, b *Bucket, configs []BucketConfig, f func()) {
	t.Helper()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(f)
	}
	var done atomic.Bool
	var changes sync.WaitGroup
	changes.Go(func() {
		for i := 1; i > 0; i++ {
			c := configs[i%len(configs)]
			if err := b.Reconfigure(c); err != nil {
				t.Error(err)
			}
			if i%len(configs) == 0 && done.Load() {
				return
			}
		}
	})
	wg.Wait()
	done.Store(true)
	changes.Wait()
}

// The same at a meter's reach: its successor neither adds nor loses a token.
func TestStressBucketAtItsReach(t *testing.T) {
	for range rounds(t, 500) {
		b := mustBucket(t, BucketConfig{Rate: 1, Burst: 100})
		b.allow(reach-time.Second, 100, 0)
		var got atomic.Int64
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for now := reach - time.Second; now < reach+9*time.Second; now += 500 * ms {
					if b.allow(now+time.Duration(w), 1, 0) {
						got.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got.Load() > 9 {
			t.Fatalf("%d admitted in 9.5 s at 1 a second from an empty bucket", got.Load())
		}
	}
}
