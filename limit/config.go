package limit

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// BucketConfig says how much a [Bucket] admits. The zero value works.
type BucketConfig struct {
	// Rate is how many tokens come back in a second: above 0, at most 1e9.
	// Default: 200 (REQ-D3).
	Rate float64
	// Burst is how many tokens the bucket holds, at least 1. It must fill within
	// 100 days: Burst / Rate is at most 8,640,000. Default: as many as come back
	// in a second, at least 1.
	Burst int
}

// The defaults and the bounds of BucketConfig.
const (
	defaultRate = 200
	maxRate     = 1e9
	maxFill     = 100 * 24 * time.Hour
)

func (c BucketConfig) withDefaults() BucketConfig {
	setDefault(&c.Rate, defaultRate)
	if c.Burst == 0 && c.checkRate() == nil {
		c.Burst = int(max(1, math.Ceil(c.Rate)))
	}
	return c
}

func (c BucketConfig) check() error { return errors.Join(c.checkRate(), c.checkBurst()) }

func (c BucketConfig) checkRate() error {
	if !(c.Rate > 0 && c.Rate <= maxRate) { // NaN too
		return fault("Rate", c.Rate, "use a number above 0 and at most 1e9, or 0 for 200")
	}
	return nil
}

func (c BucketConfig) checkBurst() error {
	switch fill := float64(c.Burst) / c.Rate; {
	case c.Burst < 0:
		return fault("Burst", c.Burst, "use at least 1, or 0 for as many as come back in a second")
	case c.checkRate() == nil && fill > maxFill.Seconds():
		return fault("Burst", c.Burst, fmt.Sprintf(
			"at a Rate of %v the bucket fills in %.0f days; lower Burst or raise Rate until it is at most 100", c.Rate, fill/86400))
	}
	return nil
}

// BulkheadConfig says how many calls a [Bulkhead] lets run and wait. The zero
// value works.
type BulkheadConfig struct {
	// Limit is how many calls may run at once, 1 to 1,048,575; see [MinBulkhead].
	// Default: 20 (REQ-D3).
	Limit int
	// MaxWaiting is how many callers of AcquireWithin may wait at once, at most
	// 1,048,575. Negative: nobody waits. Default: Limit.
	MaxWaiting int
}

const (
	defaultLimit = 20
	maxLimit     = fieldMask // what a field of the word holds
)

func (c BulkheadConfig) withDefaults() BulkheadConfig {
	setDefault(&c.Limit, defaultLimit)
	setDefault(&c.MaxWaiting, min(max(c.Limit, 0), maxLimit))
	c.MaxWaiting = max(c.MaxWaiting, 0)
	return c
}

func (c BulkheadConfig) check() error {
	var errs []error
	if c.Limit < 0 || c.Limit > maxLimit {
		errs = append(errs, fault("Limit", c.Limit, "use 1 to 1048575, or 0 for 20"))
	}
	if c.MaxWaiting > maxLimit {
		errs = append(errs, fault("MaxWaiting", c.MaxWaiting, "use at most 1048575, 0 for Limit, or a negative number for none"))
	}
	return errors.Join(errs...)
}

// MinBulkhead is the Limit below which healthy traffic is refused. Of calls that
// come at random, ratePerSecond of them, and last mean on average, there are
// r = ratePerSecond * mean at once on average, with a standard deviation of √r.
// The result is r + 4√r, rounded up, from 1 to 1,048,575: 14 for 500 calls a
// second of 10 ms. By Erlang's loss formula such a bulkhead, without waiting,
// refuses at most 5 calls in 10,000 from r = 5 on, and 4 in 1,000 from r = 1 on;
// for less traffic use at least 5.
func MinBulkhead(ratePerSecond float64, mean time.Duration) int {
	running := ratePerSecond * mean.Seconds()
	size := math.Ceil(running + 4*math.Sqrt(running))
	if !(size >= 1) { // NaN too
		return 1
	}
	return int(min(size, maxLimit))
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// fault names a field, its value and the mend.
func fault(field string, value any, mend string) error {
	return fmt.Errorf("limit: %s is %v: %s", field, value, mend)
}
