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
	position  uint64
	firstRecv int64 // when the first look that saw it had returned
	lastSent  int64 // when the last look that saw it was sent
}

// memory remembers when the primary was seen at which position, in ascending order
// of both. Equal positions extend a run, so an idle primary costs one entry.
// Its owner guards it.
type memory struct{ runs []run }

// record adds a look that was sent and received at these instants. It reports false
// if the position went back: then the memory is of another history.
func (m *memory) record(position uint64, sent, recv int64) bool {
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
	half := len(m.runs) / 2
	kept := m.runs[:0]
	for i, r := range m.runs {
		if i >= half || i%2 == 0 {
			kept = append(kept, r)
		}
	}
	m.runs = kept
}

func (m *memory) reset() { m.runs = m.runs[:0] }

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

// missingSince returns the instant at which the primary was known to be past p.
func (m *memory) missingSince(p uint64) (at int64, ok bool) {
	if i := m.above(p); i < len(m.runs) {
		return m.runs[i].firstRecv, true
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
