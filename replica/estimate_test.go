package replica_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

const ms = time.Millisecond

// REQ-R8; lag.md S2: an idle primary causes no false lag, however long it idles.
func TestIdlePrimaryIsNoLag(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		for range 60 {
			time.Sleep(time.Second)
			if s := c.stats(0); s.Lo != 0 || s.Hi > 300*ms || s.Condition != replica.Fit {
				t.Fatalf("idle: [%v, %v] %v", s.Lo, s.Hi, s.Condition)
			}
		}
	})
}

// REQ-R8; lag.md S3: a replica that is cut off answers with received = replayed, and is late.
func TestCutOffReplicaIsLate(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.r[0].set(func(l *replica.Look) { l.Received = l.Position })
		c.writing(2*time.Second, c.r[1])
		c.wantState(0, breaker.Open)
		c.wantState(1, breaker.Closed)
		if got := c.stats(0).Breaker.Reason.Rule; got != "lag" {
			t.Errorf("reason = %q, want lag", got)
		}
	})
}

// REQ-R8, lag.md: true staleness is within [Lo, Hi] for a replica that follows with any delay.
func TestBoundsHoldTheTruth(t *testing.T) {
	for _, delay := range []time.Duration{0, 60 * ms, 180 * ms, 400 * ms} {
		t.Run("delay="+delay.String(), func(t *testing.T) {
			inBubble(t, 1, nil, func(c *cluster) { followWithDelay(c, delay) })
		})
		t.Run("unflushed/delay="+delay.String(), func(t *testing.T) {
			inBubble(t, 1, nil, func(c *cluster) { followUnflushed(c, delay) })
		})
	}
}

func followWithDelay(c *cluster, delay time.Duration) {
	c.t.Helper()
	type commit struct {
		position uint64
		at       time.Time
	}
	var log []commit
	replayed := 0
	for i := range 1000 {
		time.Sleep(10 * ms)
		if i%2 == 0 {
			log = append(log, commit{uint64(1000 + 10*(i+1)), time.Now()})
			c.primary.moveTo(log[len(log)-1].position)
		}
		for replayed < len(log) && time.Since(log[replayed].at) >= delay {
			c.r[0].moveTo(log[replayed].position)
			replayed++
		}
		var truth time.Duration
		if replayed < len(log) {
			truth = time.Since(log[replayed].at)
		}
		if s := c.stats(0); truth > s.Hi {
			c.t.Fatalf("after %v: truth %v is over Hi %v", time.Duration(i)*10*ms, truth, s.Hi)
		} else if s.Lo > delay {
			c.t.Fatalf("Lo %v is over the true delay %v", s.Lo, delay)
		}
	}
}

// wal is a primary's: records with their ends, and when each was flushed.
type wal struct {
	records []record
	flushed uint64 // inside of a record maybe: the WAL writer flushes whole pages
}

type record struct {
	end    uint64
	commit bool
	at     time.Time // when it was written
	sent   time.Time // when it was flushed; zero: not yet
}

func (w *wal) end() uint64 {
	if len(w.records) == 0 {
		return 1000
	}
	return w.records[len(w.records)-1].end
}

func (w *wal) write(bytes uint64, commit bool) {
	w.records = append(w.records, record{w.end() + bytes, commit, time.Now(), time.Time{}})
}

func (w *wal) flush(upTo uint64) {
	w.flushed = upTo
	for i := range w.records {
		if r := &w.records[i]; r.end <= upTo && r.sent.IsZero() {
			r.sent = time.Now()
		}
	}
}

// replayed is the index of the first record that a replica with this delay has not replayed.
func (w *wal) replayed(from int, delay time.Duration) int {
	for ; from < len(w.records); from++ {
		if r := &w.records[from]; r.sent.IsZero() || time.Since(r.sent) < delay {
			break
		}
	}
	return from
}

// age is that of the oldest commit from this record on, which is the true staleness.
func (w *wal) age(from int) time.Duration {
	for _, r := range w.records[from:] {
		if r.commit {
			return time.Since(r.at)
		}
	}
	return 0
}

// followUnflushed lets the primary commit for 2 s, write a record of no commit that it does not flush, or not as
// a whole, and idle for 3 s, and so on. Asked to flush it does by a commit, 600 ms later.
func followUnflushed(c *cluster, delay time.Duration) {
	c.t.Helper()
	var w wal
	var due time.Time
	shown := 0
	c.primary.set(func(l *replica.Look) { l.Flushed = l.Position })
	c.primary.flushBy(func(*replica.Look) error { due = time.Now().Add(600 * ms); return nil })
	for i := range 3000 {
		time.Sleep(10 * ms)
		synctest.Wait() // so that Flush is over
		switch phase := i % 500; {
		case phase < 200 && phase%2 == 0:
			w.write(10, true)
			w.flush(w.end())
		case phase == 200:
			w.write(64, false)
			w.flush(w.end() - 64 + uint64(i/500%3*20))
		case !due.IsZero() && time.Now().After(due):
			due = time.Time{}
			w.write(48, false)
			w.flush(w.end())
		}
		c.primary.set(func(l *replica.Look) { l.Position, l.Flushed = w.end(), w.flushed })
		if shown = w.replayed(shown, delay); shown > 0 {
			c.r[0].moveTo(w.records[shown-1].end)
		}
		if s, truth := c.stats(0), w.age(shown); truth > s.Hi || s.Lo > delay || s.Condition != replica.Fit {
			c.t.Fatalf("after %v: truth %v, [%v, %v] %v, want within, Lo at most %v, ok", time.Duration(i)*10*ms, truth, s.Lo, s.Hi, s.Condition, delay)
		}
	}
	if got := c.transitions(); len(got) != 0 {
		c.t.Errorf("transitions %v, want none", got)
	}
	if got := c.primary.flushed(); got != 6 {
		c.t.Errorf("asked to flush %d times, want once for each of 6 idle times", got)
	}
}

// REQ-R8: a replica that has replayed nothing yet is not fresh.
func TestNothingReplayedIsNotFresh(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].moveTo(0)
		c.waitFor(2*time.Second, "unbounded", func() bool { return c.stats(0).Hi == replica.Never })
		if _, err := c.Pick(replica.Requirement{}); !errors.Is(err, replica.ErrNoReplica) {
			t.Errorf("Pick = %v, want ErrNoReplica", err)
		}
	})
}

// REQ-R8, behaviours-routing 16, 46, S13: what is no replica of this primary leaves the read set within a sample.
func TestStructuralConditions(t *testing.T) {
	cases := []struct {
		name   string
		change func(*replica.Look)
		want   replica.Condition
		detail string
	}{
		{"promoted", func(l *replica.Look) { l.InRecovery, l.Timeline = false, 2 }, replica.Promoted, "timeline 2"},
		{"other timeline", func(l *replica.Look) { l.Timeline = 2 }, replica.OtherTimeline, "timeline 2, the primary is on 1"},
		{"old timeline ahead in bytes", func(l *replica.Look) { l.Timeline, l.Position = 9, 1<<40 }, replica.OtherTimeline, "timeline 9"},
		{"other cluster", func(l *replica.Look) { l.SystemID = "8" }, replica.OtherCluster, "another cluster"},
		{"same server as the primary", func(l *replica.Look) { l.Instance = "primary" }, replica.Duplicate, `"primary"`},
		{"same server as a sibling", func(l *replica.Look) { l.Instance = "r1" }, replica.Duplicate, `"r1"`},
		{"no rights", func(l *replica.Look) { l.MissingRights = "GRANT pg_monitor TO app" }, replica.NoRights, "GRANT pg_monitor"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 2, nil, func(c *cluster) {
				c.r[1].set(tc.change)
				c.waitFor(1651*ms, "condition", func() bool { return c.stats(1).Condition == tc.want })
				if d := c.stats(1).Detail; !strings.Contains(d, tc.detail) {
					t.Errorf("detail %q does not say %q", d, tc.detail)
				}
				if got := c.picks(200, replica.Requirement{}); got["r2"] != 0 {
					t.Errorf("%d reads went to r2", got["r2"])
				}
				if _, _, fences := c.r[1].counts(); fences != 1 {
					t.Errorf("fenced %d times, want 1", fences)
				}
			})
		})
	}
}

// lag.md, failure modes: a primary whose position went back is another history; who holds more is barred.
func TestPositionWentBack(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		back := c.position(c.primary) - 500
		c.primary.moveTo(back)
		c.waitFor(2*time.Second, "diverged", func() bool { return c.stats(0).Condition == replica.OtherTimeline })
		c.write(back+10_000, c.r...) // the primary passes it: the bytes between stay another history
		time.Sleep(5 * time.Second)
		if got := c.stats(0).Condition; got != replica.OtherTimeline {
			t.Fatalf("condition = %v once the primary has passed it, want it barred still", got)
		}
		c.r[0].set(func(l *replica.Look) { l.Instance = "rebuilt" })
		c.waitFor(2*time.Second, "rebuilt", func() bool { return c.stats(0).Condition == replica.Fit })
	})
}

// lag.md: siblings' received positions raise Lo while the primary is unknown.
func TestWitnessRaisesLo(t *testing.T) {
	inBubble(t, 2, nil, func(c *cluster) {
		c.writing(3*time.Second, c.r...)
		c.primary.fail(errors.New("gone"))
		for range 100 { // r2 goes on receiving, r1 does not
			time.Sleep(50 * ms)
			c.r[1].set(func(l *replica.Look) { l.Position += 10; l.Received = l.Position })
		}
		if lo := c.stats(0).Lo; lo < 500*ms {
			t.Errorf("Lo of the late sibling = %v, want evidence over 500ms", lo)
		}
		if lo := c.stats(1).Lo; lo != 0 {
			t.Errorf("Lo of the witness itself = %v", lo)
		}
	})
}

// behaviours-routing 4: with the receiver down on an idle primary the replica stays in, flagged; the first commit opens it.
func TestReceiverDownIsAFlag(t *testing.T) {
	inBubble(t, 1, nil, func(c *cluster) {
		c.r[0].set(func(l *replica.Look) { l.ReceiverDown = true })
		time.Sleep(10 * time.Second)
		if s := c.stats(0); s.Condition != replica.Fit || !s.ReceiverDown || s.Share >= 1 {
			t.Fatalf("idle: %v, down %v, share %v", s.Condition, s.ReceiverDown, s.Share)
		}
		c.write(2000)
		c.waitFor(500*ms+2*1650*ms, "open", func() bool { return c.state(0) == breaker.Open })
	})
}
