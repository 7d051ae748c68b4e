package boltletters

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/breakwater-go/breakwater/emit"
)

var errDisk = errors.New("the disk fails")

// A switchboard has the points of a Store fail on demand.
type switchboard struct{ point atomic.Pointer[string] }

func (b *switchboard) fail(point string) error {
	if p := b.point.Load(); p != nil && strings.Contains(*p, point) {
		return errDisk
	}
	return nil
}

// After a commit that failed, at whatever step, nothing of it is stored and nothing is evicted, now or after a restart,
// and the Store goes on when the disk does (REQ-E8).
func TestFailedCommit(t *testing.T) {
	for _, points := range []string{beforeCommit, afterCommit, afterCommit + beforeRestore, afterCommit + reopening} {
		t.Run(points, func(t *testing.T) {
			var disk switchboard
			c := small(t.TempDir())
			c.MaxLetters, c.ReservedLetters = 3, -1
			c.hooks.fail = disk.fail
			var told atomic.Int32
			c.Observer.CommitFailed = func(error) { told.Add(1) }
			s := open(t, c)
			add(t, s, letter("a", 2, "1"), letter("a", 2, "2"), letter("a", 2, "3"))
			claimed := claim(t, s, "a", emit.Filter{}, 1)
			disk.point.Store(&points)
			for range 3 {
				gone, err := s.Append(t.Context(), letter("a", 0, "refused"))
				if !errors.Is(err, emit.ErrBackPressure) || !errors.Is(err, errDisk) || len(gone) > 0 {
					t.Errorf("got %v, %v, want back pressure because of the disk", gone, err)
				}
			}
			if err := s.Settle(t.Context(), "a", []emit.Settlement{{Seq: claimed[0].Seq, Delivered: true}}); !errors.Is(err, errDisk) {
				t.Errorf("got %v", err)
			}
			if _, err := s.Claim(t.Context(), "a", emit.Filter{}, 1); !errors.Is(err, errDisk) && !strings.Contains(err.Error(), "opened again") {
				t.Errorf("got %v", err)
			}
			disk.point.Store(nil)
			gone, err := s.Append(t.Context(), letter("a", 0, "4"))
			if err != nil {
				t.Fatal(err)
			}
			wantIDs(t, gone, "2")
			wantIDs(t, list(t, s, "a", emit.Filter{}), "1", "3", "4")
			wantIDs(t, claim(t, s, "a", emit.Filter{}, 9), "4", "3")
			if d := s.Depths()["a"]; d.Letters != 3 || told.Load() < 4 || s.Stats().FailedCommits < 4 {
				t.Errorf("got %+v, told %d times, %+v", d, told.Load(), s.Stats())
			}
			s = reopen(t, s)
			wantIDs(t, list(t, s, "a", emit.Filter{}), "1", "3", "4")
		})
	}
}

// A process that is killed after a failed commit whose state was put back does not find it either.
func TestFailedCommitThenKilled(t *testing.T) {
	var disk switchboard
	c := small(t.TempDir())
	c.hooks.fail = disk.fail
	s := open(t, c)
	add(t, s, letter("a", 1, "1"))
	disk.point.Store(new(afterCommit))
	if _, err := s.Append(t.Context(), letter("a", 1, "refused")); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	killed := afterKill(t, s)
	killed.hooks = hooks{}
	wantIDs(t, list(t, open(t, killed), "a", emit.Filter{}), "1")
}

// flip flips a bit of each copy of a text in the file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range b {
		if bytes.HasPrefix(b[i:], []byte(text)) {
			b[i] ^= 4
			n++
		}
	}
	if n == 0 {
		t.Fatalf("%q is not in the file", text)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A flipped bit is one counted loss; all others are delivered (behaviours-emit 12).
func TestFlippedBit(t *testing.T) {
	for _, how := range []string{"claim", "claim in order", "list", "evict", "head", "discard"} {
		t.Run(how, func(t *testing.T) {
			c := small(t.TempDir())
			c.MaxLetters, c.ReservedLetters = 3, -1
			var bad []BadRecord
			c.Observer.BadRecord = func(r BadRecord) { bad = append(bad, r) }
			s := open(t, c)
			add(t, s, letter("a", 1, "one"), letter("a", 1, "two"), letter("a", 1, "three"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			marker := map[string]string{"head": `{"id":"one`, "evict": `{"id":"one`}[how]
			flip(t, s.path, cmpOr(marker, `{"id":"two`))
			s = open(t, c)
			var want []string
			switch how {
			case "claim", "claim in order":
				want = ids(claim(t, s, "a", emit.Filter{InOrder: how != "claim"}, 9))
			case "list":
				want = ids(list(t, s, "a", emit.Filter{}))
			case "head": // Open has met it
				want = append(ids(list(t, s, "a", emit.Filter{})), "one")[:2]
			case "evict":
				gone, err := s.Append(t.Context(), letter("a", 0, "new"))
				if err != nil || len(gone) != 0 {
					t.Errorf("got %v, %v, want the damaged one to make room", ids(gone), err)
				}
				want = ids(list(t, s, "a", emit.Filter{}))
			case "discard":
				n, err := s.Discard(t.Context(), "a", emit.Filter{})
				if n != 2 || err != nil {
					t.Errorf("discarded %d, %v", n, err)
				}
			}
			left := len(list(t, s, "a", emit.Filter{}))
			if d := s.Depths()["a"]; d.Letters != left || s.Stats().BadRecords != 1 {
				t.Errorf("%d letters left, %+v, %+v; want one bad record", left, d, s.Stats())
			}
			if how != "discard" && len(want) < 2 {
				t.Errorf("got %q", want)
			}
			s = reopen(t, s)
			if s.Stats().BadRecords != 1 || len(bad) != 1 || bad[0].Consumer != "a" || !errors.Is(bad[0].Err, errBadRecord) {
				t.Errorf("after a restart %+v, told %+v; want one", s.Stats(), bad)
			}
		})
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// A damaged file is put aside whole; the Store begins anew and says so. A child
// process checks it, which may crash (behaviours-emit 11).
func TestDamagedFile(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"truncated":      func(b []byte) []byte { return b[:len(b)/3] },
		"cut to nothing": func([]byte) []byte { return nil },
		"no such file":   func([]byte) []byte { return []byte(strings.Repeat("hello ", 10_000)) },
		"no meta pages":  func(b []byte) []byte { clear(b[:2*pageSize]); return b },
		"pages zeroed":   func(b []byte) []byte { clear(b[2*pageSize:]); return b },
		"wild pages": func(b []byte) []byte {
			for i := 2 * pageSize; i < len(b); i++ {
				b[i] ^= 0x55
			}
			return b
		},
		"wild places": func(b []byte) []byte { // the child faults on them
			const leaf, flags, position = 2, 8, 16 + 4
			for at := 2 * pageSize; at < len(b); at += pageSize {
				if b[at+flags] == leaf {
					binary.LittleEndian.PutUint32(b[at+position:], 0x10000000)
				}
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small(t.TempDir())
			c.Check = CheckInChild
			var told []Quarantine
			c.Observer.Quarantined = func(q Quarantine) { told = append(told, q) }
			s := open(t, c)
			for i := range 100 {
				add(t, s, letter("a", i%3, strconv.Itoa(i)))
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(s.path)
			if err != nil {
				t.Fatal(err)
			}
			b = damage(b)
			if err := os.WriteFile(s.path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			s = open(t, c)
			if len(told) != 1 || told[0].Bytes != int64(len(b)) || !errors.Is(told[0].Err, ErrCorrupt) {
				t.Fatalf("told %+v, want one quarantine", told)
			}
			if t.Log(told[0].Err); name == "wild places" && !strings.Contains(told[0].Err.Error(), "the process that checked it crashed") {
				t.Errorf("got %v, want it to crash the child", told[0].Err)
			}
			if q := s.Stats().Quarantined; len(q) != 1 || q[0] != told[0].Path {
				t.Errorf("Stats name %q", q)
			}
			if kept, err := os.ReadFile(told[0].Path); err != nil || !bytes.Equal(kept, b) {
				t.Errorf("the damaged file was not kept as it was: %v", err)
			}
			add(t, s, letter("a", 1, "new"))
			wantIDs(t, list(t, s, "a", emit.Filter{}), "new")
		})
	}
}

// Whatever is damaged, the process lives, the Store opens, and what it gives out is what was put in.
func TestRandomDamage(t *testing.T) {
	c := small(t.TempDir())
	s := open(t, c)
	for i := range 300 {
		l := letter("a", i%3, strconv.Itoa(i))
		l.Trigger.Data = []byte(strings.Repeat(fmt.Sprint(i, " "), i))
		add(t, s, l)
	}
	if _, err := s.Discard(t.Context(), "a", emit.Filter{Priorities: []int{1}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	quarantined, lost := 0, 0
	for range rounds(12, 1000) {
		c.Dir, c.Check = t.TempDir(), CheckInChild
		b := bytes.Clone(whole)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(b))
			if random.IntN(2) == 0 {
				at = at / pageSize * pageSize // where the headers are
			}
			n := min(1<<random.IntN(8), len(b)-at)
			for i := range n {
				b[at+i] ^= byte(random.Uint32())
			}
		}
		if err := os.WriteFile(filepath.Join(c.Dir, fileName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		quarantined += len(s.Stats().Quarantined)
		for l, err := range s.Letters(t.Context(), "a", emit.Filter{}) {
			if err != nil {
				break // a damage that only shows when it is read, or written
			}
			if i := 0; l.Trigger.ID != "new" {
				if _, err := fmt.Sscan(l.Trigger.ID, &i); err != nil || string(l.Trigger.Data) != strings.Repeat(fmt.Sprint(i, " "), i) {
					t.Errorf("got a letter that nobody put in: %+v", l)
				}
			}
		}
		if _, err := s.Append(t.Context(), letter("a", 1, "new")); err != nil && !errors.Is(err, emit.ErrBackPressure) {
			t.Error(err)
		}
		lost += int(s.Stats().BadRecords)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d files were put aside, %d records were lost", quarantined, lost)
}

// A panic within bbolt while it writes: nothing more is taken, nobody crashes, and a restart mends it.
func TestPanicWhileCommitting(t *testing.T) {
	c := small(t.TempDir())
	var armed atomic.Bool
	c.hooks.fail = func(point string) error {
		if armed.Load() && point == beforeCommit {
			panic("a damaged page")
		}
		return nil
	}
	s := open(t, c)
	add(t, s, letter("a", 1, "1"))
	armed.Store(true)
	for range 2 {
		if _, err := s.Append(t.Context(), letter("a", 1, "2")); !errors.Is(err, emit.ErrBackPressure) || !strings.Contains(err.Error(), "a damaged page") {
			t.Errorf("got %v", err)
		}
	}
	armed.Store(false)
	if s.Stats().Broken == nil {
		t.Error("Stats do not tell")
	}
	s = reopen(t, s)
	add(t, s, letter("a", 1, "3"))
	wantIDs(t, list(t, s, "a", emit.Filter{}), "1", "3")
}

// A check that gives no verdict says so and leaves the file; one that does not end is a verdict.
func TestCheckWithoutVerdict(t *testing.T) {
	c := small(t.TempDir())
	s := open(t, c)
	add(t, s, letter("a", 1, "1"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.Check = func(context.Context, string) error { return errDisk }
	if _, err := Open(t.Context(), c); !errors.Is(err, errDisk) {
		t.Errorf("got %v", err)
	}
	forEver := func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() }
	c.Check = forEver
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c.Check = CheckFile
	s = open(t, c)
	wantIDs(t, list(t, s, "a", emit.Filter{}), "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.Check, c.CheckTimeout = forEver, time.Millisecond
	s = open(t, c)
	if q := s.Stats().Quarantined; len(q) != 1 {
		t.Errorf("got %q, want it put aside", q)
	}
}

// A file of a newer format is neither read nor put aside.
func TestNewerFormat(t *testing.T) {
	c := small(t.TempDir())
	s := open(t, c)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, s.path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte{0, 0, 0, 9}) })
	if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "the file has format 00000009") {
		t.Errorf("got %v", err)
	}
	edit(t, s.path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(versionKey, []byte{0, 0, 0, formatVersion}) })
	open(t, c)
}

// edit changes the file behind the Store's back.
func edit(t *testing.T, path string, f func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// Counts that are wrong are corrected once there is time, and the Observer is told; its panic stops nothing.
func TestWrongCounts(t *testing.T) {
	c := small(t.TempDir())
	s := open(t, c)
	add(t, s, letter("a", 1, "1"), letter("a", 1, "2"))
	bytesWere := s.Depths()["a"].Bytes
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, s.path, func(tx *bbolt.Tx) error {
		return tx.Bucket(countsBucket).Put(laneKey{"a", 1, false}.name(), make([]byte, 16))
	})
	told := make(chan string, 1)
	c.IdleAfter = time.Millisecond
	c.Observer.Recounted = func(consumer string) { told <- consumer; panic("observer") }
	s = open(t, c)
	if consumer := <-told; consumer != "a" {
		t.Errorf("told of %q", consumer)
	}
	add(t, s, letter("b", 1, "3"))
	if d := s.Depths()["a"]; d.Letters != 2 || d.Bytes != bytesWere || s.Stats().Recounts != 1 || s.Stats().Faults != 1 {
		t.Errorf("got %+v, %+v", d, s.Stats())
	}
}

// While nothing is asked the file is compacted: what is stored stays, claims too, and the file is smaller.
func TestCompaction(t *testing.T) {
	c := small(t.TempDir())
	c.IdleAfter = time.Millisecond
	told := make(chan Compaction, 100)
	c.Observer.Compacted = func(e Compaction) { told <- e }
	s := open(t, c)
	var want []string
	for i := range 200 {
		l := letter("a", min(1, i%20), strconv.Itoa(i))
		l.Trigger.Data = make([]byte, 15_000)
		add(t, s, l)
		if i%20 == 0 {
			want = append(want, l.Trigger.ID)
		}
	}
	before := s.Stats().FileBytes
	if n, err := s.Discard(t.Context(), "a", emit.Filter{Priorities: []int{1}}); n != 190 || err != nil {
		t.Fatal(n, err)
	}
	for range 3 {
		add(t, s, letter("b", 0, "x"))
	}
	claimed := claim(t, s, "b", emit.Filter{}, 1)
	depths := fmt.Sprint(s.Depths())
	for s.Stats().FileBytes > before/2 { // it may have come before the letters of b, too
		if e := <-told; e.After > e.Before {
			t.Fatalf("it grew: %+v", e)
		}
	}
	if got := fmt.Sprint(s.Depths()); got != depths {
		t.Errorf("got %s, want %s", got, depths)
	}
	wantIDs(t, list(t, s, "a", emit.Filter{}), want...)
	if len(claim(t, s, "b", emit.Filter{}, 9)) != 2 {
		t.Error("the claim was lost")
	}
	if err := s.Settle(t.Context(), "b", []emit.Settlement{{Seq: claimed[0].Seq, Delivered: true}}); err != nil {
		t.Error(err)
	}
	if d := s.Depths()["b"]; d.Letters != 2 {
		t.Errorf("got %+v", d)
	}
	s = reopen(t, s)
	add(t, s, letter("b", 0, "y"))
	if l := list(t, s, "b", emit.Filter{}); l[len(l)-1].Seq != 204 {
		t.Errorf("got %+v: the sequence did not go on", l)
	}
}

// A compaction that is stopped leaves everything as it was.
func TestCompactionStopped(t *testing.T) {
	s := open(t, small(t.TempDir())) // its committer does nothing by itself
	for i := range 100 {
		l := letter("a", 1, strconv.Itoa(i))
		l.Trigger.Data = make([]byte, 15_000)
		add(t, s, l)
	}
	before := s.Stats()
	steps := 0
	s.compactFile(func() bool { steps++; return steps == 3 })
	if _, err := os.Stat(filepath.Join(s.config.Dir, tempName)); err == nil || steps != 3 {
		t.Errorf("after %d steps: the copy is still there", steps)
	}
	add(t, s, letter("a", 1, "next"))
	if st := s.Stats(); st.Compactions != 0 || st.FileBytes < before.FileBytes || st.Letters != 101 {
		t.Errorf("got %+v", st)
	}
	s.compactFile(func() bool { return false })
	if st := s.Stats(); st.Compactions != 1 || st.Letters != 101 {
		t.Errorf("got %+v, want one compaction where nothing stops it", st)
	}
}
