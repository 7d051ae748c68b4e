package limit

import (
	"testing"
	"time"
	"unsafe"
)

func TestNoAllocations(t *testing.T) { // as REQ-B3 asks of a breaker
	bucket, dry := wideBucket(t), dryBucket(t)
	bulkhead, full := mustBulkhead(t, BulkheadConfig{}), fullBulkhead(t)
	at := time.Now()
	for _, tc := range []struct {
		name string
		f    func()
	}{
		{"Allow", func() { bucket.Allow() }},
		{"AllowN", func() { bucket.AllowN(3) }},
		{"AllowKeeping", func() { bucket.AllowKeeping(1, 5) }},
		{"AllowAt", func() { bucket.AllowAt(at, 1, 0) }},
		{"refusal", func() { dry.Allow() }},
		{"RetryAfter", func() { dry.RetryAfter(1, 0) }},
		{"Tokens", func() { dry.Tokens() }},
		{"Acquire and Release", func() { acquireAndRelease(bulkhead) }},
		{"AcquireWithin and Release", func() {
			p, _ := bulkhead.AcquireWithin(t.Context(), time.Second)
			p.Release()
		}},
		{"refused Acquire", func() { full.Acquire() }},
		{"refused AcquireWithin", func() { full.AcquireWithin(t.Context(), 0) }},
		{"Stats", func() { full.Stats() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(1000, tc.f); got != 0 {
				t.Errorf("allocations: got %v, want 0", got)
			}
		})
	}
}

// The sizes that the package documentation states.
func TestDocumentedSizes(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want uintptr
	}{
		{"Bucket with its meter", unsafe.Sizeof(Bucket{}) + unsafe.Sizeof(meter{}), 112},
		{"Bulkhead", unsafe.Sizeof(Bulkhead{}), 96},
		{"Permit", unsafe.Sizeof(Permit{}), 16},
	} {
		t.Logf("%s: %d bytes", tc.name, tc.got)
		if tc.got > tc.want {
			t.Errorf("%s: got %d bytes, documented as at most %d", tc.name, tc.got, tc.want)
		}
	}
}
