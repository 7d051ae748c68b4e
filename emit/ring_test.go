package emit_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

func newRing(tb testing.TB, c emit.RingConfig) *emit.Ring {
	tb.Helper()
	r, err := emit.NewRing(c)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestRingConfigFaults(t *testing.T) {
	_, err := emit.NewRing(emit.RingConfig{Letters: -1, Bytes: 5, Reserved: 7})
	if err == nil {
		t.Fatal("a RingConfig full of faults was taken")
	}
	for _, want := range []string{"Letters is -1", "Bytes is 5", "Reserved is 7"} {
		if !contains(err, want) {
			t.Errorf("%v; want it to name %q", err, want)
		}
	}
}

// TestRingAppendAllocatesNothing: into room that is there, and into a full ring (REQ-E5).
func TestRingAppendAllocatesNothing(t *testing.T) {
	r := newRing(t, emit.RingConfig{Letters: 2000, Bytes: 2 << 20, Reserved: -1})
	l := emit.Letter{
		Consumer: "a", Priority: 1, Reason: emit.ReasonOpen, StoredAt: time.Now(), Attempts: 1, Last: []emit.Attempt{{At: time.Now(), Err: "no"}},
		Trigger: emit.Trigger{ID: "1", Type: "order.paid", Key: "k", Data: make([]byte, 700), Attributes: map[string]string{"a": "b"}},
	}
	stored := 0
	appendOne := func() {
		if _, err := r.Append(t.Context(), l); err == nil {
			stored++
		}
	}
	if n := testing.AllocsPerRun(1000, appendOne); n != 0 || stored != 1001 {
		t.Errorf("%v allocations per Append, %d stored; want 0 and 1001", n, stored)
	}
	if n := testing.AllocsPerRun(2000, appendOne); n != 0 || stored != 2000 {
		t.Errorf("%v allocations per Append into a full ring, %d stored; want 0 and 2000", n, stored)
	}
}

// TestRingUsesItsRoomAgain: nothing leaks of the arena over many rounds of letters of all sizes.
func TestRingUsesItsRoomAgain(t *testing.T) {
	r := newRing(t, emit.RingConfig{Letters: 50, Bytes: 64 << 10, Reserved: -1})
	for round := range 200 {
		for i := range 40 {
			l := emit.Letter{Consumer: "a", Priority: i % 3, Trigger: emit.Trigger{ID: strconv.Itoa(i), Type: "x", Data: make([]byte, (i*round*37)%3000)}}
			if _, err := r.Append(t.Context(), l); err != nil && !errors.Is(err, emit.ErrFull) && !errors.Is(err, emit.ErrBackPressure) {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			letters, _ := r.Claim(t.Context(), "a", emit.Filter{}, 10)
			for _, l := range letters {
				_ = r.Settle(t.Context(), "a", []emit.Settlement{{Seq: l.Seq, Delivered: true}})
			}
		}
		if _, err := r.Discard(t.Context(), "a", emit.Filter{}); err != nil {
			t.Fatal(err)
		}
		if d := r.Depths()["a"]; d.Letters != 0 || d.Bytes != 0 {
			t.Fatalf("round %d leaves %+v", round, d)
		}
	}
	if _, err := r.Append(t.Context(), emit.Letter{Consumer: "a", Trigger: emit.Trigger{Type: "x", Data: make([]byte, 65000)}}); err != nil {
		t.Errorf("a letter of the whole ring after many rounds: %v", err)
	}
}
