package breaker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// The floor is one atomic load and one atomic add, on lines of their own as in
// a Breaker. Ratios are to be taken to the floor of the same run.
type floor struct {
	word atomic.Uint64
	_    [lineSize]byte
	cell atomic.Uint64
	_    [lineSize]byte
}

var errBench = errors.New("down")

func benchBreaker(b *testing.B, c Config) *Breaker {
	b.Helper()
	br, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	return br
}

func timedConfig() Config {
	return Config{Rules: []Rule{ConsecutiveFailures{}, FailureRateByTime{}}}
}

func latencyConfig() Config {
	return Config{Rules: []Rule{ConsecutiveFailures{}, Percentile{}, CUSUM{}}}
}

func openBreaker(b *testing.B) *Breaker {
	b.Helper()
	br := benchBreaker(b, Config{Open: Backoff{Base: time.Hour, Max: time.Hour}})
	br.Trip(Reason{})
	return br
}

func halfOpenBreaker(b *testing.B, probe Probe) *Breaker {
	b.Helper()
	br := benchBreaker(b, Config{Probe: probe})
	br.mu.Lock()
	br.openLocked(Reason{})
	br.moveLocked(HalfOpen, Reason{})
	br.unlockAndDeliver()
	return br
}

func BenchmarkSerial(b *testing.B) {
	b.Run("op=floor", func(b *testing.B) {
		b.ReportAllocs()
		f := new(floor)
		for b.Loop() {
			if f.word.Load() == 0 {
				f.cell.Add(1)
			}
		}
	})
	b.Run("op=allow_done", func(b *testing.B) { benchAllowDone(b, Config{}) })
	b.Run("op=allow_done/rule=count", func(b *testing.B) {
		benchAllowDone(b, Config{Rules: []Rule{FailureRateByCount{}}})
	})
	b.Run("op=allow_done/rule=time", func(b *testing.B) { benchAllowDone(b, timedConfig()) })
	b.Run("op=floor/rule=latency", func(b *testing.B) {
		b.ReportAllocs()
		f, begin := new(floor), time.Now()
		for b.Loop() {
			began := time.Since(begin)
			f.word.Add(1)
			if time.Since(begin)-began >= 0 {
				f.cell.Add(1)
			}
		}
	})
	b.Run("op=allow_done/rule=latency", func(b *testing.B) { benchAllowDone(b, latencyConfig()) })
	b.Run("op=do", func(b *testing.B) { benchDo(b, Config{}) })
	b.Run("op=do/rule=time", func(b *testing.B) { benchDo(b, timedConfig()) })
	b.Run("op=reject/state=open", func(b *testing.B) { benchReject(b, openBreaker(b)) })
	b.Run("op=reject/state=half_open", func(b *testing.B) {
		br := halfOpenBreaker(b, Probe{Lease: time.Hour})
		if _, err := br.Allow(); err != nil {
			b.Fatal(err)
		}
		benchReject(b, br)
	})
	b.Run("op=reject/state=half_open/reserved=true", func(b *testing.B) {
		benchReject(b, halfOpenBreaker(b, Probe{Reserved: true}))
	})
	b.Run("op=failure", func(b *testing.B) {
		b.ReportAllocs()
		br := benchBreaker(b, Config{})
		if err := br.Force(ForcedClosed, ""); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			p, _ := br.Allow()
			p.Done(errBench)
		}
	})
}

func benchAllowDone(b *testing.B, c Config) {
	b.Helper()
	b.ReportAllocs()
	br := benchBreaker(b, c)
	for b.Loop() {
		p, err := br.Allow()
		if err != nil {
			b.Fatal(err)
		}
		p.Done(nil)
	}
}

func benchDo(b *testing.B, c Config) {
	b.Helper()
	b.ReportAllocs()
	br, ctx := benchBreaker(b, c), b.Context()
	fn := func(context.Context) (int, error) { return 1, nil }
	for b.Loop() {
		if _, err := Do(ctx, br, fn); err != nil {
			b.Fatal(err)
		}
	}
}

func benchReject(b *testing.B, br *Breaker) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := br.Allow(); err == nil {
			b.Fatal("admitted")
		}
	}
}

// BenchmarkParallel has a control with a counter for each goroutine: where
// even private counters do not scale, other work shares the processors.
func BenchmarkParallel(b *testing.B) {
	b.Run("op=private", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			f := new(floor)
			for pb.Next() {
				if f.word.Load() == 0 {
					f.cell.Add(1)
				}
			}
		})
	})
	b.Run("op=floor", func(b *testing.B) {
		b.ReportAllocs()
		f := new(floor)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if f.word.Load() == 0 {
					f.cell.Add(1)
				}
			}
		})
	})
	b.Run("op=allow_done", func(b *testing.B) { parallelAllowDone(b, Config{}) })
	b.Run("op=allow_done/rule=time", func(b *testing.B) { parallelAllowDone(b, timedConfig()) })
	b.Run("op=reject/state=open", func(b *testing.B) {
		b.ReportAllocs()
		br := openBreaker(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := br.Allow(); err == nil {
					b.Error("admitted")
				}
			}
		})
	})
}

func parallelAllowDone(b *testing.B, c Config) {
	b.Helper()
	b.ReportAllocs()
	br := benchBreaker(b, c)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p, err := br.Allow()
			if err != nil {
				b.Error(err)
			}
			p.Done(nil)
		}
	})
}

// BenchmarkPadding shows what it costs that a word which calls read and a cell to which they add are on one
// line, as in a Breaker until it has its stripes.
func BenchmarkPadding(b *testing.B) {
	b.Run("apart=true", func(b *testing.B) {
		f := new(floor)
		benchPair(b, &f.word, &f.cell)
	})
	b.Run("apart=false", func(b *testing.B) {
		f := new(struct{ word, cell atomic.Uint64 })
		benchPair(b, &f.word, &f.cell)
	})
}

func benchPair(b *testing.B, word, cell *atomic.Uint64) {
	b.Helper()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if word.Load() == 0 {
				cell.Add(1)
			}
		}
	})
}
