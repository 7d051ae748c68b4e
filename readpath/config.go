package readpath

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/limit"
)

// Config sets up a Router. Zero fields take their defaults.
type Config struct {
	// Backend runs the reads. Required; it cannot be changed later.
	Backend Backend
	// Endpoints are the reads of the program by name, each with its class (REQ-D2). Default: none.
	Endpoints map[string]Endpoint
	// DefaultClass is that of a read whose endpoint is not registered; such reads are
	// counted. Default: none, they fail with ErrUnknownEndpoint.
	DefaultClass Class
	// Budget bounds fall-back reads on the primary. Default: each field's own.
	Budget Budget
	// Critical, Degradable and Sheddable say what the classes do while degraded. Default: each field's own.
	Critical   CriticalPolicy
	Degradable DegradablePolicy
	Sheddable  SheddablePolicy
	// Recovery says how the replicas are given back. Default: each field's own.
	Recovery Recovery
	// Cache holds what normal reads returned, for degradable reads. It cannot be changed later.
	// Default: none.
	Cache Cache
	// Observer is told what happens. Default: nobody.
	Observer Observer
}

// Endpoint is one kind of read.
type Endpoint struct {
	// Class is how critical it is. Required.
	Class Class
	// Default is the answer of a degradable or sheddable read for which there is nothing
	// else; its type must be that of the read. All callers get the same value: they must not change it. nil: a degradable read gets the zero value, flagged
	// stale, a sheddable one is refused.
	Default any
}

// Budget bounds what falls back to the primary: in any interval of t seconds at most Burst +
// Rate × t reads begin, and at most Concurrent run at once (REQ-D3). It is per process: where n
// processes share the primary, each gets an n-th.
type Budget struct {
	// Rate is in reads a second, above 0. Default: 200.
	Rate float64
	// Burst is at least 1. Default: 200.
	Burst int
	// Concurrent is at least 1. With pgxread no more than the connections of the primary's pool for reads help. Default: 20.
	Concurrent int
	// CriticalShare is the share of Burst that is kept for critical reads, from 0 to below 1;
	// negative: none. Default: 0.5.
	CriticalShare float64
	// Processes divides Rate, Burst and Concurrent, each rounded up to at least 1. Default: 1.
	Processes int
}

// CriticalPolicy is for reads that are fresh or fail (REQ-D4).
type CriticalPolicy struct {
	// MaxStaleness is the bound up to which data counts as fresh. Default: 2s.
	MaxStaleness time.Duration
	// RetryAfter is told with a refusal, and up to half of it more. Default: 2s.
	RetryAfter time.Duration
}

// DegradablePolicy is for reads that may be old (REQ-D5).
type DegradablePolicy struct {
	// MaxStaleness is the bound in Normal. Default: 0, the replica set's limit.
	MaxStaleness time.Duration
	// MaxAge is the oldest answer from the cache. Default: 5m.
	MaxAge time.Duration
	// LateReplicas is the greatest age up to which a late replica that answers may serve what the cache does not have, before
	// the primary is asked; the answer is flagged stale with its age. A replica that has caught up goes on serving, not
	// flagged, until the class is given back. Default: 0, none does.
	LateReplicas time.Duration
	// MaxWait is how long a read waits for the loader of its key at the primary. Default: 250ms.
	MaxWait time.Duration
	// LoadTimeout ends a loader, which outlives the caller who started it. Default: 2s.
	LoadTimeout time.Duration
}

// SheddablePolicy is for reads that may be dropped (REQ-D6).
type SheddablePolicy struct {
	// MaxStaleness is the bound in Normal. Default: 0, the replica set's limit.
	MaxStaleness time.Duration
	// RetryAfter is told with a refusal, and up to half of it more. Default: 5s.
	RetryAfter time.Duration
}

// Recovery says how the replicas are given back to the classes (REQ-D8).
type Recovery struct {
	// Order names every class once. Default: Critical, Degradable, Sheddable.
	Order []Class
	// Sustain is how long a replica must have been eligible without a break before the
	// next class is given back. Default: 30s.
	Sustain time.Duration
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) withDefaults() Config {
	c.Budget = c.Budget.withDefaults()
	setDefault(&c.Critical.MaxStaleness, 2*time.Second)
	setDefault(&c.Critical.RetryAfter, 2*time.Second)
	setDefault(&c.Degradable.MaxAge, 5*time.Minute)
	setDefault(&c.Degradable.MaxWait, 250*time.Millisecond)
	setDefault(&c.Degradable.LoadTimeout, 2*time.Second)
	setDefault(&c.Sheddable.RetryAfter, 5*time.Second)
	if len(c.Recovery.Order) == 0 {
		c.Recovery.Order = []Class{Critical, Degradable, Sheddable}
	}
	c.Recovery.Order = slices.Clone(c.Recovery.Order)
	setDefault(&c.Recovery.Sustain, 30*time.Second)
	return c
}

func (b Budget) withDefaults() Budget {
	setDefault(&b.Rate, 200)
	setDefault(&b.Burst, 200)
	setDefault(&b.Concurrent, 20)
	setDefault(&b.CriticalShare, 0.5)
	setDefault(&b.Processes, 1)
	b.CriticalShare = max(b.CriticalShare, 0)
	return b
}

// check returns every fault of a Config with its defaults, joined.
func (c Config) check() error {
	errs := []error{c.Budget.check(), c.checkEndpoints(), c.Recovery.check(), c.checkDurations()}
	if c.Backend == nil {
		errs = append(errs, fault("Backend", "nil", "give that of the driver, such as pgxread's DB.Backend()"))
	}
	if c.DefaultClass != 0 && !c.DefaultClass.valid() {
		errs = append(errs, fault("DefaultClass", c.DefaultClass, "use Critical, Degradable, Sheddable, or 0 for none"))
	}
	return errors.Join(errs...)
}

func (c Config) checkEndpoints() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Endpoints)) {
		e := c.Endpoints[name]
		field := fmt.Sprintf("Endpoints[%q]", name)
		if name == "" {
			errs = append(errs, fault("Endpoints", `""`, "give each endpoint a name"))
		}
		if !e.Class.valid() {
			errs = append(errs, fault(field+".Class", e.Class, "say how critical it is: Critical, Degradable or Sheddable"))
		}
		if e.Class == Critical && e.Default != nil {
			errs = append(errs, fault(field+".Default", e.Default, "a critical read is fresh or fails; remove it"))
		}
	}
	return errors.Join(errs...)
}

func (b Budget) check() error {
	var errs []error
	if !(b.Rate > 0) {
		errs = append(errs, fault("Budget.Rate", b.Rate, "use reads a second above 0, or 0 for 200"))
	}
	if b.Burst < 1 {
		errs = append(errs, fault("Budget.Burst", b.Burst, "use at least 1, or 0 for 200"))
	}
	if b.Concurrent < 1 {
		errs = append(errs, fault("Budget.Concurrent", b.Concurrent, "use at least 1, or 0 for 20"))
	}
	if !(b.CriticalShare < 1) {
		errs = append(errs, fault("Budget.CriticalShare", b.CriticalShare, "use a share from 0 to below 1"))
	}
	if b.Processes < 1 {
		errs = append(errs, fault("Budget.Processes", b.Processes, "use at least 1, or 0 for 1"))
	}
	if len(errs) == 0 {
		_, err := limit.NewBucket(b.bucket())
		_, err2 := limit.NewBulkhead(b.bulkhead())
		errs = append(errs, err, err2)
	}
	return errors.Join(errs...)
}

func (b Budget) bucket() limit.BucketConfig {
	n := b.Processes
	return limit.BucketConfig{Rate: b.Rate / float64(n), Burst: (b.Burst + n - 1) / n}
}

func (b Budget) bulkhead() limit.BulkheadConfig {
	return limit.BulkheadConfig{Limit: (b.Concurrent + b.Processes - 1) / b.Processes}
}

// kept is how many tokens other than critical reads must leave.
func (b Budget) kept() int { return int(float64(b.bucket().Burst) * b.CriticalShare) }

func (r Recovery) check() error {
	var errs []error
	if r.Sustain < 0 {
		errs = append(errs, fault("Recovery.Sustain", r.Sustain, "use a positive duration, or 0 for 30s"))
	}
	seen := map[Class]int{}
	for i, c := range r.Order {
		field := fmt.Sprintf("Recovery.Order[%d]", i)
		first, twice := seen[c]
		switch {
		case !c.valid():
			errs = append(errs, fault(field, c, "use critical, degradable or sheddable"))
		case twice:
			errs = append(errs, fault(field, c, fmt.Sprintf("Order[%d] is that already; name every class once", first)))
		}
		seen[c] = i
	}
	for c := Critical; c < classes; c++ {
		if _, ok := seen[c]; !ok {
			errs = append(errs, fault("Recovery.Order", r.Order, c.String()+" is missing; name every class once"))
		}
	}
	return errors.Join(errs...)
}

const longestDuration = 365 * 24 * time.Hour

func (c Config) checkDurations() error {
	fields := map[string]time.Duration{
		"Critical.MaxStaleness": c.Critical.MaxStaleness, "Critical.RetryAfter": c.Critical.RetryAfter,
		"Degradable.MaxStaleness": c.Degradable.MaxStaleness, "Degradable.MaxAge": c.Degradable.MaxAge,
		"Degradable.LateReplicas": c.Degradable.LateReplicas, "Degradable.MaxWait": c.Degradable.MaxWait,
		"Degradable.LoadTimeout": c.Degradable.LoadTimeout, "Sheddable.MaxStaleness": c.Sheddable.MaxStaleness,
		"Sheddable.RetryAfter": c.Sheddable.RetryAfter, "Recovery.Sustain": max(c.Recovery.Sustain, 0),
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if d := fields[name]; d < 0 || d > longestDuration {
			errs = append(errs, fault(name, d, fmt.Sprintf("use a duration from 0 to %v", longestDuration)))
		}
	}
	return errors.Join(errs...)
}
