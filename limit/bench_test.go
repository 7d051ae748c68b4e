package limit

import (
	"sync/atomic"
	"testing"
	"time"
)

// The floor is one atomic load and one atomic add, on lines of their own.
// Ratios are to be taken to the floors of the same run.
type floor struct {
	word atomic.Uint64
	_    [128]byte
	cell atomic.Uint64
	_    [128]byte
}

func (f *floor) touch() {
	if f.word.Load() == 0 {
		f.cell.Add(1)
	}
}

// wideBucket never runs dry.
func wideBucket(tb testing.TB) *Bucket {
	tb.Helper()
	return mustBucket(tb, BucketConfig{Rate: 1e9, Burst: 1e9})
}

// dryBucket refuses for the next hour.
func dryBucket(tb testing.TB) *Bucket {
	tb.Helper()
	b := mustBucket(tb, BucketConfig{Rate: 1.0 / 3600, Burst: 1})
	b.Allow()
	return b
}

func fullBulkhead(tb testing.TB) *Bulkhead {
	tb.Helper()
	b := mustBulkhead(tb, BulkheadConfig{Limit: 1})
	b.Acquire()
	return b
}

func BenchmarkSerial(b *testing.B) {
	bucket, dry := wideBucket(b), dryBucket(b)
	bulkhead, full := mustBulkhead(b, BulkheadConfig{}), fullBulkhead(b)
	base, f := time.Now(), new(floor)
	b.Run("op=floor", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.touch()
		}
	})
	b.Run("op=clock", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			time.Since(base)
		}
	})
	b.Run("op=floor_and_clock", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			time.Since(base)
			f.touch()
		}
	})
	b.Run("op=allow", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bucket.Allow()
		}
	})
	b.Run("op=allow_at", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bucket.allow(time.Hour, 1, 0)
		}
	})
	b.Run("op=allow_keeping", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			bucket.AllowKeeping(1, 100)
		}
	})
	b.Run("op=allow/refused=true", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dry.Allow()
		}
	})
	b.Run("op=retry_after", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			dry.RetryAfter(1, 0)
		}
	})
	b.Run("op=acquire_release", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p, _ := bulkhead.Acquire()
			p.Release()
		}
	})
	b.Run("op=acquire_within_release", func(b *testing.B) {
		b.ReportAllocs()
		ctx := b.Context()
		for b.Loop() {
			p, _ := bulkhead.AcquireWithin(ctx, time.Second)
			p.Release()
		}
	})
	b.Run("op=acquire/refused=true", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			full.Acquire()
		}
	})
}

// BenchmarkParallel has controls with words for each goroutine: where even
// these do not scale, other work shares the processors.
func BenchmarkParallel(b *testing.B) {
	shared, bucket := new(floor), wideBucket(b)
	dry, bulkhead := dryBucket(b), mustBulkhead(b, BulkheadConfig{})
	for _, tc := range []struct {
		name string
		make func() func()
	}{
		{"op=floor/private=true", func() func() { return new(floor).touch }},
		{"op=floor", func() func() { return shared.touch }},
		{"op=allow/private=true", func() func() {
			mine := wideBucket(b)
			return func() { mine.Allow() }
		}},
		{"op=allow", func() func() { return func() { bucket.Allow() } }},
		{"op=allow/refused=true", func() func() { return func() { dry.Allow() } }},
		{"op=acquire_release/private=true", func() func() {
			mine := mustBulkhead(b, BulkheadConfig{})
			return func() { acquireAndRelease(mine) }
		}},
		{"op=acquire_release", func() func() { return func() { acquireAndRelease(bulkhead) } }},
	} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				op := tc.make()
				for pb.Next() {
					op()
				}
			})
		})
	}
}

func acquireAndRelease(b *Bulkhead) {
	p, ok := b.Acquire()
	if ok {
		p.Release()
	}
}
