package replica_test

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/replica"
)

// REQ-D7: a load of several statements is as stale as the stalest of them.
func TestReadInfoOfSeveralStatements(t *testing.T) {
	base := time.Now()
	one := func(at, hi time.Duration, late bool) replica.ReadInfo {
		return replica.ReadInfo{Node: "r1", PickedAt: base.Add(at), Hi: hi, Late: late, Unverified: late}
	}
	got := one(time.Second, 100*time.Millisecond, false)
	got.Merge(replica.ReadInfo{})
	if want := one(time.Second, 100*time.Millisecond, false); got != want {
		t.Errorf("the first: got %+v, want %+v", got, want)
	}
	got.Merge(one(0, 3*time.Second, true))
	if want := one(time.Second, 4*time.Second, true); got != want {
		t.Errorf("after a late one: got %+v, want %+v", got, want)
	}
	got.Merge(one(0, replica.Never, false))
	if !got.Late || got.Hi != replica.Never || !got.Current().IsZero() {
		t.Errorf("after an unbounded one: got %+v", got)
	}
	got = replica.ReadInfo{Primary: true, PickedAt: base}
	got.Merge(one(0, time.Second, false))
	if got.Primary || got.Hi != time.Second {
		t.Errorf("the primary after a replica: got %+v", got)
	}
}
