package emittest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// StoreConfig is what the suite asks of a store that it has opened.
type StoreConfig struct {
	// Letters is how many it holds; 0: any number from 1,000 on.
	Letters int
	// Reserved is how many of them are for priority 0 only.
	Reserved int
	// Bytes is what it holds in all, about; 0: any number from 4 MiB on.
	Bytes int64
}

// A Store is what the suite needs to know of a kind of store.
type Store struct {
	// Open makes an empty store; the suite closes it. Required.
	Open func(t *testing.T, c StoreConfig) emit.DeadLetters
	// Reopen ends a store that Open or Reopen made, and opens what it left: after Close, or with crash as if its
	// process had been killed. Default: the store keeps nothing beyond its end.
	Reopen func(t *testing.T, s emit.DeadLetters, crash bool) emit.DeadLetters
}

// DeadLetters runs the contract of emit.DeadLetters.
func DeadLetters(t *testing.T, s Store) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, Store)
	}{
		{"bounds", testBounds},
		{"eviction order", testEvictionOrder},
		{"claimed letters are not evicted", testClaimedStay},
		{"shed without evicting", testShedEvictsNothing},
		{"reserved room", testReserved},
		{"bytes are bounded", testBytes},
		{"too large", testTooLarge},
		{"what is stored comes back", testFidelity},
		{"append copies", testCopies},
		{"claim order", testClaimOrder},
		{"claims are exclusive", testClaimsExclude},
		{"filters", testFilters},
		{"not before", testNotBefore},
		{"skip", testSkip},
		{"order per key", testInOrder},
		{"settle", testSettle},
		{"settle passes over", testSettlePassesOver},
		{"attempts", testAttempts},
		{"parked", testParked},
		{"discard", testDiscard},
		{"letters", testLetters},
		{"depths", testDepths},
		{"context ended", testContextEnded},
		{"closed", testClosed},
		{"concurrency", testConcurrency},
		{"reopen", testReopen},
		{"crash", testCrash},
		{"sequence goes on", testSequenceGoesOn},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, s) })
	}
}

// base is an instant that every store can keep.
var base = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC) //nolint:gochecknoglobals // a constant that the language has no word for

const consumer = "billing"

func open(t *testing.T, s Store, c StoreConfig) emit.DeadLetters {
	t.Helper()
	d := s.Open(t, c)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// letter is one of consumer, with a payload of 20 bytes.
func letter(id string, priority int) emit.Letter {
	return emit.Letter{
		Consumer: consumer, Priority: priority, Reason: emit.ReasonOpen, StoredAt: base,
		Trigger: emit.Trigger{ID: id, Type: "order.paid", Source: "shop", Time: base, ContentType: "application/json", Data: fmt.Appendf(nil, "{%018q}", id)},
	}
}

func keyed(id, key string, priority int) emit.Letter {
	l := letter(id, priority)
	l.Trigger.Key = key
	return l
}

// put appends a letter that must be stored, and returns the IDs of those that were evicted.
func put(t *testing.T, d emit.DeadLetters, l emit.Letter) []string {
	t.Helper()
	evicted, err := d.Append(t.Context(), l)
	if err != nil {
		t.Fatalf("Append(%s): %v", l.Trigger.ID, err)
	}
	return ids(evicted)
}

func putAll(t *testing.T, d emit.DeadLetters, letters ...emit.Letter) {
	t.Helper()
	for i := range letters {
		if evicted := put(t, d, letters[i]); len(evicted) > 0 {
			t.Fatalf("Append(%s) evicted %v; want nothing", letters[i].Trigger.ID, evicted)
		}
	}
}

func ids(letters []emit.Letter) []string {
	var out []string
	for i := range letters {
		out = append(out, letters[i].Trigger.ID)
	}
	return out
}

func claim(t *testing.T, d emit.DeadLetters, f emit.Filter, n int) []emit.Letter {
	t.Helper()
	letters, err := d.Claim(t.Context(), consumer, f, n)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	return letters
}

func settle(t *testing.T, d emit.DeadLetters, results ...emit.Settlement) {
	t.Helper()
	if err := d.Settle(t.Context(), consumer, results); err != nil {
		t.Fatalf("Settle: %v", err)
	}
}

// giveBack settles claims as not tried.
func giveBack(t *testing.T, d emit.DeadLetters, letters []emit.Letter) {
	t.Helper()
	var results []emit.Settlement
	for i := range letters {
		results = append(results, emit.Settlement{Seq: letters[i].Seq})
	}
	settle(t, d, results...)
}

func list(t *testing.T, d emit.DeadLetters, f emit.Filter) []emit.Letter {
	t.Helper()
	var letters []emit.Letter
	for l, err := range d.Letters(t.Context(), consumer, f) {
		if err != nil {
			t.Fatalf("Letters: %v", err)
		}
		letters = append(letters, l)
	}
	return letters
}

// wantIDs compares with IDs in one word: "a b c".
func wantIDs(t *testing.T, what string, got []string, want string) {
	t.Helper()
	if !slices.Equal(got, strings.Fields(want)) {
		t.Errorf("%s: %v; want [%s]", what, got, want)
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v; want an error that matches %q", what, err, want)
	}
}
