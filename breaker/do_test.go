package breaker

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Each end of a call through Do counts once, whichever way the call takes (REQ-B8, REQ-B10, behaviours-breaker 36).
func TestDoCountsOnce(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	forced := func(b *Breaker) { force(t, b) }
	for way, rules := range map[string][]Rule{
		"plain":   nil,
		"timed":   {FailureRateByTime{}},
		"latency": {Percentile{}},
	} {
		for _, tc := range []struct {
			name string
			ctx  context.Context
			fn   func(b *Breaker) (int, error)
			want [4]uint64 // successes, failures, ignored, late
		}{
			{"success", t.Context(), func(*Breaker) (int, error) { return 1, nil }, [4]uint64{1, 0, 0, 0}},
			{"failure", t.Context(), func(*Breaker) (int, error) { return 1, errDown }, [4]uint64{0, 1, 0, 0}},
			{"cancelled", cancelled, func(*Breaker) (int, error) { return 1, errDown }, [4]uint64{0, 0, 1, 0}},
			{"panic", t.Context(), func(*Breaker) (int, error) { panic("boom") }, [4]uint64{0, 1, 0, 0}},
			{"Goexit", t.Context(), func(*Breaker) (int, error) { runtime.Goexit(); return 1, nil }, [4]uint64{0, 1, 0, 0}},
			{"late success", t.Context(), func(b *Breaker) (int, error) { forced(b); return 1, nil }, [4]uint64{0, 0, 0, 1}},
			{"late failure", t.Context(), func(b *Breaker) (int, error) { forced(b); return 1, errDown }, [4]uint64{0, 0, 0, 1}},
			{"late panic", t.Context(), func(b *Breaker) (int, error) { forced(b); panic("boom") }, [4]uint64{0, 0, 0, 1}},
		} {
			t.Run(way+"/"+tc.name, func(t *testing.T) {
				b := mustNew(t, Config{Rules: rules})
				var wg sync.WaitGroup
				wg.Go(func() { // of its own, which Goexit may end
					defer func() { _ = recover() }()
					v, err := Do(tc.ctx, b, func(context.Context) (int, error) { return tc.fn(b) })
					if v != 1 || err != nil && err != errDown { //nolint:errorlint // it is returned as it is
						t.Errorf("got %v, %v", v, err)
					}
				})
				wg.Wait()
				s := b.Stats()
				if got := [4]uint64{s.Successes, s.Failures, s.Ignored, s.Late}; got != tc.want {
					t.Errorf("successes, failures, ignored, late: got %v, want %v", got, tc.want)
				}
			})
		}
	}
}

// A context that panics when it is asked whether the caller has left does not take the result with it, whichever way the call takes
// (REQ-B8, REQ-B10).
func TestDoWithAContextThatPanics(t *testing.T) {
	for way, rules := range map[string][]Rule{"plain": nil, "timed": {FailureRateByTime{}}, "latency": {Percentile{}}} {
		b := mustNew(t, Config{Rules: rules})
		wantPanic(t, "the context's", func() {
			Do(brokenContext{t.Context()}, b, func(context.Context) (int, error) { return 0, errDown })
		})
		if s := b.Stats(); s.Failures != 1 {
			t.Errorf("%s: got %d failures, want 1", way, s.Failures)
		}
	}
}

type brokenContext struct{ context.Context }

func (brokenContext) Err() error { panic("the context's") }

// A classifier that panics or ends the goroutine, and a function that is nil, count once through Do (REQ-B10, REQ-B18).
func TestDoCountsOnceWhatItsPartsSpoil(t *testing.T) {
	for name, tc := range map[string]struct {
		classify func(error) Outcome
		fn       func(context.Context) (int, error)
	}{
		"Classify panics": {func(error) Outcome { panic("boom") }, func(context.Context) (int, error) { return 0, errDown }},
		"Classify ends the goroutine": {
			func(error) Outcome { runtime.Goexit(); return Ignored },
			func(context.Context) (int, error) { return 0, errDown },
		},
		"Classify knows no outcome": {func(error) Outcome { return 99 }, func(context.Context) (int, error) { return 0, errDown }},
		"nil":                       {nil, nil},
	} {
		b := mustNew(t, Config{Classify: tc.classify})
		var wg sync.WaitGroup
		wg.Go(func() { // of its own, which Goexit may end
			defer func() { _ = recover() }()
			Do(t.Context(), b, tc.fn)
		})
		wg.Wait()
		if s := b.Stats(); s.Failures != 1 || s.Successes+s.Ignored+s.Late != 0 {
			t.Errorf("%s: got %+v, want one failure", name, s)
		}
	}
}

// A panic that goes through Do is the caller's own, unchanged, and a row of them opens (REQ-B10).
func TestPanicsOpen(t *testing.T) {
	b := mustNew(t, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}})
	for i := range 5 {
		wantPanic(t, i, func() { Do(t.Context(), b, func(context.Context) (int, error) { panic(i) }) })
	}
	wantState(t, b, Open)
	if _, err := Do(t.Context(), b, func(context.Context) (int, error) { return 1, nil }); err == nil {
		t.Error("an open breaker ran a call")
	}
}
