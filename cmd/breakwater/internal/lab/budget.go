package lab

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// overBudget counts, of some fall-back reads, those with which an interval ends that holds more than burst + rate × t of them, and
// tells the most less rate × t. An interval is taken as long as it can have been: from the begin of its first read to the
// instant at which its last one was seen on its way.
func overBudget(reads []fallback, rate, burst float64) (violations int, most *float64) {
	reads = slices.Clone(reads)
	slices.SortFunc(reads, func(a, b fallback) int { return cmp.Compare(a.at, b.at) })
	all := newIntervals(reads, rate)
	for _, last := range reads {
		excess := all.add(last.begin) - rate*last.at.Seconds()
		if excess > burst {
			violations++
		}
		if most == nil || excess > *most {
			most = &excess
		}
	}
	return violations, most
}

// intervals are those that begin with a read, in the order of their begins: of each the number of reads that it holds, and rate × its
// begin. They stand in blocks, about as many as there are in a block, so that n reads cost n^1.5 and not n^2: a run may be long.
type intervals struct {
	begins []time.Duration
	excess []float64 // less what was added to the block
	size   int
	added  []float64 // by block
	top    []float64 // by block, the most of excess
}

func newIntervals(reads []fallback, rate float64) *intervals {
	v := &intervals{size: 1 + int(math.Sqrt(float64(len(reads))))}
	for _, r := range reads {
		v.begins = append(v.begins, r.begin)
	}
	slices.Sort(v.begins)
	for _, begin := range v.begins {
		v.excess = append(v.excess, rate*begin.Seconds())
	}
	for block := range slices.Chunk(v.excess, v.size) {
		v.top, v.added = append(v.top, slices.Max(block)), append(v.added, 0)
	}
	return v
}

// add counts a read in the intervals that began before it did, and returns the most of them.
func (v *intervals) add(begin time.Duration) float64 {
	end := sort.Search(len(v.begins), func(i int) bool { return v.begins[i] > begin })
	whole := end / v.size
	most := math.Inf(-1)
	for b := range whole {
		v.added[b]++
		most = max(most, v.top[b]+v.added[b])
	}
	for i := whole * v.size; i < end; i++ {
		v.excess[i]++
		v.top[whole] = max(v.top[whole], v.excess[i]) // it only grows
		most = max(most, v.excess[i]+v.added[whole])
	}
	return most
}
