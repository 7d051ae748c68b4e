package limit

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Never is what [Bucket.RetryAfter] returns where no wait helps.
const Never time.Duration = math.MaxInt64

// A Bucket admits at most Burst + Rate * t calls in any interval of t seconds,
// without exception: after an idle month, from many goroutines, and where a clock
// goes back (REQ-D3). A call's instant is that at which it looked at the clock.
// Make it with [NewBucket]; it must not be copied. It starts full.
//
// It counts in 1/256 ns and rounds against the caller: a token comes back at most
// 1/256 ns late. So the Rate is kept to within Rate / 256e9 of itself from below,
// which is 4 parts in a million at a million a second; no error adds up beyond
// that.
type Bucket struct {
	base  time.Time             // immutable after NewBucket; instants below are durations since it
	meter atomic.Pointer[meter] // replaced only under mu
	mu    sync.Mutex            // held while a meter is replaced
}

// A meter is a bucket under one configuration. Its word, full, is the instant at
// which the bucket will be full if nobody takes any more (in the literature: the
// theoretical arrival time of GCRA, the generic cell rate algorithm), in units
// since base:
//
//	in the past     the bucket is full
//	in the future   a token is missing for each m.token of it, at most size
//	closed          for good: another meter is in use, or will be at once
//
// Legal changes: to a later instant, by the compare-and-swap of an admitted call;
// once to closed, under Bucket.mu. A clock that goes back makes a call see more
// missing than there is, so it errs towards refusing.
type meter struct {
	full   atomic.Int64
	base   time.Duration // since Bucket.base
	token  int64         // units in which one token comes back, rounded up
	size   int64         // units in which the empty bucket fills: config.Burst of token
	config BucketConfig  // with its defaults
}

// A unit is 1/256 ns. Sums stay within an int64: an instant is below 2^62 units
// (reach), or up to 2^62 + 2^61 where it is clamped; size is at most 2^61 (100
// days, see maxFill), and n and keep tokens together are no more than size. So
// full never passes 2^62 + 2^61: a closed meter is above each, and admits nobody.
const (
	unitBits       = 8
	unitsPerSecond = 1e9 * (1 << unitBits)
	reach          = time.Duration(1) << (62 - unitBits)
	closed         = 1<<62 + 1<<61 + 1
)

// NewBucket makes a full bucket. The error names every fault of the config.
func NewBucket(c BucketConfig) (*Bucket, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	b := &Bucket{base: time.Now()}
	b.meter.Store(newMeter(c, 0))
	return b, nil
}

// newMeter makes a full meter.
func newMeter(c BucketConfig, base time.Duration) *meter {
	token := tokenUnits(c.Rate)
	return &meter{base: base, token: token, size: int64(c.Burst) * token, config: c}
}

// tokenUnits is the smallest number of units, as a float64 can tell it, in which
// no more than one token comes back. The sign of a fused multiply-add is exact,
// that of a quotient is not.
func tokenUnits(rate float64) int64 {
	units := math.Ceil(unitsPerSecond / rate)
	if math.FMA(units, rate, -unitsPerSecond) < 0 {
		units = max(units+1, math.Nextafter(units, math.Inf(1)))
	}
	return int64(units)
}

// Allow takes a token if there is one.
func (b *Bucket) Allow() bool { return b.allow(time.Since(b.base), 1, 0) }

// AllowN takes n tokens if there are so many, else none. It takes none and reports
// true where n is 0 or negative; more than Burst are never there.
func (b *Bucket) AllowN(n int) bool { return b.allow(time.Since(b.base), n, 0) }

// AllowKeeping takes n tokens if at least keep are left then, else none: with
// keep, callers who can do without leave a share of the bucket to those who
// cannot. A negative keep is 0.
func (b *Bucket) AllowKeeping(n, keep int) bool { return b.allow(time.Since(b.base), n, keep) }

// AllowAt is AllowKeeping at an instant that the caller names, for tests and for
// callers who have looked at the clock already. An instant before NewBucket or the
// newest Reconfigure counts as that one; one in the future owes its tokens until
// then, or until the next Reconfigure.
func (b *Bucket) AllowAt(at time.Time, n, keep int) bool {
	return b.allow(max(at.Sub(b.base), 0), n, keep)
}

// allow ends: each further turn needs a meter replaced since the turn before.
func (b *Bucket) allow(now time.Duration, n, keep int) bool {
	n, keep = max(n, 0), max(keep, 0)
	m := b.meter.Load()
	for {
		switch m.take(now, n, keep) {
		case admitted:
			return true
		case refused:
			return false
		default:
			m = b.successor(m, now)
		}
	}
}

// A verdict is what a meter says of a call.
type verdict uint8

const (
	admitted verdict = iota
	refused
	moved // the meter is closed, or now is out of its reach: ask its successor
)

// take ends: each further turn needs a call that was admitted since the turn
// before, and of these the bucket itself admits only so many.
func (m *meter) take(now time.Duration, n, keep int) verdict {
	if now-m.base >= reach {
		return moved
	}
	if n > m.config.Burst-keep {
		return refused
	}
	at := m.instant(now)
	cost, kept := int64(n)*m.token, int64(keep)*m.token
	for {
		full := m.full.Load()
		next := max(full, at) + cost
		if next+kept > at+m.size {
			return refusedBy(full)
		}
		if m.full.CompareAndSwap(full, next) {
			return admitted
		}
	}
}

func refusedBy(full int64) verdict {
	if full == closed {
		return moved
	}
	return refused
}

// instant is now in units since m.base. Where now is far out of reach it stops at
// an instant that is later than full can be.
func (m *meter) instant(now time.Duration) int64 {
	return int64(min(max(now-m.base, 0), reach+reach/2)) << unitBits
}

// successor is the meter that takes over from m at now.
func (b *Bucket) successor(m *meter, now time.Duration) *meter {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.meter.Load() == m {
		b.replaceLocked(m.config, func() time.Duration { return now })
	}
	return b.meter.Load()
}

// replaceLocked closes the meter and puts one in its place that holds as many
// tokens. The clock is looked at after the close: it is then no earlier than the
// instant of any call that the closed meter admitted.
func (b *Bucket) replaceLocked(c BucketConfig, clock func() time.Duration) {
	old := b.meter.Load()
	full := old.full.Swap(closed)
	now := clock()
	m := newMeter(c, now)
	m.full.Store(m.size - convert(max(old.level(now, full), 0), old.token, m.token, m.size))
	b.meter.Store(m)
}

// level is what the bucket holds at now, in units: below 0 where now is before the
// instant of a call that was admitted.
func (m *meter) level(now time.Duration, full int64) int64 {
	return m.size - max(full-m.instant(now), 0)
}

// convert is a level in units of another token, rounded down, at most size.
func convert(level, token, to, size int64) int64 {
	hi, lo := bits.Mul64(uint64(level), uint64(to))
	if hi >= uint64(token) {
		return size // the quotient would not fit: far above it
	}
	q, _ := bits.Div64(hi, lo, uint64(token))
	return int64(min(q, uint64(size)))
}

// state is the meter in use and its word, which is not closed.
func (b *Bucket) state(now time.Duration) (m *meter, full int64) {
	m = b.meter.Load()
	for full = m.full.Load(); full == closed; full = m.full.Load() {
		m = b.successor(m, now)
	}
	return m, full
}

// Tokens is how many tokens there are, 0 to Burst.
func (b *Bucket) Tokens() float64 { return b.tokens(time.Since(b.base)) }

func (b *Bucket) tokens(now time.Duration) float64 {
	m, full := b.state(now)
	return float64(max(m.level(now, full), 0)) / float64(m.token)
}

// RetryAfter is how long to wait until AllowKeeping(n, keep) succeeds, if nobody
// else takes a token before: 0 if it would now, and [Never] if n and keep together
// are more than Burst. Add jitter before telling it to clients.
func (b *Bucket) RetryAfter(n, keep int) time.Duration {
	return b.retryAfter(time.Since(b.base), n, keep)
}

func (b *Bucket) retryAfter(now time.Duration, n, keep int) time.Duration {
	n, keep = max(n, 0), max(keep, 0)
	m, full := b.state(now)
	if n > m.config.Burst-keep {
		return Never
	}
	missing := int64(n+keep)*m.token - m.level(now, full)
	return time.Duration(max(missing+1<<unitBits-1, 0) >> unitBits)
}

// Reconfigure changes rate and size of a running bucket (REQ-D9). The tokens that
// are there stay, as far as the new Burst holds them, and none are added: a larger
// Burst fills at the new Rate. An interval across the change is bounded by the
// larger Burst and Rate. The error names every fault; nothing has changed then.
func (b *Bucket) Reconfigure(c BucketConfig) error {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replaceLocked(c, func() time.Duration { return time.Since(b.base) })
	return nil
}
