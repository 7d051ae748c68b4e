package breaker

import (
	"context"
	"testing"
	"time"
	"unsafe"
)

// REQ-B3, REQ-B4: what a call may not allocate.
func TestNoAllocations(t *testing.T) {
	timed := mustNew(t, Config{Rules: []Rule{FailureRateByTime{}, FailureRateByCount{}}})
	latency := mustNew(t, Config{Rules: []Rule{Percentile{}, CUSUM{}, SlowCallRate{Threshold: time.Second}}})
	plain := mustNew(t, Config{})
	open := mustNew(t, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}})
	open.Trip(Reason{})
	half := mustNew(t, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}})
	half.Trip(Reason{})
	half.wake(1)
	start(t, half)
	forced := mustNew(t, Config{})
	if err := forced.Force(ForcedClosed, ""); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	fn := func(context.Context) (int, error) { return 1, nil }
	for _, tc := range []struct {
		name string
		f    func()
	}{
		{"closed", func() { run(plain, nil) }},
		{"closed, ignored", func() { run(plain, context.Canceled) }},
		{"closed, time window", func() { run(timed, nil) }},
		{"closed, latency rules", func() { run(latency, nil) }},
		{"closed, Do", func() { Do(ctx, plain, fn) }},
		{"closed, latency rules, Do", func() { Do(ctx, latency, fn) }},
		{"closed, DoOr", func() { DoOr(ctx, plain, fn, Fallback[int]{}) }},
		{"forced closed, failure", func() { run(forced, errDown) }},
		{"open", func() { run(open, nil) }},
		{"open, Do", func() { Do(ctx, open, fn) }},
		{"half-open, all probes given out", func() { run(half, nil) }},
		{"State", func() { plain.State() }},
		{"Stats", func() { plain.Stats() }},
		{"Stats, latency rules", func() { latency.Stats() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := testing.AllocsPerRun(1000, tc.f); got != 0 {
				t.Errorf("allocations: got %v, want 0", got)
			}
		})
	}
}

// One typed error an opening, not one a refusal.
func TestRefusalIsMadeOncePerOpening(t *testing.T) {
	b := mustNew(t, Config{})
	b.Trip(Reason{})
	_, first := b.Allow()
	_, second := b.Allow()
	if first != second { //nolint:errorlint // identity is the point
		t.Error("two refusals of one opening are different errors")
	}
}

// The sizes that the package documentation states (REQ-B3).
func TestDocumentedSizes(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want uintptr
	}{
		{"Permit", unsafe.Sizeof(Permit{}), 32},
		{"Breaker", unsafe.Sizeof(Breaker{}), 640}, // its size class,
		{"stripes", unsafe.Sizeof(stripes{}), 2048},
		{"time window", unsafe.Sizeof(timeWindow{}), 256},
	} {
		t.Logf("%s: %d bytes", tc.name, tc.got)
		if tc.got > tc.want {
			t.Errorf("%s: got %d bytes, documented as at most %d", tc.name, tc.got, tc.want)
		}
	}
	for _, tc := range []struct {
		name  string
		rules []Rule
		want  uint64
	}{
		{"default", nil, 1000},
		{"count", []Rule{FailureRateByCount{}}, 1600},
		{"time", []Rule{FailureRateByTime{}}, 1400},
		{"latency", []Rule{ConsecutiveFailures{}, Percentile{}, CUSUM{}}, 4800},
		{"all four", []Rule{ConsecutiveFailures{}, FailureRateByCount{}, FailureRateByTime{}, lagRule()}, 2400},
	} {
		const n = 1000
		keep := make([]*Breaker, n)
		before := heapInUse()
		for i := range keep {
			keep[i] = mustNew(t, Config{Rules: tc.rules})
			run(keep[i], errDown)
		}
		got := (heapInUse() - before) / n
		t.Logf("rules %s: %d bytes a breaker", tc.name, got)
		if got > tc.want {
			t.Errorf("rules %s: got %d bytes a breaker, documented as at most %d", tc.name, got, tc.want)
		}
		keep[0].State()
	}
}
