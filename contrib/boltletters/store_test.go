package boltletters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// small is a Store that never does anything by itself.
func small(dir string) Config {
	return Config{Dir: dir, MaxBytes: 8 * mib, IdleAfter: -1, Check: CheckFile}
}

func open(t *testing.T, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.config)
}

func letter(consumer string, priority int, id string) emit.Letter {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	return emit.Letter{
		Consumer: consumer, Priority: priority, Reason: emit.ReasonOpen, StoredAt: at,
		Trigger: emit.Trigger{ID: id, Type: "order.paid", Time: at, Data: []byte(`{"id":"` + id + `"}`)},
	}
}

func add(t *testing.T, s *Store, letters ...emit.Letter) {
	t.Helper()
	for i := range letters {
		if _, err := s.Append(t.Context(), letters[i]); err != nil {
			t.Fatal(err)
		}
	}
}

func ids(letters []emit.Letter) []string {
	got := []string{}
	for i := range letters {
		got = append(got, letters[i].Trigger.ID)
	}
	return got
}

func list(t *testing.T, s *Store, consumer string, f emit.Filter) []emit.Letter {
	t.Helper()
	var letters []emit.Letter
	for l, err := range s.Letters(t.Context(), consumer, f) {
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, l)
	}
	return letters
}

func claim(t *testing.T, s *Store, consumer string, f emit.Filter, n int) []emit.Letter {
	t.Helper()
	letters, err := s.Claim(t.Context(), consumer, f, n)
	if err != nil {
		t.Fatal(err)
	}
	return letters
}

func wantIDs(t *testing.T, letters []emit.Letter, want ...string) {
	t.Helper()
	if got := ids(letters); !slices.Equal(got, append([]string{}, want...)) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A letter comes back as it was stored, also after a restart (REQ-E7), whatever it holds.
func TestLetterComesBack(t *testing.T) {
	s := open(t, small(t.TempDir()))
	zone := time.FixedZone("", 5400)
	want := emit.Letter{
		Consumer: "a", Priority: 3, Reason: emit.ReasonRejected, StoredAt: time.Unix(1, 2).UTC(), Attempts: 7, Parked: true,
		NotBefore: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), Last: []emit.Attempt{{At: time.Unix(3, 4).UTC(), Err: "no"}, {}},
		Trigger: emit.Trigger{
			ID: "1", Type: "t", Source: "s", Subject: "u", Time: time.Date(-5, 1, 2, 3, 4, 5, 6, zone), Key: "k", Priority: "p",
			ContentType: "c", Data: []byte{0, 255}, Attributes: map[string]string{"x": "y", "": ""},
		},
	}
	add(t, s, want, emit.Letter{Consumer: "a"})
	s = reopen(t, s)
	got := list(t, s, "a", emit.Filter{})
	want.Seq = 1
	if w, g := fmt.Sprintf("%#v", want), fmt.Sprintf("%#v", got[0]); !got[0].Trigger.Time.Equal(want.Trigger.Time) || len(g) == 0 || !sameLetter(want, got[0]) {
		t.Errorf("got\n%s, want\n%s", g, w)
	}
	if !got[1].StoredAt.IsZero() || !got[1].NotBefore.IsZero() || got[1].Seq != 2 {
		t.Errorf("got %#v, want zero times", got[1])
	}
}

func sameLetter(a, b emit.Letter) bool {
	at, bt := a.Trigger.Time, b.Trigger.Time
	a.Trigger.Time, b.Trigger.Time = time.Time{}, time.Time{}
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) && at.Format(time.RFC3339Nano) == bt.Format(time.RFC3339Nano)
}

// Claims come back after the Store ended, with an attempt that crashed; settled ones are gone, or wait with their attempts (REQ-E7).
func TestClaimsComeBack(t *testing.T) {
	s := open(t, small(t.TempDir()))
	add(t, s, letter("a", 1, "1"), letter("a", 1, "2"), letter("a", 0, "3"), letter("a", 1, "4"), letter("b", 0, "5"))
	got := claim(t, s, "a", emit.Filter{}, 3)
	wantIDs(t, got, "3", "1", "2")
	wantIDs(t, claim(t, s, "a", emit.Filter{}, 3), "4")
	err := s.Settle(t.Context(), "a", []emit.Settlement{
		{Seq: got[0].Seq, Delivered: true},
		{Seq: got[1].Seq, Attempt: emit.Attempt{At: time.Unix(9, 0), Err: "no"}, Reason: emit.ReasonFailed, NotBefore: time.Unix(50, 0)},
		{Seq: 99},
	})
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, claim(t, s, "a", emit.Filter{Now: time.Unix(49, 0)}, 3))
	s = reopen(t, s)
	wantIDs(t, claim(t, s, "a", emit.Filter{Now: time.Unix(49, 0)}, 3), "2", "4")
	letters := list(t, s, "a", emit.Filter{})
	wantIDs(t, letters, "1", "2", "4")
	if l := letters[0]; l.Attempts != 1 || l.Last[0].Err != "no" || l.Reason != emit.ReasonFailed {
		t.Errorf("settled: got %+v", l)
	}
	for _, l := range letters[1:] {
		if l.Attempts != 1 || len(l.Last) != 1 || l.Last[0].Err != emit.AttemptCrashed || l.Last[0].At.IsZero() {
			t.Errorf("claimed in an earlier life: got %+v", l)
		}
	}
	if d := s.Depths()["a"]; d.Letters != 3 || !slices.Equal(d.ByPriority, []int{0, 3}) {
		t.Errorf("got %+v", d)
	}
}

// Parked letters are not claimed until they are unparked; a filter selects what it says.
func TestParkedAndFilters(t *testing.T) {
	s := open(t, small(t.TempDir()))
	l := letter("a", 1, "1")
	l.Trigger.Key = "k"
	add(t, s, l, letter("a", 2, "2"), letter("a", 2, "3"))
	for _, l := range claim(t, s, "a", emit.Filter{}, 2) {
		if err := s.Settle(t.Context(), "a", []emit.Settlement{{Seq: l.Seq, Park: true, Reason: emit.ReasonPoison}}); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(t, s)
	wantIDs(t, claim(t, s, "a", emit.Filter{}, 9), "3")
	wantIDs(t, list(t, s, "a", emit.Filter{Parked: new(true)}), "1", "2")
	wantIDs(t, list(t, s, "a", emit.Filter{Key: "k"}), "1")
	wantIDs(t, list(t, s, "a", emit.Filter{Reasons: []emit.Reason{emit.ReasonOpen}, After: 1}), "3")
	wantIDs(t, list(t, s, "a", emit.Filter{Types: []string{"other"}}))
	if n, err := s.Unpark(t.Context(), "a", emit.Filter{Priorities: []int{2}}); n != 1 || err != nil {
		t.Errorf("unparked %d, %v", n, err)
	}
	wantIDs(t, claim(t, s, "a", emit.Filter{}, 9), "2")
	if n, err := s.Discard(t.Context(), "a", emit.Filter{}); n != 1 || err != nil {
		t.Errorf("discarded %d, %v: want the parked one, the others are claimed", n, err)
	}
	if d := s.Depths()["a"]; d.Letters != 2 || d.Parked != 0 {
		t.Errorf("got %+v", d)
	}
}

// In order, a letter holds later ones of its key back (REQ-E6).
func TestClaimInOrder(t *testing.T) {
	s := open(t, small(t.TempDir()))
	keyed := func(p int, key, id string) emit.Letter {
		l := letter("a", p, id)
		l.Trigger.Key = key
		return l
	}
	add(t, s, keyed(2, "k", "k1"), keyed(0, "k", "k2"), keyed(1, "m", "m1"), keyed(1, "", "x"), keyed(1, "m", "m2"))
	order := emit.Filter{InOrder: true}
	first := claim(t, s, "a", order, 1)
	wantIDs(t, first, "k1")
	wantIDs(t, claim(t, s, "a", order, 2), "m1", "x")
	wantIDs(t, claim(t, s, "a", order, 9))
	if err := s.Settle(t.Context(), "a", []emit.Settlement{{Seq: first[0].Seq, Attempt: emit.Attempt{Err: "x"}, NotBefore: time.Unix(9, 0)}}); err != nil {
		t.Fatal(err)
	}
	order.Now = time.Unix(1, 0)
	wantIDs(t, claim(t, s, "a", order, 9))
	order.Now = time.Unix(10, 0)
	order.Skip = func(key string) bool { return key == "k" }
	wantIDs(t, claim(t, s, "a", order, 9))
	order.Skip = nil
	wantIDs(t, claim(t, s, "a", order, 9), "k1")
}

// A bound of 10 letters, 3 of them for priority 0 only (REQ-E4).
func TestEvictionByPriorityThenAge(t *testing.T) {
	c := small(t.TempDir())
	c.MaxLetters, c.ReservedLetters = 10, 3
	s := open(t, c)
	var evicted []string
	shed := 0
	put := func(p int, prefix string, n int) (err error) {
		for i := range n {
			gone, e := s.Append(t.Context(), letter([]string{"a", "b"}[i%2], p, fmt.Sprint(prefix, i)))
			evicted = append(evicted, ids(gone)...)
			if errors.Is(e, emit.ErrFull) {
				shed++
			} else if e != nil {
				err = e
			}
		}
		return err
	}
	if err := errors.Join(put(2, "low", 10), put(1, "high", 5), put(0, "c", 8)); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields("low0 low1 low2 low3 low4 low5 low6 high0 high1 high2")
	if shed != 3 || !slices.Equal(evicted, want[:len(evicted)]) || len(evicted) != 10 {
		t.Errorf("shed %d, evicted %q; want 3, %q", shed, evicted, want)
	}
	if err := put(0, "d", 2); err != nil {
		t.Errorf("got %v, want the last highs evicted", err)
	}
	if err := put(0, "e", 1); !errors.Is(err, emit.ErrBackPressure) {
		t.Errorf("full of priority 0: got %v, want back pressure", err)
	}
	s = reopen(t, s)
	if n := len(list(t, s, "a", emit.Filter{})) + len(list(t, s, "b", emit.Filter{})); n != 10 {
		t.Errorf("got %d letters, want 10", n)
	}
}

// A claimed letter is not evicted, and nothing is evicted for a letter that does not fit all the same.
func TestClaimedIsNotEvicted(t *testing.T) {
	c := small(t.TempDir())
	c.MaxLetters, c.ReservedLetters = 2, -1
	s := open(t, c)
	add(t, s, letter("a", 2, "1"), letter("a", 2, "2"))
	wantIDs(t, claim(t, s, "a", emit.Filter{}, 1), "1")
	gone, err := s.Append(t.Context(), letter("a", 1, "3"))
	if err != nil {
		t.Fatal(err)
	}
	wantIDs(t, gone, "2")
	if gone, err := s.Append(t.Context(), letter("a", 1, "4")); !errors.Is(err, emit.ErrFull) || len(gone) > 0 {
		t.Errorf("got %v, %v, want ErrFull", gone, err)
	}
	if gone, err := s.Append(t.Context(), letter("a", 0, "5")); err != nil || ids(gone)[0] != "3" {
		t.Errorf("got %v, %v", gone, err)
	}
	if _, err := s.Append(t.Context(), letter("a", 0, "6")); !errors.Is(err, emit.ErrBackPressure) {
		t.Errorf("got %v, want back pressure", err)
	}
}

// Whatever comes, the directory stays within MaxBytes, and what was said to be stored is stored (REQ-E4).
func TestBoundInBytes(t *testing.T) {
	c := small(t.TempDir())
	c.MaxBytes = 4 * mib
	s := open(t, c)
	stored := map[string]bool{}
	var most int64
	for i := range 600 {
		l := letter("a", 1+i%3, strconv.Itoa(i))
		l.Trigger.Data = make([]byte, 100+(i*7919)%30_000)
		gone, err := s.Append(t.Context(), l)
		if err != nil && !errors.Is(err, emit.ErrFull) {
			t.Fatal(err)
		}
		if err == nil {
			stored[l.Trigger.ID] = true
		}
		for _, id := range ids(gone) {
			delete(stored, id)
		}
		most = max(most, dirSize(t, c.Dir))
	}
	compliance := 0
	for {
		l := letter("a", 0, fmt.Sprint("c", compliance))
		l.Trigger.Data = make([]byte, 20_000)
		if _, err := s.Append(t.Context(), l); err != nil {
			if !errors.Is(err, emit.ErrBackPressure) || !errors.Is(err, errNoRoom) {
				t.Fatal(err)
			}
			break
		}
		compliance++
		most = max(most, dirSize(t, c.Dir))
	}
	if most > c.MaxBytes/4*3+100 {
		t.Errorf("the directory had %d bytes, want at most %d", most, c.MaxBytes/4*3)
	}
	if compliance < 80 {
		t.Errorf("got %d letters of priority 0 before the back pressure, want it to have most of the file", compliance)
	}
	if n := len(list(t, s, "a", emit.Filter{Priorities: []int{0}})); n != compliance {
		t.Errorf("got %d letters of priority 0, want all %d", n, compliance)
	}
}

func dirSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Name() != spareName {
			size += info.Size()
		}
	}
	return size
}

// Emitters that wait share commits, and all of it is there.
func TestGroupCommit(t *testing.T) {
	s := open(t, small(t.TempDir()))
	const emitters, each = 32, 20
	var all sync.WaitGroup
	for g := range emitters {
		all.Go(func() {
			for i := range each {
				if _, err := s.Append(t.Context(), letter("a", g%3, fmt.Sprint(g, "-", i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	st := s.Stats()
	if st.Commits > emitters*each/4 {
		t.Errorf("%d commits for %d letters, want them shared", st.Commits, emitters*each)
	}
	s = reopen(t, s)
	if n := len(list(t, s, "a", emit.Filter{})); n != emitters*each || s.Stats().Letters != n {
		t.Errorf("got %d letters, Stats say %d, want %d", n, s.Stats().Letters, emitters*each)
	}
}

// A request whose context ends before the committer takes it is withdrawn; nothing of it is stored.
func TestWithdrawn(t *testing.T) {
	c := small(t.TempDir())
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	armed := false
	c.hooks.fail = func(point string) error {
		if point == beforeCommit && armed {
			entered <- struct{}{}
			<-leave
		}
		return nil
	}
	s := open(t, c)
	armed = true
	first := make(chan error, 1)
	go func() { _, err := s.Append(context.Background(), letter("a", 1, "1")); first <- err }()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Append(ctx, letter("a", 1, "2"))
	if !errors.Is(err, emit.ErrBackPressure) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want back pressure because of the context", err)
	}
	armed = false
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
	add(t, s, letter("a", 1, "3"))
	wantIDs(t, list(t, s, "a", emit.Filter{}), "1", "3")
}

func TestClosed(t *testing.T) {
	s := open(t, small(t.TempDir()))
	add(t, s, letter("a", 1, "1"))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	_, appendErr := s.Append(t.Context(), letter("a", 1, "2"))
	_, claimErr := s.Claim(t.Context(), "a", emit.Filter{}, 1)
	_, discardErr := s.Discard(t.Context(), "a", emit.Filter{})
	_, unparkErr := s.Unpark(t.Context(), "a", emit.Filter{})
	settleErr := s.Settle(t.Context(), "a", nil)
	var listErr error
	for _, err := range s.Letters(t.Context(), "a", emit.Filter{}) {
		listErr = err
	}
	for _, err := range []error{appendErr, claimErr, discardErr, unparkErr, settleErr, listErr} {
		if !errors.Is(err, emit.ErrStoreClosed) {
			t.Errorf("got %v, want ErrStoreClosed", err)
		}
	}
}

// A directory in use names who has it.
func TestDirectoryInUse(t *testing.T) {
	c := small(t.TempDir())
	open(t, c)
	_, err := Open(t.Context(), c)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("in use by process %d since 2", os.Getpid())) {
		t.Errorf("got %v, want who holds it and since when", err)
	}
}

func TestTooLarge(t *testing.T) {
	c := small(t.TempDir())
	c.MaxLetterBytes = 1000
	s := open(t, c)
	l := letter("a", 0, "1")
	l.Trigger.Data = make([]byte, 1000)
	if _, err := s.Append(t.Context(), l); !errors.Is(err, emit.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	for _, l := range []emit.Letter{{}, {Consumer: "a", Priority: emit.MaxPriorities}, {Consumer: "a", Priority: -1}} {
		if _, err := s.Append(t.Context(), l); err == nil {
			t.Errorf("%+v was taken", l)
		}
	}
}

// Each fault of a Config is named, with its value and its mend, all at once.
func TestFaults(t *testing.T) {
	_, err := Open(t.Context(), Config{MaxBytes: 1, MaxLetters: -1, MaxLetterBytes: -2, CheckTimeout: -1})
	for _, want := range []string{`Dir is "": name a directory`, "MaxBytes is 1: use at least 4 MiB", "MaxLetters is -1: ", "MaxLetterBytes is -2: ", "CheckTimeout is -1ns: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	dir := t.TempDir()
	_, err = Open(t.Context(), Config{Dir: dir, MaxLetters: 5, ReservedLetters: 5, ReservedBytes: 1 << 40, MaxLetterBytes: 1 << 30})
	for _, want := range []string{"ReservedLetters is 5: ", "ReservedBytes is 1099511627776: ", "MaxLetterBytes is 1073741824: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Dir: file}); err == nil || !strings.Contains(err.Error(), "Dir is ") {
		t.Errorf("got %v", err)
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// rounds is few, or many where the long versions are asked for (make prove).
func rounds(few, many int) int {
	if os.Getenv("BREAKWATER_PROVE") != "" {
		return many
	}
	return few
}

// In a full file attempts do not make letters outgrow the bound, and each claim can be ended (REQ-E4).
func TestAttemptsInAFullFile(t *testing.T) {
	c := small(t.TempDir())
	c.MaxBytes, c.ReservedBytes = 4*mib, -1
	s := open(t, c)
	n := 0
	for ; ; n++ {
		l := letter("a", 1, strconv.Itoa(n))
		l.Trigger.Data = make([]byte, 2_000)
		if _, err := s.Append(t.Context(), l); err != nil {
			break
		}
	}
	words := strings.Repeat("no ", 150)
	for round := range int64(8) {
		now, next := time.Unix(10*round, 0), time.Unix(10*round+10, 0)
		for {
			letters := claim(t, s, "a", emit.Filter{Now: now}, 50)
			results := make([]emit.Settlement, len(letters))
			for i := range letters {
				results[i] = emit.Settlement{Seq: letters[i].Seq, Attempt: emit.Attempt{At: now, Err: words}, NotBefore: next}
			}
			if err := s.Settle(t.Context(), "a", results); err != nil {
				t.Fatal(err)
			}
			if len(letters) == 0 {
				break
			}
		}
	}
	letters := list(t, s, "a", emit.Filter{})
	if len(letters) != n || letters[0].Attempts != 8 || letters[n-1].Attempts != 8 {
		t.Errorf("got %d letters, %d attempts; want %d, 8", len(letters), letters[0].Attempts, n)
	}
	if size := dirSize(t, c.Dir); size > c.MaxBytes/4*3+100 {
		t.Errorf("the directory has %d bytes", size)
	}
}

// All claims come back when a Store is opened, however many there are: nothing else may commit.
func TestManyClaimsComeBack(t *testing.T) {
	const letters = 2*mostGivenBack + 10
	c := small(t.TempDir())
	c.MaxBytes = 32 * mib
	s := open(t, c)
	var all sync.WaitGroup
	for i := range letters {
		all.Go(func() { add(t, s, letter("a", 1, strconv.Itoa(i))) })
	}
	all.Wait()
	if n := len(claim(t, s, "a", emit.Filter{}, letters)); n != letters {
		t.Fatalf("claimed %d", n)
	}
	s = reopen(t, s)
	if n := len(claim(t, s, "a", emit.Filter{}, letters)); n != letters {
		t.Errorf("after a restart claimed %d of %d", n, letters)
	}
}
