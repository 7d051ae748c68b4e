package emittest_test

import (
	"testing"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/emittest"
)

func TestRing(t *testing.T) {
	emittest.DeadLetters(t, emittest.Store{Open: func(t *testing.T, c emittest.StoreConfig) emit.DeadLetters {
		t.Helper()
		r := emit.RingConfig{Letters: c.Letters, Bytes: c.Bytes, Reserved: c.Reserved}
		if r.Reserved == 0 {
			r.Reserved = -1
		}
		if r.Letters > 0 && r.Letters < 16 {
			r.Bytes = 64 << 10
		}
		ring, err := emit.NewRing(r)
		if err != nil {
			t.Fatal(err)
		}
		return ring
	}})
}
