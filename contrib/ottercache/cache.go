// Package ottercache is a stale cache for readpath on otter, which evicts by W-TinyLFU: a
// stream of keys that come once does not push out those that come again.
//
//	cache, err := ottercache.New(ottercache.Config{MaxEntries: 100_000})
//	router, err := readpath.New(readpath.Config{Cache: cache, …})
//
// # Concurrency
//
// All methods of a [Cache] may be called at any time from any goroutine. With a MaxAge a Cache has one
// goroutine, otter's, until Close.
package ottercache

import (
	"errors"
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/breakwater-go/breakwater/readpath"
)

// Config says what a Cache holds. A bound is required: exactly one of the first two.
type Config struct {
	// MaxEntries is how many answers it holds, at least 1. Default: MaxWeight is the bound.
	MaxEntries int
	// MaxWeight is what Weigh may add up to, at least 1. Default: MaxEntries is the bound.
	MaxWeight uint64
	// Weigh is the weight of an answer, in bytes, say; 0 counts as 1. Called concurrently. Required with MaxWeight, else nil.
	Weigh func(readpath.CacheKey, readpath.Entry) uint32
	// MaxAge drops what was put in so long ago. Default: 1h; negative: never. What a read accepts is
	// readpath's DegradablePolicy.MaxAge, counted from the moment for which the answer is known to be current.
	MaxAge time.Duration
}

const defaultMaxAge = time.Hour

// A Cache is a [readpath.Cache]. Make it with [New].
type Cache struct {
	entries *otter.Cache[readpath.CacheKey, readpath.Entry]
}

var _ readpath.Cache = (*Cache)(nil)

// New makes an empty cache. The error names every fault of the Config.
func New(c Config) (*Cache, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	o := &otter.Options[readpath.CacheKey, readpath.Entry]{MaximumSize: c.MaxEntries, MaximumWeight: c.MaxWeight}
	if c.Weigh != nil {
		o.Weigher = func(k readpath.CacheKey, e readpath.Entry) uint32 { return max(c.Weigh(k, e), 1) } // otter does not evict what weighs nothing
	}
	if c.MaxAge == 0 {
		c.MaxAge = defaultMaxAge
	}
	if c.MaxAge > 0 {
		o.ExpiryCalculator = otter.ExpiryWriting[readpath.CacheKey, readpath.Entry](c.MaxAge)
	}
	entries, err := otter.New(o)
	if err != nil {
		return nil, fmt.Errorf("ottercache: %w", err)
	}
	return &Cache{entries}, nil
}

func (c Config) check() error {
	var errs []error
	if (c.MaxEntries == 0) == (c.MaxWeight == 0) {
		errs = append(errs, fault("MaxEntries", c.MaxEntries, "bound the cache: set this or MaxWeight, one of the two"))
	}
	if c.MaxEntries < 0 {
		errs = append(errs, fault("MaxEntries", c.MaxEntries, "use at least 1"))
	}
	if (c.MaxWeight > 0) != (c.Weigh != nil) {
		errs = append(errs, fault("MaxWeight", c.MaxWeight, "set it and Weigh together"))
	}
	return errors.Join(errs...)
}

func fault(field string, value any, mend string) error {
	return fmt.Errorf("ottercache: %s is %v: %s", field, value, mend)
}

// Get returns the answer of a key.
func (c *Cache) Get(key readpath.CacheKey) (readpath.Entry, bool) { return c.entries.GetIfPresent(key) }

// Set keeps an answer, unless one is there that is known to be current for a later moment: of two
// readers the slower one must not put the older answer back.
func (c *Cache) Set(key readpath.CacheKey, e readpath.Entry) {
	c.entries.Compute(key, func(old readpath.Entry, ok bool) (readpath.Entry, otter.ComputeOp) {
		if ok && old.Current.After(e.Current) {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// Close ends otter's background goroutine, which drops what is too old. The cache can still be used, and
// then drops it when it is full.
func (c *Cache) Close() { c.entries.StopAllGoroutines() }

// Len is about how many answers it holds.
func (c *Cache) Len() int { return c.entries.EstimatedSize() }
