package faultsink

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Check(m.Run())) }

func newSink(t *testing.T, c Config) *Sink {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func set(t *testing.T, s *Sink, f Faults) {
	t.Helper()
	if err := s.Set(f); err != nil {
		t.Fatal(err)
	}
}

// fateOf is what a delivery met, in a word.
func fateOf(s *Sink, ctx context.Context) (fate string) { //nolint:revive // the sink is what is asked
	defer func() {
		if recover() != nil {
			fate = "panic"
		}
	}()
	switch err := s.Deliver(ctx, emit.Trigger{ID: "1"}); {
	case err == nil:
		return "ok"
	case errors.Is(err, emit.ErrRejected):
		return "reject"
	case errors.Is(err, ErrFault):
		return "fail"
	default:
		return "end"
	}
}

// The shares are met, the same calls meet the same, and every call is counted once.
func TestFaults(t *testing.T) { // REQ-E13
	const calls = 20_000
	run := func(seed uint64) (fates []string, stats Stats) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newSink(t, Config{Seed: seed, Faults: Faults{Panics: 0.1, Rejects: 0.2, Errors: 0.3}})
		for range calls {
			fates = append(fates, fateOf(s, ctx))
		}
		cancel()
		fates = append(fates, fateOf(s, ctx))
		return fates, s.Stats()
	}
	fates, st := run(1)
	again, _ := run(1)
	other, _ := run(2)
	if !slices.Equal(fates, again) || slices.Equal(fates, other) {
		t.Error("the seed does not decide")
	}
	for name, got := range map[string]struct {
		n     uint64
		share float64
	}{"panic": {st.Panicked, 0.1}, "reject": {st.Rejected, 0.2}, "fail": {st.Failed, 0.3}, "ok": {st.Delivered, 0.4}} {
		seen := 0
		for _, f := range fates {
			if f == name {
				seen++
			}
		}
		if seen != int(got.n) || math.Abs(float64(seen)/calls-got.share) > 0.02 {
			t.Errorf("%s: %d of %d, counted %d, want a share of %v", name, seen, calls, got.n, got.share)
		}
	}
	if st.Ended != 1 || st.Received != st.InFlight+st.Delivered+st.Failed+st.Rejected+st.Panicked+st.Ended+st.NextFailed {
		t.Errorf("the counts do not add up: %+v", st)
	}
}

func TestLatencies(t *testing.T) {
	for name, tc := range map[string]struct {
		latency     Latency
		p50, p99    time.Duration
		exact       bool
		share       float64 // of calls at 300ms
		wantOfShare bool
	}{
		"none":       {Latency{}, 0, 0, true, 0, false},
		"constant":   {Latency{Median: 5 * time.Millisecond}, 5 * time.Millisecond, 5 * time.Millisecond, true, 0, false},
		"share slow": {Latency{Median: time.Millisecond, SlowShare: 0.02, Slow: 300 * time.Millisecond}, time.Millisecond, 300 * time.Millisecond, true, 0.02, true},
		"lognormal":  {Latency{Median: 5 * time.Millisecond, P99: 40 * time.Millisecond}, 5 * time.Millisecond, 40 * time.Millisecond, false, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSink(t, Config{Faults: Faults{Latency: tc.latency}})
			const calls = 20_000
			var took tally
			slow := 0
			for range calls {
				begin := time.Now()
				if err := s.Deliver(t.Context(), emit.Trigger{}); err != nil {
					t.Fatal(err)
				}
				d := time.Since(begin)
				took.latencies = append(took.latencies, d)
				if d == 300*time.Millisecond {
					slow++
				}
			}
			within := 0.08
			if tc.exact {
				within = 0
			}
			for q, want := range map[float64]time.Duration{0.5: tc.p50, 0.99: tc.p99} {
				if got := took.quantile(q); math.Abs(float64(got-want)) > within*float64(want) {
					t.Errorf("%s: P%v is %v, want %v", name, 100*q, got, want)
				}
			}
			if math.Abs(float64(slow)/calls-tc.share) > 0.004 {
				t.Errorf("%s: a share of %v slow, want %v", name, float64(slow)/calls, tc.share)
			}
		})
	}
}

// A call that hangs ends with its context, or succeeds when it is released; changed faults are for later calls.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, Config{Faults: Faults{Hangs: 1}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Deliver(ctx, emit.Trigger{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
		ended := make(chan error, 3)
		hang := func() { ended <- s.Deliver(t.Context(), emit.Trigger{}) }
		go hang()
		go hang()
		synctest.Wait()
		set(t, s, Faults{})
		if err := s.Deliver(t.Context(), emit.Trigger{}); err != nil || len(ended) != 0 {
			t.Errorf("after Set: got %v, %d ended", err, len(ended))
		}
		s.Release()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		set(t, s, Faults{Hangs: 1})
		go hang()
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("a release holds for later calls")
		}
		s.Release()
		<-ended
		synctest.Wait()
		if st := s.Stats(); st.Hung != 4 || st.Ended != 1 || st.Delivered != 4 || st.Peak != 3 || st.Duplicates != 0 || st.InFlight != 0 {
			t.Errorf("got %+v", st)
		}
	})
}

func TestLatencyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, Config{Faults: Faults{Latency: Latency{Median: time.Hour}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := s.Deliver(ctx, emit.Trigger{}); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}

func TestRetryAfter(t *testing.T) {
	s := newSink(t, Config{Faults: Faults{Errors: 1, RetryAfter: time.Minute}})
	err := s.Deliver(t.Context(), emit.Trigger{})
	if later, ok := errors.AsType[*emit.LaterError](err); !ok || later.After != time.Minute || !errors.Is(err, ErrFault) {
		t.Errorf("got %v", err)
	}
}

// Duplicates by ID, order by key and Time; what was not delivered is not in them.
func TestWhatItGot(t *testing.T) { // REQ-E8
	s := newSink(t, Config{Remember: 8})
	at := time.Now()
	send := func(key string, n int) {
		_ = s.Deliver(t.Context(), emit.Trigger{ID: fmt.Sprint(key, n), Key: key, Time: at.Add(time.Duration(n))})
	}
	send("a", 1)
	send("b", 2)
	set(t, s, Faults{Errors: 1})
	send("a", 2)
	set(t, s, Faults{})
	send("a", 3)
	send("b", 3)
	send("a", 2) // overtaken
	send("a", 1) // again
	send("b", 1) // overtaken
	send("", 9)
	if got, want := s.Taken("a"), []string{"a1", "a3", "a2", "a1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	st := s.Stats()
	if st.Duplicates != 1 || st.Disordered != 2 || st.Forgotten != 0 || st.Failed != 1 {
		t.Errorf("got %+v", st)
	}
	send("", 1)
	if st := s.Stats(); st.Forgotten != 1 || st.Delivered != 9 || len(s.Taken("")) != 1 {
		t.Errorf("over the bound: got %+v", st)
	}
}

func TestNext(t *testing.T) {
	fault := errors.New("next")
	var got []string
	s := newSink(t, Config{Next: emit.SinkFunc(func(_ context.Context, tr emit.Trigger) error {
		got = append(got, tr.ID)
		if tr.ID == "2" {
			return fault
		}
		return nil
	})})
	_ = s.Deliver(t.Context(), emit.Trigger{ID: "1"})
	if err := s.Deliver(t.Context(), emit.Trigger{ID: "2"}); !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	set(t, s, Faults{Rejects: 1})
	_ = s.Deliver(t.Context(), emit.Trigger{ID: "3"})
	if st := s.Stats(); !slices.Equal(got, []string{"1", "2"}) || st.NextFailed != 1 || st.Delivered != 1 || st.Rejected != 1 {
		t.Errorf("got %v, %+v", got, st)
	}
}

func TestConfigFaults(t *testing.T) {
	_, err := New(Config{Remember: -1, Faults: Faults{
		Panics: -0.1, Hangs: math.NaN(), Rejects: 0.6, Errors: 0.6, RetryAfter: -1,
		Latency: Latency{Median: -1, P99: -2, SlowShare: 2, Slow: -1},
	}})
	for _, want := range []string{
		"Remember is", "Panics is", "Hangs is", "in all", "RetryAfter is", "Median is", "P99 is -2ns:", "P99 is -2ns with", "SlowShare is", "Slow is",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	s := newSink(t, Config{Faults: Faults{Rejects: 1}})
	if err := s.Set(Faults{Errors: 2}); err == nil || fateOf(s, t.Context()) != "reject" {
		t.Errorf("a bad Set: got %v, or it changed something", err)
	}
}

func TestConcurrentCalls(t *testing.T) {
	s := newSink(t, Config{Faults: Faults{Errors: 0.5}})
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 500 {
				_ = s.Deliver(t.Context(), emit.Trigger{ID: fmt.Sprint(n, "-", i), Key: strconv.Itoa(n)})
				_ = s.Set(Faults{Errors: 0.4})
				s.Release()
			}
		})
	}
	all.Wait()
	if st := s.Stats(); st.Received != 4000 || st.Delivered+st.Failed != 4000 || st.Duplicates != 0 || st.InFlight != 0 {
		t.Errorf("got %+v", st)
	}
}
