package emittest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

func testSettle(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("delivered", low), letter("failed", low), letter("untouched", low), letter("parked", low))
	poison := letter("poison", low)
	poison.NotBefore = base.Add(-time.Hour)
	putAll(t, d, poison)
	c := claim(t, d, emit.Filter{}, 5)
	at := base.Add(time.Second)
	settle(t, d,
		emit.Settlement{Seq: c[0].Seq, Delivered: true, Attempt: emit.Attempt{At: at}},
		emit.Settlement{Seq: c[1].Seq, Attempt: emit.Attempt{At: at, Err: "no"}, Reason: emit.ReasonFailed, NotBefore: base.Add(time.Hour)},
		emit.Settlement{Seq: c[2].Seq},
		emit.Settlement{Seq: c[3].Seq, Attempt: emit.Attempt{At: at, Err: "never"}, Reason: emit.ReasonRejected, Park: true},
		emit.Settlement{Seq: c[4].Seq, Reason: emit.ReasonPoison, Park: true},
	)
	got := list(t, d, emit.Filter{})
	wantIDs(t, "left", ids(got), "failed untouched parked poison")
	wants := []emit.Letter{
		{Reason: emit.ReasonFailed, Attempts: 1, Last: []emit.Attempt{{At: at, Err: "no"}}, NotBefore: base.Add(time.Hour)},
		{Reason: emit.ReasonOpen},
		{Reason: emit.ReasonRejected, Attempts: 1, Last: []emit.Attempt{{At: at, Err: "never"}}, Parked: true},
		{Reason: emit.ReasonPoison, Parked: true, NotBefore: poison.NotBefore},
	}
	for i := range wants {
		want := &wants[i]
		want.Seq, want.Consumer, want.Priority, want.Trigger, want.StoredAt = c[i+1].Seq, consumer, low, c[i+1].Trigger, base
		sameLetter(t, "settled", got[i], *want)
	}
}

func testSettlePassesOver(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low), letter("b", low))
	c := claim(t, d, emit.Filter{}, 1)
	waiting := list(t, d, emit.Filter{})[1]
	settle(t, d, emit.Settlement{Seq: 1 << 50, Delivered: true}, emit.Settlement{Seq: waiting.Seq, Delivered: true})
	if err := d.Settle(t.Context(), "other", []emit.Settlement{{Seq: c[0].Seq, Delivered: true}}); err != nil {
		t.Errorf("Settle of another consumer's letter: %v", err)
	}
	wantIDs(t, "left", ids(list(t, d, emit.Filter{})), "a b")
	settle(t, d, emit.Settlement{Seq: c[0].Seq, Delivered: true}, emit.Settlement{Seq: c[0].Seq, Delivered: true})
	wantIDs(t, "left", ids(list(t, d, emit.Filter{})), "b")
}

// testAttempts: the newest are kept, and all are counted.
func testAttempts(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low))
	var want []emit.Attempt
	for i := range emit.KeptAttempts + 2 {
		c := claim(t, d, emit.Filter{}, 1)
		a := emit.Attempt{At: base.Add(time.Duration(i) * time.Second), Err: fmt.Sprint("no ", i)}
		settle(t, d, emit.Settlement{Seq: c[0].Seq, Attempt: a})
		want = append(want, a)
	}
	got := list(t, d, emit.Filter{})[0]
	if got.Attempts != len(want) || len(got.Last) != emit.KeptAttempts {
		t.Fatalf("%d attempts, %d of them kept; want %d and %d", got.Attempts, len(got.Last), len(want), emit.KeptAttempts)
	}
	for i, a := range want[2:] {
		if got := got.Last[i]; got.Err != a.Err || !got.At.Equal(a.At) {
			t.Errorf("attempt %d: %+v; want %+v", i, got, a)
		}
	}
	c := claim(t, d, emit.Filter{}, 1)
	settle(t, d, emit.Settlement{Seq: c[0].Seq, Attempt: emit.Attempt{At: base, Err: strings.Repeat("x", 5000)}})
	if last := list(t, d, emit.Filter{})[0].Last; len(last[len(last)-1].Err) > 500 {
		t.Errorf("%d bytes of an error are kept; want 500 at most", len(last[len(last)-1].Err))
	}
}

func testParked(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	parked := letter("a", low)
	parked.Parked, parked.Reason = true, emit.ReasonRejected
	other := keyed("b", "k", low)
	other.Parked = true
	putAll(t, d, parked, other, letter("c", low))
	wantIDs(t, "claimed", ids(claim(t, d, emit.Filter{Parked: new(true)}, 10)), "c")
	wantIDs(t, "parked", ids(list(t, d, emit.Filter{Parked: new(true)})), "a b")
	wantIDs(t, "not parked", ids(list(t, d, emit.Filter{Parked: new(false)})), "c")
	if depth := d.Depths()[consumer]; depth.Letters != 3 || depth.Parked != 2 {
		t.Errorf("Depths: %+v; want 3 letters, 2 of them parked", depth)
	}
	if n, err := d.Unpark(t.Context(), consumer, emit.Filter{Key: "k"}); n != 1 || err != nil {
		t.Errorf("Unpark: %d, %v; want 1", n, err)
	}
	if n, err := d.Unpark(t.Context(), "other", emit.Filter{}); n != 0 || err != nil {
		t.Errorf("Unpark of another consumer's: %d, %v; want 0", n, err)
	}
	wantIDs(t, "claimed after Unpark", ids(claim(t, d, emit.Filter{Now: base}, 10)), "b")
	if depth := d.Depths()[consumer]; depth.Letters != 3 || depth.Parked != 1 {
		t.Errorf("Depths after Unpark: %+v; want 3 letters, 1 of them parked", depth)
	}
}

func testDiscard(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	parked := letter("parked", low)
	parked.Parked = true
	putAll(t, d, letter("claimed", never), letter("low", low), letter("high", high), parked)
	c := claim(t, d, emit.Filter{}, 1)
	if n, err := d.Discard(t.Context(), "other", emit.Filter{}); n != 0 || err != nil {
		t.Errorf("Discard of another consumer's: %d, %v; want 0", n, err)
	}
	if n, err := d.Discard(t.Context(), consumer, emit.Filter{Priorities: []int{high}}); n != 1 || err != nil {
		t.Errorf("Discard of priority 1: %d, %v; want 1", n, err)
	}
	if n, err := d.Discard(t.Context(), consumer, emit.Filter{}); n != 2 || err != nil {
		t.Errorf("Discard of all: %d, %v; want the 2 that are not claimed", n, err)
	}
	wantIDs(t, "left", ids(list(t, d, emit.Filter{})), "claimed")
	settle(t, d, emit.Settlement{Seq: c[0].Seq, Delivered: true})
	if depth := d.Depths()[consumer]; depth.Letters != 0 || depth.Bytes != 0 || depth.Parked != 0 || !depth.Oldest.IsZero() {
		t.Errorf("Depths of an empty store: %+v", depth)
	}
}

func testLetters(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	var want []string
	for i := range 300 {
		id := fmt.Sprint("l", i)
		putAll(t, d, letter(id, i%3))
		want = append(want, id)
	}
	claim(t, d, emit.Filter{}, 3)
	all := list(t, d, emit.Filter{})
	wantIDs(t, "all", ids(all), strings.Join(want, " "))
	wantIDs(t, "after the 298th", ids(list(t, d, emit.Filter{After: all[297].Seq})), "l298 l299")
	var first []string
	for l, err := range d.Letters(t.Context(), consumer, emit.Filter{}) {
		if err != nil || len(first) == 2 {
			break
		}
		if len(first) == 0 { // it must not hold up the others
			putAll(t, d, letter("meanwhile", low))
			giveBack(t, d, claim(t, d, emit.Filter{}, 1))
		}
		first = append(first, l.Trigger.ID)
	}
	wantIDs(t, "until the reader breaks off", first, "l0 l1")
}

func testDepths(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	if got := d.Depths()[consumer]; got.Letters != 0 {
		t.Errorf("of an empty store: %+v", got)
	}
	other := letter("other", low)
	other.Consumer = "other"
	young := letter("young", low)
	young.StoredAt = base.Add(time.Minute)
	putAll(t, d, letter("old", low), letter("old too", never), other, young)
	got := d.Depths()
	if got["other"].Letters != 1 {
		t.Errorf("of the other consumer: %+v; want 1 letter", got["other"])
	}
	depth := got[consumer]
	for len(depth.ByPriority) > 0 && depth.ByPriority[len(depth.ByPriority)-1] == 0 {
		depth.ByPriority = depth.ByPriority[:len(depth.ByPriority)-1]
	}
	if depth.Letters != 3 || depth.Bytes < 60 || !reflect.DeepEqual(depth.ByPriority, []int{1, 0, 2}) || !depth.Oldest.Equal(base) {
		t.Errorf("%+v; want 3 letters of priorities [1 0 2], the oldest of %v", depth, base)
	}
	c := claim(t, d, emit.Filter{}, 2)
	if got := d.Depths()[consumer]; got.Letters != 3 {
		t.Errorf("beside claims: %+v; want them counted", got)
	}
	settle(t, d, emit.Settlement{Seq: c[0].Seq, Delivered: true}, emit.Settlement{Seq: c[1].Seq, Delivered: true})
	if got := d.Depths()[consumer]; got.Letters != 1 || !got.Oldest.Equal(young.StoredAt) {
		t.Errorf("after deliveries: %+v; want one letter of %v", got, young.StoredAt)
	}
}
