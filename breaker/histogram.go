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
type reading [histogramCells]uint32

func (h *histogram) read(to *reading) {
	for i := range to {
		to[i] = h.cells[i].Load()
	}
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

// since is the latency of the calls between two readings, but for the Span; before may be nil. It uses r up.
func (r *reading) since(before *reading) (l Latency) {
	for i := range r {
		if before != nil {
			r[i] -= before[i]
		}
		l.Calls += uint64(r[i])
	}
	l.P50, l.P95, l.P99 = rank(r, l.Calls, 50), rank(r, l.Calls, 95), rank(r, l.Calls, 99)
	return l
}

// rank is the percentile by nearest rank.
func rank(counts *reading, calls, percent uint64) time.Duration {
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
type readings struct {
	older, newer     *reading
	olderAt, newerAt time.Duration
}

// latency is what h has counted since the older one, or since it was born.
func (r *readings) latency(h *histogram, born, now time.Duration) Latency {
	var here reading
	h.read(&here)
	if r.newer == nil || now-r.newerAt >= histogramSpan {
		r.turn(&here, now)
	}
	l := here.since(r.older)
	l.Span = now - r.olderAt
	if r.older == nil {
		l.Span = now - born
	}
	return l
}

// turn has here be the newer one, in the room of the older one.
func (r *readings) turn(here *reading, now time.Duration) {
	room := r.older
	if room == nil {
		room = new(reading)
	}
	*room = *here
	r.older, r.olderAt = r.newer, r.newerAt
	r.newer, r.newerAt = room, now
}
