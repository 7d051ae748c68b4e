package replica

import (
	"cmp"
	"math"
	"slices"
)

// memoryRuns bounds the memory of primary positions: 17 minutes at 250 ms, more
// after thinning. A run takes 24 bytes, so 96 KiB.
const memoryRuns = 4096

// never is the instant before all others, in nanoseconds of the Set's clock. An
// instant minus never does not overflow, and exceeds every bound but Never.
const never = math.MinInt64 / 2

// run is one position of the primary and the time during which it was seen there.
type run struct {
	position uint64
	since    int64 // when the first look that saw its WAL flushed had returned; until then, the first that saw it
	lastSent int64 // when the last look that saw it was sent
}

// memory remembers when the primary was seen at which position, in ascending order
// of both. Equal positions extend a run, so an idle primary costs one entry.
// Its owner guards it.
type memory struct {
	runs    []run
	flushed int // runs at the front whose WAL is known to be flushed, so that a replica can have it
}

// record adds a look that was sent and received at these instants, with the position up to which WAL was
// flushed then. It reports false if the position went back: then the memory is of another history.
func (m *memory) record(position, flushed uint64, sent, recv int64) bool {
	if !m.add(position, sent, recv) {
		return false
	}
	m.flush(flushed, recv)
	return true
}

// flush makes evidence, from now on, of the runs that are flushed.
func (m *memory) flush(flushed uint64, now int64) {
	for ; m.flushed < len(m.runs) && m.runs[m.flushed].position <= flushed; m.flushed++ {
		m.runs[m.flushed].since = now
	}
}

func (m *memory) add(position uint64, sent, recv int64) bool {
	if n := len(m.runs); n > 0 {
		last := &m.runs[n-1]
		if position < last.position {
			return false
		}
		if position == last.position {
			last.lastSent = max(last.lastSent, sent)
			return true
		}
	}
	if len(m.runs) == memoryRuns {
		m.thin()
	}
	m.runs = append(m.runs, run{position, recv, sent})
	return true
}

// thin drops every other run of the older half. A look-up then finds an older run
// below and a newer one above: Hi grows, Lo shrinks, so both stay bounds.
func (m *memory) thin() {
	half, flushed := len(m.runs)/2, 0
	kept := m.runs[:0]
	for i, r := range m.runs {
		if i >= half || i%2 == 0 {
			kept = append(kept, r)
			if i < m.flushed {
				flushed++
			}
		}
	}
	m.runs, m.flushed = kept, flushed
}

func (m *memory) reset() { m.runs, m.flushed = m.runs[:0], 0 }

// above returns the index of the first run with a position over p.
func (m *memory) above(p uint64) int {
	i, found := slices.BinarySearchFunc(m.runs, p, func(r run, p uint64) int { return cmp.Compare(r.position, p) })
	if found {
		return i + 1
	}
	return i
}

// asOf returns the instant before which every acknowledged commit is held by who
// has replayed up to p; never if no run says so.
func (m *memory) asOf(p uint64) int64 {
	if i := m.above(p); i > 0 {
		return m.runs[i-1].lastSent
	}
	return never
}

// missingSince returns the instant at which the primary was known to have flushed WAL past p, up to the end
// of a record. What it has not flushed no replica can have: it is no evidence of lag.
func (m *memory) missingSince(p uint64) (at int64, ok bool) {
	if i := m.above(p); i < m.flushed {
		return m.runs[i].since, true
	}
	return 0, false
}

// unflushedSince returns when the oldest position that is not known to be flushed was first seen.
func (m *memory) unflushedSince() (at int64, ok bool) {
	if m.flushed < len(m.runs) {
		return m.runs[m.flushed].since, true
	}
	return 0, false
}

// newest returns the last position seen.
func (m *memory) newest() (position uint64, ok bool) {
	if n := len(m.runs); n > 0 {
		return m.runs[n-1].position, true
	}
	return 0, false
}
