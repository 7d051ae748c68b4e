package limit

import (
	"strings"
	"testing"
)

func mustBucket(tb testing.TB, c BucketConfig) *Bucket {
	tb.Helper()
	b, err := NewBucket(c)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func mustBulkhead(tb testing.TB, c BulkheadConfig) *Bulkhead {
	tb.Helper()
	b, err := NewBulkhead(c)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// rounds is n, fewer under -short.
func rounds(t *testing.T, n int) int {
	t.Helper()
	if testing.Short() {
		return n / 10
	}
	return n
}

// wantErrors checks that err holds one line for each of want, in order.
func wantErrors(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %q", want)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d faults, want %d:\n%v", len(lines), len(want), err)
	}
	for i, w := range want {
		if !strings.Contains(lines[i], w) {
			t.Errorf("fault %d: got %q, want %q in it", i+1, lines[i], w)
		}
	}
}
