package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/limit"
)

// must is for examples only: a program handles the error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Reads that fall back to a primary: so many a second, so many at once.
func Example() {
	rate := must(limit.NewBucket(limit.BucketConfig{Rate: 200, Burst: 200}))
	slots := must(limit.NewBulkhead(limit.BulkheadConfig{Limit: 20}))
	read := func() string {
		slot, ok := slots.Acquire()
		if !ok {
			return "busy"
		}
		defer slot.Release()
		if !rate.Allow() {
			return "over the budget"
		}
		return "from the primary"
	}
	fmt.Println(read())
	// Output: from the primary
}

func ExampleNewBucket() {
	_, err := limit.NewBucket(limit.BucketConfig{Rate: -5, Burst: -1})
	fmt.Println(err)
	// Output:
	// limit: Rate is -5: use a number above 0 and at most 1e9, or 0 for 200
	// limit: Burst is -1: use at least 1, or 0 for as many as come back in a second
}

func ExampleBucket_Allow() {
	b := must(limit.NewBucket(limit.BucketConfig{Rate: 0.01, Burst: 2}))
	for range 3 {
		fmt.Println(b.Allow())
	}
	// Output:
	// true
	// true
	// false
}

// Half of the bucket is for critical calls.
func ExampleBucket_AllowKeeping() {
	b := must(limit.NewBucket(limit.BucketConfig{Rate: 0.01, Burst: 4}))
	for range 3 {
		fmt.Println("ordinary", b.AllowKeeping(1, 2))
	}
	for range 3 {
		fmt.Println("critical", b.Allow())
	}
	// Output:
	// ordinary true
	// ordinary true
	// ordinary false
	// critical true
	// critical true
	// critical false
}

func ExampleBucket_AllowAt() {
	b := must(limit.NewBucket(limit.BucketConfig{Rate: 10, Burst: 1}))
	start := time.Now()
	for _, after := range []time.Duration{0, 99 * time.Millisecond, 100 * time.Millisecond} {
		fmt.Println(after, b.AllowAt(start.Add(after), 1, 0))
	}
	// Output:
	// 0s true
	// 99ms false
	// 100ms true
}

func ExampleBucket_RetryAfter() {
	b := must(limit.NewBucket(limit.BucketConfig{Rate: 0.1, Burst: 1}))
	if b.Allow() && !b.Allow() {
		fmt.Println("retry after", b.RetryAfter(1, 0).Round(time.Second))
	}
	fmt.Println(b.RetryAfter(2, 0) == limit.Never)
	// Output:
	// retry after 10s
	// true
}

func ExampleBucket_Reconfigure() {
	b := must(limit.NewBucket(limit.BucketConfig{Rate: 0.01, Burst: 10}))
	b.AllowN(4)
	err := b.Reconfigure(limit.BucketConfig{Rate: 0.02, Burst: 100})
	fmt.Printf("%v, %.0f tokens\n", err, b.Tokens())
	// Output: <nil>, 6 tokens
}

func ExampleBulkhead_Acquire() {
	b := must(limit.NewBulkhead(limit.BulkheadConfig{Limit: 1}))
	permit, ok := b.Acquire()
	fmt.Println(ok)
	_, ok = b.Acquire()
	fmt.Println(ok)
	permit.Release()
	fmt.Println(b.Stats().InFlight)
	// Output:
	// true
	// false
	// 0
}

func ExampleBulkhead_AcquireWithin() {
	b := must(limit.NewBulkhead(limit.BulkheadConfig{Limit: 1, MaxWaiting: 5}))
	permit := must(b.AcquireWithin(context.Background(), time.Second))
	defer permit.Release()
	_, err := b.AcquireWithin(context.Background(), time.Millisecond)
	fmt.Println(err, errors.Is(err, limit.ErrFull))
	// Output: limit: the bulkhead is full true
}

func ExampleMinBulkhead() {
	fmt.Println(limit.MinBulkhead(500, 10*time.Millisecond))
	// Output: 14
}
