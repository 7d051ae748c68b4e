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
		configs := []BucketConfig{{Rate: 200, Burst: 100}, {Rate: 400, Burst: 1000}, {Rate: 100, Burst: 200}}
		b := mustBucket(t, configs[0])
		for round, want := range []int64{100, 50, 50, 50, 50} {
			var got atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range rounds(t, 1000) {
						if b.Allow() {
							got.Add(1)
						}
					}
				})
				wg.Go(func() {
					for i := range rounds(t, 200) {
						if err := b.Reconfigure(configs[i%len(configs)]); err != nil {
							t.Error(err)
						}
						b.Tokens()
						b.RetryAfter(1, 0)
					}
				})
			}
			wg.Wait()
			if got.Load() != want {
				t.Errorf("round %d: %d admitted, want %d", round, got.Load(), want)
			}
			if err := b.Reconfigure(configs[0]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(250 * ms)
		}
	})
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
