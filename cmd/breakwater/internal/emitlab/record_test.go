package emitlab

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/emit"
)

func newTarget() *target {
	t := &target{name: "c"}
	t.mu.refused = map[string]int{}
	return t
}

// add is one emit that has ended.
func (t *target) add(p phase, begin, took time.Duration, out outcome) string {
	n := t.begin(p, normal, begin)
	t.end(n, begin+took, out, "why")
	return t.id(n)
}

func (t *target) becomes(at time.Duration, to breaker.State, rule string) {
	t.move(breaker.Transition{To: to, Reason: breaker.Reason{Rule: rule}}, at)
}

// What was acknowledged and is neither at the consumer nor stored is lost; what was shed, refused or evicted never is.
func TestLost(t *testing.T) {
	taken, left := "taken", "left"
	for _, tt := range []struct {
		name    string
		out     outcome
		where   string
		evicted bool
		want    int
	}{
		{"delivered and taken", emit.Delivered, taken, false, 0},
		{"delivered and nowhere", emit.Delivered, "", false, 1},
		{"stored and left", emit.Stored, left, false, 0},
		{"stored and replayed", emit.Stored, taken, false, 0},
		{"stored and nowhere", emit.Stored, "", false, 1},
		{"stored and evicted", emit.Stored, "", true, 0},
		{"shed", emit.Shed, "", false, 0},
		{"refused", emit.Refused, "", false, 0},
		{"under way", 0, "", false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newTarget()
			id := c.id(c.begin(calm, normal, 0))
			if tt.out != 0 {
				c.end(0, msec, tt.out, "")
			}
			if tt.evicted {
				c.evict(id)
			}
			var report consumer.Report
			letters := map[string]bool{}
			switch tt.where {
			case taken:
				report.IDs = []string{id}
			case left:
				letters[id] = true
			}
			if lost, unknown := c.lostOf(report, letters); lost != tt.want || unknown != 0 {
				t.Errorf("lost, unknown: got %d, %d, want %d, 0", lost, unknown, tt.want)
			}
		})
	}
}

// An ID that nobody emitted is told: a duplicate under another ID would be one.
func TestUnknownIDs(t *testing.T) {
	c := newTarget()
	id := c.add(calm, 0, msec, emit.Delivered)
	if lost, unknown := c.lostOf(consumer.Report{IDs: []string{id, "c-1", "c--1", "c-x", "other-0", "x"}}, nil); lost != 0 || unknown != 5 {
		t.Errorf("lost, unknown: got %d, %d, want 0, 5", lost, unknown)
	}
}

// A live call counts as made while the breaker was open only if that is certain.
func TestCallsWhileOpen(t *testing.T) {
	c := newTarget()
	c.becomes(2*sec, breaker.Open, "cusum")
	c.becomes(3*sec, breaker.HalfOpen, "")
	c.becomes(3200*msec, breaker.Open, "")
	c.becomes(4*sec, breaker.Closed, "")
	for _, tt := range []struct {
		emitted, called time.Duration
		want            int
	}{
		{1990 * msec, 1995 * msec, 0},
		{1995 * msec, 2005 * msec, 0}, // it was admitted before
		{2005 * msec, 2010 * msec, 1},
		{2990 * msec, 3010 * msec, 0}, // it may be a probe
		{3010 * msec, 3020 * msec, 0},
		{2990 * msec, 3210 * msec, 0},
		{3210 * msec, 3220 * msec, 1},
		{4010 * msec, 4020 * msec, 0},
		{-1, 2500 * msec, 0}, // a letter
	} {
		before := c.mu.openCalls
		c.called(tt.emitted, tt.called, tt.called+msec)
		if got := c.mu.openCalls - before; got != tt.want {
			t.Errorf("emitted %v, called %v: got %d, want %d", tt.emitted, tt.called, got, tt.want)
		}
	}
}

// The figures of a fault are of what began with it.
func TestFigures(t *testing.T) {
	c := newTarget()
	c.becomes(500*msec, breaker.Open, "early")
	c.becomes(600*msec, breaker.Closed, "")
	for i := range 10 {
		c.add(calm, sec, time.Duration(i+1)*msec, emit.Delivered)
	}
	c.breaks(2 * sec)
	c.called(1990*msec, 1990*msec, 2100*msec)
	c.broken(2010 * msec)
	c.called(2000*msec, 2005*msec, 2100*msec) // on its way before the fault was there
	c.called(2020*msec, 2020*msec, 2220*msec)
	c.called(2030*msec, 2030*msec, 2200*msec)
	c.add(during, 2*sec, 51*msec, emit.Stored)
	c.add(during, 2*sec, 50*msec, emit.Delivered)
	c.becomes(2100*msec, breaker.Open, "cusum")
	c.becomes(2300*msec, breaker.HalfOpen, "")
	c.becomes(2400*msec, breaker.Open, "probe_failure")
	c.add(during, 2500*msec, 3*msec, emit.Stored)
	c.mended(4 * sec)
	c.becomes(4100*msec, breaker.HalfOpen, "")
	c.becomes(4600*msec, breaker.Closed, "")
	c.add(after, 5*sec, 7*msec, emit.Shed)
	s := c.summary(accounts{left: map[string]bool{}})
	for _, tt := range []struct {
		field string
		got   *float64
		want  float64
	}{
		{"p50_before_ms", s.P50Before, 5},
		{"p95_before_ms", s.P95Before, 10},
		{"p99_during_ms", s.P99During, 51},
		{"max_during_ms", s.MaxDuring, 51},
		{"p50_after_ms", s.P50After, 7},
		{"time_to_open_ms", s.TimeToOpen, 100},
		{"time_to_close_ms", s.TimeToClose, 600},
		{"first_return_ms", s.FirstReturn, 200},
		{"p99_after_open_ms", s.P99AfterOpen, 3},
	} {
		if tt.got == nil || *tt.got != tt.want {
			t.Errorf("%s: got %s, want %v", tt.field, show(tt.got), tt.want)
		}
	}
	if s.OpenReason != "cusum" || s.OpeningsBefore != 1 || s.SlowEmits != 1 || s.DivertedDuring != 2 || s.Shed != 1 || s.Emitted != 14 {
		t.Errorf("got %+v", s)
	}
}

// A breaker that was closed when the fault ended closed at once; one that never does has no time.
func TestTimeToClose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		moves []moved
		want  string
	}{
		{"closed in between", []moved{{sec, breaker.Open, "x"}, {2 * sec, breaker.Closed, ""}}, "0"},
		{"never", []moved{{sec, breaker.Open, "x"}, {4 * sec, breaker.HalfOpen, ""}}, "null"},
		{"after", []moved{{sec, breaker.Open, "x"}, {3500 * msec, breaker.Closed, ""}}, "500"},
	} {
		c := newTarget()
		c.breaks(500 * msec)
		c.mended(3 * sec)
		c.mu.moves = tt.moves
		if got := show(c.summary(accounts{}).TimeToClose); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The counts must add up, within what ended before and has begun since (REQ-E14).
func TestAddsUp(t *testing.T) {
	held := emit.ConsumerStats{Emitted: 10, Delivered: 4, Stored: 3, Shed: 2, Refused: 1}
	for _, tt := range []struct {
		name  string
		spoil func(*emit.ConsumerStats)
		want  bool
	}{
		{"held", func(*emit.ConsumerStats) {}, true},
		{"one missing", func(s *emit.ConsumerStats) { s.Delivered-- }, false},
		{"fewer than ended", func(s *emit.ConsumerStats) { s.Emitted, s.Delivered = 8, 2 }, false},
		{"more than began", func(s *emit.ConsumerStats) { s.Emitted, s.Delivered = 13, 7 }, false},
		{"below zero", func(s *emit.ConsumerStats) { s.Stored, s.Delivered = ^uint64(0), 8 }, false},
	} {
		s := held
		tt.spoil(&s)
		if got := addsUp(s, 9, 12); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}

// Triggers come at their rate, at random instants that a seed decides, and a stall is not made up for in one burst.
func TestArrivals(t *testing.T) {
	play := func(t *testing.T, seed uint64, stall time.Duration) (at []time.Duration, late time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*sec)
		defer cancel()
		begun := time.Now()
		now := func() time.Duration { return time.Since(begun) }
		arrivals(ctx, now, 500, rand.New(rand.NewPCG(seed, 0)), func(l time.Duration) {
			at, late = append(at, now()), max(late, l)
			if stall > 0 && len(at) == 5000 {
				time.Sleep(stall)
			}
		})
		return at, late
	}
	synctest.Test(t, func(t *testing.T) {
		one, late := play(t, 1, 0)
		if n := len(one); n < 9500 || n > 10_500 || late > 5*msec {
			t.Errorf("got %d in 20 s, up to %v late; want about 10,000, hardly late", n, late)
		}
		again, _ := play(t, 1, 0)
		other, _ := play(t, 2, 0)
		if !slices.Equal(one, again) || slices.Equal(one, other) {
			t.Error("the seed does not decide when triggers come")
		}
		stalled, late := play(t, 1, sec)
		if late < 900*msec || len(stalled) < 9500 {
			t.Errorf("after a stall of 1 s: got %d, up to %v late", len(stalled), late)
		}
		for i := 5000; i+600 < len(stalled); i++ { // 4 times 500/s, and what one look may send
			if span := stalled[i+600] - stalled[i]; span < 250*msec {
				t.Fatalf("600 triggers within %v, want no burst", span)
			}
		}
	})
}

// pool is one with two consumers that answer alike.
func pool(t *testing.T, policy string, sink emit.SinkFunc) pooled {
	t.Helper()
	p, err := newPooled(policy, map[string]emit.Sink{slow: sink, healthy: sink}, func(breaker.Transition) {})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The policies that people have today: what each answers for a consumer that hangs or fails.
func TestPools(t *testing.T) {
	hangs := func(ctx context.Context, _ emit.Trigger) error { <-ctx.Done(); return ctx.Err() }
	fails := func(context.Context, emit.Trigger) error { return errors.New("500") }
	for _, tt := range []struct {
		policy string
		sink   emit.SinkFunc
		emits  int
		want   string // of the last one
	}{
		{PolicyNone, fails, 1, "failed"},
		{PolicyTimeout, hangs, 1, "timeout"},
		{PolicyErrors, hangs, 1, "timeout"},
		{PolicyErrors, fails, 30, "open"},
		{PolicyTimeout, fails, 30, "failed"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := pool(t, tt.policy, tt.sink)
			var out outcome
			var why string
			for range tt.emits {
				out, why = p.emit(t.Context(), slow, triggerOf(slow, "x", normal))
			}
			if out != emit.Refused || why != tt.want {
				t.Errorf("%s: got %v %s, want refused %s", tt.policy, out, why, tt.want)
			}
			if err := p.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A pool holds all up that it has room for, and refuses the rest.
func TestPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := pool(t, PolicyNone, func(ctx context.Context, _ emit.Trigger) error { <-ctx.Done(); return ctx.Err() })
		full := make(chan string, poolSize+poolQueue+1)
		for range poolSize + poolQueue {
			go func() {
				_, why := p.emit(ctx, slow, triggerOf(slow, "x", normal))
				full <- why
			}()
		}
		synctest.Wait()
		if out, why := p.emit(ctx, healthy, triggerOf(healthy, "x", normal)); out != emit.Refused || why != "queue_full" {
			t.Errorf("got %v %s, want refused queue_full", out, why)
		}
		cancel()
		for range poolSize + poolQueue {
			if why := <-full; why != "failed" {
				t.Fatalf("got %s, want failed", why)
			}
		}
		_ = p.close()
	})
}
