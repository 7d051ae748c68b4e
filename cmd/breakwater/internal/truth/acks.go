// Package truth knows what the lab's writer was told to be committed, and when, so
// that the age of an answer is measured from the data and not from the library's
// own estimate of lag.
//
// # Concurrency
//
// All methods of Acks may be called from any goroutine.
package truth

import (
	"sync"
	"time"
)

// kept is how many acknowledgements are remembered: 21 minutes of 50 commits/s.
const kept = 1 << 16

// Acks remembers when each value of the rising counter was acknowledged. Times are
// offsets on one monotonic clock. The zero value is ready to use.
type Acks struct {
	mu struct {
		sync.Mutex
		at     [kept]time.Duration // of value n at n % kept
		newest int64               // 0: none yet
	}
}

// Add records that value n, the one after the last, was acknowledged at t.
func (a *Acks) Add(n int64, t time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.at[n%kept] = t
	a.mu.newest = n
}

// Newest is the newest acknowledged value, 0 before the first.
func (a *Acks) Newest() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.newest
}

// Age is how stale an answer with value n was at the instant t: t less the time at
// which the oldest commit that it lacks was acknowledged, 0 if it lacks none that
// was acknowledged before t. Older than what is remembered counts as the oldest
// remembered commit, 21 minutes at the least.
func (a *Acks) Age(n int64, t time.Duration) time.Duration {
	missing, ok := a.At(n + 1)
	if !ok {
		return 0
	}
	return max(0, t-missing)
}

// At is when value n was acknowledged; false if it was not yet.
func (a *Acks) At(n int64) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = max(n, a.mu.newest-kept+1, 1)
	if n > a.mu.newest {
		return 0, false
	}
	return a.mu.at[n%kept], true
}
