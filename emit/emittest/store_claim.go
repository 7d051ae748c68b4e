package emittest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// full is a letter with every field set that a caller sets.
func full() emit.Letter {
	l := letter("full", high)
	l.Trigger.Subject, l.Trigger.Key, l.Trigger.Priority = "order/7", "customer 7", "normal"
	l.Trigger.Data = []byte{0, 1, 255, 'x'}
	l.Trigger.Attributes = map[string]string{"traceparent": "00-1", "empty": ""}
	l.Reason, l.Attempts = emit.ReasonTimeout, 1
	l.Last = []emit.Attempt{{At: base.Add(time.Second), Err: "it did not answer: ü"}}
	l.NotBefore = base.Add(time.Minute)
	return l
}

// sameLetter compares letters; instants are compared as instants.
func sameLetter(t *testing.T, what string, got, want emit.Letter) {
	t.Helper()
	utc := func(l emit.Letter) emit.Letter {
		l.StoredAt, l.NotBefore, l.Trigger.Time = l.StoredAt.UTC(), l.NotBefore.UTC(), l.Trigger.Time.UTC()
		last := l.Last
		l.Last = nil
		for _, a := range last {
			l.Last = append(l.Last, emit.Attempt{At: a.At.UTC(), Err: a.Err})
		}
		return l
	}
	if got, want := utc(got), utc(want); !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func testFidelity(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	want := full()
	bare := emit.Letter{Consumer: consumer, Trigger: emit.Trigger{ID: "bare", Type: "x"}, Priority: low, StoredAt: base}
	putAll(t, d, want, bare)
	listed, claimed := list(t, d, emit.Filter{}), claim(t, d, emit.Filter{}, 2)
	if len(listed) != 2 || len(claimed) != 2 {
		t.Fatalf("%d letters listed and %d claimed; want 2 of 2", len(listed), len(claimed))
	}
	want.Seq, bare.Seq = listed[0].Seq, listed[1].Seq
	if want.Seq >= bare.Seq {
		t.Errorf("Seq of the first is %d and of the second %d", want.Seq, bare.Seq)
	}
	sameLetter(t, "listed", listed[0], want)
	sameLetter(t, "claimed", claimed[0], want)
	sameLetter(t, "listed, bare", listed[1], bare)
	sameLetter(t, "claimed, bare", claimed[1], bare)
}

func testCopies(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	l, want := full(), full()
	putAll(t, d, l)
	clear(l.Trigger.Data)
	l.Trigger.Attributes["traceparent"] = "changed"
	l.Last[0].Err = "changed"
	got := list(t, d, emit.Filter{})[0]
	want.Seq = got.Seq
	sameLetter(t, "after its caller changed what it had stored", got, want)
	clear(got.Trigger.Data)
	sameLetter(t, "after a reader changed what it had been given", list(t, d, emit.Filter{})[0], want)
}

func testClaimOrder(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	other := letter("other", never)
	other.Consumer = "other"
	putAll(t, d, letter("low0", low), letter("high0", high), other, letter("low1", low), letter("never0", never), letter("high1", high))
	wantIDs(t, "the first two", ids(claim(t, d, emit.Filter{}, 2)), "never0 high0")
	wantIDs(t, "the next two", ids(claim(t, d, emit.Filter{}, 2)), "high1 low0")
	putAll(t, d, letter("never1", never))
	wantIDs(t, "all others", ids(claim(t, d, emit.Filter{}, 10)), "never1 low1")
	wantIDs(t, "of none", ids(claim(t, d, emit.Filter{}, 10)), "")
}

func testClaimsExclude(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low), letter("b", low))
	first := claim(t, d, emit.Filter{}, 1)
	wantIDs(t, "claimed", ids(first), "a")
	wantIDs(t, "claimed beside it", ids(claim(t, d, emit.Filter{}, 5)), "b")
	giveBack(t, d, first)
	again := claim(t, d, emit.Filter{}, 5)
	wantIDs(t, "claimed again", ids(again), "a")
	if len(again) == 1 && (again[0].Attempts != 0 || len(again[0].Last) != 0 || again[0].Seq != first[0].Seq) {
		t.Errorf("a letter that was not tried came back as %+v", again[0])
	}
}

// testFilters asks Claim and Letters the same.
func testFilters(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	letters := []emit.Letter{keyed("a", "k1", low), keyed("b", "k2", high), keyed("c", "k1", high), letter("d", never)}
	for i := range letters {
		l := &letters[i]
		l.StoredAt = base.Add(time.Duration(i) * time.Second)
		if i%2 == 1 {
			l.Trigger.Type, l.Reason = "ping", emit.ReasonBulkhead
		}
	}
	putAll(t, d, letters...)
	after := list(t, d, emit.Filter{})[1].Seq
	cases := []struct {
		what string
		f    emit.Filter
		want string // in the order of Seq, which here is the reverse of the importance
	}{
		{"all", emit.Filter{}, "a b c d"},
		{"types", emit.Filter{Types: []string{"ping", "none"}}, "b d"},
		{"priorities", emit.Filter{Priorities: []int{never, low}}, "a d"},
		{"key", emit.Filter{Key: "k1"}, "a c"},
		{"reasons", emit.Filter{Reasons: []emit.Reason{emit.ReasonBulkhead}}, "b d"},
		{"from", emit.Filter{From: base.Add(time.Second)}, "b c d"},
		{"to", emit.Filter{To: base.Add(2 * time.Second)}, "a b"},
		{"from and to", emit.Filter{From: base.Add(time.Second), To: base.Add(2 * time.Second)}, "b"},
		{"after", emit.Filter{After: after}, "c d"},
		{"several", emit.Filter{Types: []string{"order.paid"}, Priorities: []int{high}, Key: "k1"}, "c"},
		{"none", emit.Filter{Key: "k3"}, ""},
	}
	for i := range cases {
		c := &cases[i]
		wantIDs(t, "Letters by "+c.what, ids(list(t, d, c.f)), c.want)
		claimed := claim(t, d, c.f, 10)
		wantIDs(t, "in some order, Claim by "+c.what, slices.Sorted(slices.Values(ids(claimed))), c.want)
		giveBack(t, d, claimed)
	}
	wantIDs(t, "Claim by key", ids(claim(t, d, emit.Filter{Key: "k1"}, 10)), "c a")
}

func testNotBefore(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	later := letter("later", low)
	later.NotBefore = base.Add(time.Minute)
	putAll(t, d, later, letter("now", low))
	due := claim(t, d, emit.Filter{Now: base.Add(time.Second)}, 10)
	wantIDs(t, "due", ids(due), "now")
	settle(t, d, emit.Settlement{Seq: due[0].Seq, Attempt: emit.Attempt{At: base, Err: "no"}, NotBefore: base.Add(time.Hour)})
	wantIDs(t, "due after a failure", ids(claim(t, d, emit.Filter{Now: base.Add(time.Second)}, 10)), "")
	due = claim(t, d, emit.Filter{Now: base.Add(time.Minute)}, 10)
	wantIDs(t, "due a minute later", ids(due), "later")
	giveBack(t, d, due)
	wantIDs(t, "without Now", ids(claim(t, d, emit.Filter{}, 10)), "later now")
}

func testSkip(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, keyed("a", "k1", low), keyed("b", "k2", low), letter("c", low))
	skip := func(key string) bool {
		if key == "" {
			t.Error(`Skip was asked for the key ""`)
		}
		return key == "k1"
	}
	for _, inOrder := range []bool{false, true} {
		got := claim(t, d, emit.Filter{Skip: skip, InOrder: inOrder}, 10)
		wantIDs(t, "claimed", ids(got), "b c")
		giveBack(t, d, got)
	}
}

// testInOrder: a letter is not claimed before the earlier ones of its key (REQ-E6).
func testInOrder(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	later := keyed("j1", "j", low)
	later.NotBefore = base.Add(time.Hour)
	parked := keyed("p1", "p", low)
	parked.Parked = true
	putAll(t, d, keyed("k1", "k", low), keyed("k2", "k", never), later, keyed("j2", "j", high), parked, keyed("p2", "p", low), letter("a", low), letter("b", high))
	f := emit.Filter{InOrder: true, Now: base}
	first := claim(t, d, f, 10)
	wantIDs(t, "first", ids(first), "k1 p2 a b")
	wantIDs(t, "beside them", ids(claim(t, d, f, 10)), "")
	settle(t, d, emit.Settlement{Seq: first[0].Seq, Attempt: emit.Attempt{At: base, Err: "no"}}, emit.Settlement{Seq: first[1].Seq, Delivered: true})
	wantIDs(t, "after a failure", ids(claim(t, d, f, 10)), "k1")
	settle(t, d, emit.Settlement{Seq: first[0].Seq, Delivered: true})
	second := claim(t, d, f, 10)
	wantIDs(t, "after a delivery", ids(second), "k2")
	f.Priorities, f.Now = []int{high}, base.Add(time.Hour)
	wantIDs(t, "behind one that does not match", ids(claim(t, d, f, 10)), "")
	f.Priorities = nil
	wantIDs(t, "once it is due", ids(claim(t, d, f, 10)), "j1")
}
