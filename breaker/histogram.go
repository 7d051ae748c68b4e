package breaker

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// A histogram counts durations in cells of a 32nd of an octave (an error of up to 1.6 %),
// for people to read: no rule is decided by it. The layout is that of HDR histograms:
// linear below 32 units of 4.096 µs, where the error is 2 µs, then 32 cells an octave; the last cell takes all from 2.3 minutes on.
// 21 octaves are 2,688 bytes, which is a size that the allocator has: with 22 it would be 3,072.
type histogram struct {
	cells [histogramCells]atomic.Uint32
}

const (
	histogramUnit  = 12 // 2^12 ns
	octaveBits     = 5  // 32 cells an octave
	octaves        = 21
	histogramCells = octaves << octaveBits
)

func (h *histogram) record(d time.Duration, weight uint32) { h.cells[histogramCell(d)].Add(weight) }

// weightOf is what the n-th call of a tick that was not slow counts in a histogram: the
// first 16 count for themselves, of the others every eighth stands for eight. An add to a
// histogram costs as much as all else that is counted for a call.
func weightOf(n uint64) uint32 {
	switch {
	case n <= 16:
		return 1
	case n%8 == 0:
		return 8
	default:
		return 0
	}
}

// histogramCell is the cell of a duration.
func histogramCell(d time.Duration) int {
	v := uint64(max(d, 0)) >> histogramUnit
	if v < 1<<octaveBits {
		return int(v)
	}
	octave := bits.Len64(v) - octaveBits
	return min(octave<<octaveBits+int(v>>(octave-1))-1<<octaveBits, histogramCells-1)
}

// cellMiddle is the duration that stands for a cell.
func cellMiddle(cell int) time.Duration {
	octave := cell >> octaveBits
	if octave == 0 {
		return time.Duration(2*cell+1) << (histogramUnit - 1)
	}
	low := uint64(cell&(1<<octaveBits-1)+1<<octaveBits) << (octave - 1)
	return time.Duration(2*low+1<<(octave-1)) << (histogramUnit - 1)
}

// A reading is a histogram at one moment.
type reading struct {
	at    time.Duration
	cells [histogramCells]uint32
}

func (h *histogram) read(now time.Duration) *reading {
	r := &reading{at: now}
	for i := range r.cells {
		r.cells[i] = h.cells[i].Load()
	}
	return r
}

// Latency is how long calls took: those that succeeded or failed in the last Span. The
// percentiles are by nearest rank, with an error of up to 1.6 %, or 2 µs if that is more.
type Latency struct {
	// Span is how far back the figures go: 10 to 20 s where Stats is asked at least every 10 s, longer
	// where it is asked seldom, at first since measuring began. 0: not measured.
	Span          time.Duration
	Calls         uint64
	P50, P95, P99 time.Duration // 0 without calls
}

// since is the latency of the calls between two readings; before may be nil.
func (r *reading) since(before *reading) Latency {
	counts := r.cells
	l := Latency{Span: r.at}
	if before != nil {
		l.Span -= before.at
	}
	for i := range counts {
		if before != nil {
			counts[i] -= before.cells[i]
		}
		l.Calls += uint64(counts[i])
	}
	l.P50, l.P95, l.P99 = rank(&counts, l.Calls, 50), rank(&counts, l.Calls, 95), rank(&counts, l.Calls, 99)
	return l
}

// rank is the percentile by nearest rank.
func rank(counts *[histogramCells]uint32, calls, percent uint64) time.Duration {
	need := (calls*percent + 99) / 100
	for i, n := range counts {
		if uint64(n) >= need && need > 0 {
			return cellMiddle(i)
		}
		need -= uint64(n)
	}
	return 0
}

// histogramSpan is how long a reading stands before Stats takes the next one.
const histogramSpan = 10 * time.Second

// readings are the two that Stats measures from. They are made when Stats is first asked.
type readings struct{ older, newer *reading }

// latency is what h has counted since the older one, or since it was born.
func (r *readings) latency(h *histogram, born, now time.Duration) Latency {
	here := h.read(now)
	if r.newer == nil || now-r.newer.at >= histogramSpan {
		r.older, r.newer = r.newer, here
	}
	l := here.since(r.older)
	if r.older == nil {
		l.Span = now - born
	}
	return l
}
