package emittest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// bound is that of a store which is bounded in bytes.
const bound = 4 << 20

const (
	never = iota // priority 0
	high
	low
)

// testBounds is T6 of docs/behaviours-emit.md: a bound of 10 of which 3 are for priority 0 (REQ-E4).
func testBounds(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Letters: 10, Reserved: 3})
	var shed, evicted []string
	for i := range 10 {
		if got, err := d.Append(t.Context(), letter(fmt.Sprint("low", i), low)); err != nil {
			wantErr(t, "a letter over the bound", err, emit.ErrFull)
			shed = append(shed, fmt.Sprint("low", i))
		} else {
			evicted = append(evicted, ids(got)...)
		}
	}
	wantIDs(t, "shed", shed, "low7 low8 low9") // their callers are told
	wantIDs(t, "evicted by their like", evicted, "")
	for i := range 5 {
		evicted = append(evicted, put(t, d, letter(fmt.Sprint("high", i), high))...)
	}
	wantIDs(t, "evicted by high ones", evicted, "low0 low1 low2 low3 low4")
	evicted = nil
	for i := range 10 {
		evicted = append(evicted, put(t, d, letter(fmt.Sprint("never", i), never))...)
	}
	wantIDs(t, "evicted by those that are never shed", evicted, "low5 low6 high0 high1 high2 high3 high4")
	for range 3 {
		got, err := d.Append(t.Context(), letter("one more", never))
		wantErr(t, "one more that is never shed", err, emit.ErrBackPressure)
		wantIDs(t, "evicted by it", ids(got), "")
	}
	_, err := d.Append(t.Context(), letter("another", low))
	wantErr(t, "a low one beside them", err, emit.ErrFull)
	wantIDs(t, "kept", ids(list(t, d, emit.Filter{})), "never0 never1 never2 never3 never4 never5 never6 never7 never8 never9")

	first := claim(t, d, emit.Filter{}, 1)
	settle(t, d, emit.Settlement{Seq: first[0].Seq, Delivered: true})
	wantIDs(t, "evicted where there is room again", put(t, d, letter("one more", never)), "")
}

// testEvictionOrder: the least important first and the oldest first among those, whosever they are.
func testEvictionOrder(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Letters: 6})
	other := letter("c-other", 3)
	other.Consumer = "other"
	parked := letter("e-parked", 3)
	parked.Parked = true
	putAll(t, d, letter("a", 1), letter("b", 2), other, letter("d", 2), parked, letter("f", 1))
	var evicted []string
	for i := range 6 {
		evicted = append(evicted, put(t, d, letter(strconv.Itoa(i), never))...)
	}
	wantIDs(t, "evicted", evicted, "c-other e-parked b d a f")
}

func testClaimedStay(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Letters: 3})
	putAll(t, d, letter("a", low), letter("b", low), letter("c", low))
	claimed := claim(t, d, emit.Filter{}, 2)
	wantIDs(t, "claimed", ids(claimed), "a b")
	wantIDs(t, "evicted", put(t, d, letter("d", never)), "c")
	_, err := d.Append(t.Context(), letter("e", high))
	wantErr(t, "Append where all less important ones are claimed", err, emit.ErrFull)
	_, err = d.Append(t.Context(), letter("e", never))
	wantErr(t, "the same of priority 0", err, emit.ErrBackPressure)
	giveBack(t, d, claimed)
	wantIDs(t, "evicted once they are given back", put(t, d, letter("f", never)), "a")
}

// testShedEvictsNothing: a letter that does not fit although all that is less important went, evicts none of it.
func testShedEvictsNothing(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Bytes: bound})
	fill(t, d, 32<<10, high)
	one := claim(t, d, emit.Filter{}, 1)
	settle(t, d, emit.Settlement{Seq: one[0].Seq, Delivered: true})
	small := letter("small", low)
	if _, err := d.Append(t.Context(), small); err != nil {
		t.Fatalf("Append into the room of a letter that is gone: %v", err)
	}
	before := len(list(t, d, emit.Filter{}))
	large := sized("large", 256<<10, high)
	evicted, err := d.Append(t.Context(), large)
	wantErr(t, "Append of a letter for which there is no room", err, emit.ErrFull)
	if after := len(list(t, d, emit.Filter{})); len(evicted) > 0 || after != before {
		t.Errorf("a letter that was shed evicted %v and left %d letters of %d", ids(evicted), after, before)
	}
}

func testReserved(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Letters: 8, Reserved: 2})
	for i := range 6 {
		putAll(t, d, letter(strconv.Itoa(i), low))
	}
	_, err := d.Append(t.Context(), letter("6", low))
	wantErr(t, "Append into reserved room", err, emit.ErrFull)
	putAll(t, d, letter("never0", never), letter("never1", never))
	wantIDs(t, "evicted beyond the reserve", put(t, d, letter("never2", never)), "0")
}

func sized(id string, size, priority int) emit.Letter {
	l := letter(id, priority)
	l.Trigger.Data = bytes.Repeat([]byte("x"), size)
	return l
}

// fill appends letters of a size until the store sheds one, and returns how many it took.
func fill(t *testing.T, d emit.DeadLetters, size, priority int) (n int) {
	t.Helper()
	for ; n < 1_000_000; n++ {
		if _, err := d.Append(t.Context(), sized(fmt.Sprint("fill", n), size, priority)); err != nil {
			if !errors.Is(err, emit.ErrFull) && !errors.Is(err, emit.ErrBackPressure) {
				t.Fatalf("Append into a full store: %v", err)
			}
			return n
		}
	}
	t.Fatal("a million letters fit into a store with a bound in bytes")
	return n
}

// testBytes: letters that are never shed push others out, the oldest first, as many as they need and not many more.
func testBytes(t *testing.T, s Store) {
	t.Helper()
	const size = 32 << 10
	d := open(t, s, StoreConfig{Bytes: bound})
	n := fill(t, d, size, low)
	if n == 0 || n > bound/size {
		t.Errorf("%d letters of %d bytes fit into %d bytes", n, size, bound)
	}
	if depth := d.Depths()[consumer]; depth.Letters != n || depth.Bytes < int64(n)*size {
		t.Errorf("Depths: %+v; want %d letters of %d bytes or more", depth, n, size)
	}
	var evicted []string
	for i := 0; len(evicted) == 0 && i < bound/size; i++ {
		evicted = put(t, d, sized(fmt.Sprint("never", i), 3*size, never))
	}
	if len(evicted) == 0 || len(evicted) > 16 || evicted[0] != "fill0" {
		t.Errorf("a letter of %d bytes evicted %v; want the oldest, as many as it needs", 3*size, evicted)
	}
}

func testTooLarge(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{Bytes: bound})
	putAll(t, d, letter("a", low))
	evicted, err := d.Append(t.Context(), sized("large", 2*bound, never))
	wantErr(t, "Append of more than the store holds", err, emit.ErrTooLarge)
	wantIDs(t, "evicted by it", ids(evicted), "")
	wantIDs(t, "left", ids(list(t, d, emit.Filter{})), "a")
}
