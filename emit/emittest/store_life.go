package emittest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-go/breakwater/emit"
)

// testContextEnded: whatever the store makes of a context that has ended, its answer must be true.
func testContextEnded(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Append(ended, letter("b", low))
	want := "a b"
	if err != nil {
		want = "a"
		wantErr(t, "Append", err, emit.ErrBackPressure)
		wantErr(t, "Append", err, context.Canceled)
	}
	wantIDs(t, "stored", ids(list(t, d, emit.Filter{})), want)
	got, err := d.Claim(ended, consumer, emit.Filter{}, 10)
	if err != nil {
		wantErr(t, "Claim", err, context.Canceled)
		got = claim(t, d, emit.Filter{}, 10)
	}
	wantIDs(t, "claimed", ids(got), want)
	if err := d.Settle(ended, consumer, []emit.Settlement{{Seq: got[0].Seq, Delivered: true}}); err != nil {
		wantErr(t, "Settle", err, context.Canceled)
		settle(t, d, emit.Settlement{Seq: got[0].Seq, Delivered: true})
	}
	wantIDs(t, "left", ids(list(t, d, emit.Filter{})), want[1:])
}

func testClosed(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low))
	if err := d.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	_, err := d.Append(t.Context(), letter("b", low))
	wantErr(t, "Append", err, emit.ErrStoreClosed)
	_, err = d.Claim(t.Context(), consumer, emit.Filter{}, 1)
	wantErr(t, "Claim", err, emit.ErrStoreClosed)
	wantErr(t, "Settle", d.Settle(t.Context(), consumer, []emit.Settlement{{Seq: 1}}), emit.ErrStoreClosed)
	_, err = d.Discard(t.Context(), consumer, emit.Filter{})
	wantErr(t, "Discard", err, emit.ErrStoreClosed)
	_, err = d.Unpark(t.Context(), consumer, emit.Filter{})
	wantErr(t, "Unpark", err, emit.ErrStoreClosed)
	err = nil
	for _, e := range d.Letters(t.Context(), consumer, emit.Filter{}) {
		err = e
	}
	wantErr(t, "Letters", err, emit.ErrStoreClosed)
	_ = d.Depths() // must not panic
	if err := d.Close(); err != nil && !errors.Is(err, emit.ErrStoreClosed) {
		t.Errorf("Close again: %v", err)
	}
}

// A contest is many at work on one store.
type contest struct {
	t *testing.T
	d emit.DeadLetters

	mu struct {
		sync.Mutex
		held      map[uint64]bool
		delivered map[string]int
	}
}

// testConcurrency: nothing is lost, claimed twice at a time, or counted wrong.
func testConcurrency(t *testing.T, s Store) {
	t.Helper()
	const writers, each = 8, 50
	c := &contest{t: t, d: open(t, s, StoreConfig{})}
	c.mu.held, c.mu.delivered = map[uint64]bool{}, map[string]int{}
	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() { c.write(w, each) })
	}
	written := make(chan struct{})
	for range 3 {
		reading.Go(func() { c.read(written) })
	}
	writing.Wait()
	close(written)
	reading.Wait()
	for left := true; left; {
		left = !c.round(1)
	}
	if depth := c.d.Depths()[consumer]; depth.Letters != 0 || len(c.mu.delivered) != writers*each {
		t.Errorf("%d letters delivered of %d; left: %+v", len(c.mu.delivered), writers*each, depth)
	}
	for id, n := range c.mu.delivered {
		if n != 1 {
			t.Errorf("%s was delivered %d times", id, n)
		}
	}
}

func (c *contest) write(writer, n int) {
	for i := range n {
		if _, err := c.d.Append(c.t.Context(), letter(fmt.Sprintf("%d-%d", writer, i), i%3)); err != nil {
			c.t.Errorf("Append: %v", err)
		}
	}
}

// read claims and looks until all is written and nothing is left to claim.
func (c *contest) read(written <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-written:
			if c.round(n) {
				return
			}
		default:
			c.round(n)
			c.look()
		}
	}
}

func (c *contest) look() {
	for _, err := range c.d.Letters(c.t.Context(), consumer, emit.Filter{}) {
		if err != nil {
			c.t.Errorf("Letters: %v", err)
		}
		break
	}
	_ = c.d.Depths()
}

// round claims some letters, of which two in three are delivered, and reports whether there were none.
func (c *contest) round(n int) (none bool) {
	letters, err := c.d.Claim(c.t.Context(), consumer, emit.Filter{}, 5)
	if err != nil {
		c.t.Errorf("Claim: %v", err)
		return true
	}
	var results []emit.Settlement
	for i := range letters {
		l := &letters[i]
		c.hold(l)
		done := (n+i)%3 != 0
		results = append(results, emit.Settlement{Seq: l.Seq, Delivered: done, Attempt: emit.Attempt{At: base, Err: "no"}})
		c.release(l, done) // before Settle: after it another may claim what failed
	}
	if err := c.d.Settle(c.t.Context(), consumer, results); err != nil {
		c.t.Errorf("Settle: %v", err)
	}
	return len(letters) == 0
}

func (c *contest) hold(l *emit.Letter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.held[l.Seq] {
		c.t.Errorf("letter %d was claimed twice at a time", l.Seq)
	}
	c.mu.held[l.Seq] = true
}

func (c *contest) release(l *emit.Letter, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.held, l.Seq)
	if done {
		c.mu.delivered[l.Trigger.ID]++
	}
}

func reopens(t *testing.T, s Store) {
	t.Helper()
	if s.Reopen == nil {
		t.Skip("the store keeps nothing beyond its end")
	}
}

func reopen(t *testing.T, s Store, d emit.DeadLetters, crash bool) emit.DeadLetters {
	t.Helper()
	d = s.Reopen(t, d, crash)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// testReopen: a store that was closed in order keeps everything (REQ-E7).
func testReopen(t *testing.T, s Store) {
	t.Helper()
	reopens(t, s)
	d := open(t, s, StoreConfig{})
	parked := letter("parked", low)
	parked.Parked = true
	putAll(t, d, full(), parked, letter("gone", never), letter("low", low))
	gone := claim(t, d, emit.Filter{}, 1)
	settle(t, d, emit.Settlement{Seq: gone[0].Seq, Delivered: true})
	before, depth := list(t, d, emit.Filter{}), d.Depths()[consumer]
	d = reopen(t, s, d, false)
	after := list(t, d, emit.Filter{})
	wantIDs(t, "after Close", ids(after), "full parked low")
	for i := range min(len(before), len(after)) {
		sameLetter(t, "after Close", after[i], before[i])
	}
	if got := d.Depths()[consumer]; got.Letters != depth.Letters || got.Parked != depth.Parked || got.Bytes != depth.Bytes || !got.Oldest.Equal(depth.Oldest) {
		t.Errorf("Depths after Close: %+v; before: %+v", got, depth)
	}
}

// testCrash: what was acknowledged is there after a kill, and a claim that nobody ended counts as a crash (REQ-E7).
func testCrash(t *testing.T, s Store) {
	t.Helper()
	reopens(t, s)
	for _, crash := range []bool{true, false} {
		d := open(t, s, StoreConfig{})
		var want []string
		for i := range 50 {
			putAll(t, d, letter(strconv.Itoa(i), low))
			want = append(want, strconv.Itoa(i))
		}
		claimed := claim(t, d, emit.Filter{}, 3)
		settle(t, d, emit.Settlement{Seq: claimed[0].Seq, Delivered: true})
		d = reopen(t, s, d, crash)
		wantIDs(t, "after a crash", ids(list(t, d, emit.Filter{})), strings.Join(want[1:], " "))
		again := claim(t, d, emit.Filter{}, 3)
		wantIDs(t, "claimed after a crash", ids(again), "1 2 3")
		for i := range again {
			l := &again[i]
			if crashed := i < 2; crashed != (l.Attempts == 1 && len(l.Last) == 1 && l.Last[0].Err == emit.AttemptCrashed) {
				t.Errorf("letter %s has %d attempts, the last %+v; it was claimed at the crash: %v", l.Trigger.ID, l.Attempts, l.Last, crashed)
			}
		}
	}
}

func testSequenceGoesOn(t *testing.T, s Store) {
	t.Helper()
	d := open(t, s, StoreConfig{})
	putAll(t, d, letter("a", low), letter("b", low))
	last := list(t, d, emit.Filter{})[1].Seq
	if _, err := d.Discard(t.Context(), consumer, emit.Filter{}); err != nil {
		t.Fatalf("Discard: %v", err)
	}
	putAll(t, d, letter("c", low))
	next := list(t, d, emit.Filter{})[0].Seq
	if next <= last {
		t.Errorf("after letter %d, which is gone, comes %d", last, next)
	}
	if s.Reopen == nil {
		return
	}
	if _, err := d.Discard(t.Context(), consumer, emit.Filter{}); err != nil {
		t.Fatalf("Discard: %v", err)
	}
	d = reopen(t, s, d, false)
	putAll(t, d, letter("d", low))
	if again := list(t, d, emit.Filter{})[0].Seq; again <= next {
		t.Errorf("after a reopening letter %d comes after %d", again, next)
	}
}
