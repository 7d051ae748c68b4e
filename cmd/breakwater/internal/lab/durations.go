package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// maxKept bounds the memory of a phase: percentiles are exact up to so many
// durations, and those of a uniform sample of so many beyond.
const maxKept = 1 << 18

// Durations collects how long things took. The zero value is empty; it is for one goroutine at a time.
type Durations struct {
	kept []time.Duration
	seen int
}

// Add adds one.
func (d *Durations) Add(v time.Duration) {
	d.seen++
	if len(d.kept) < maxKept {
		d.kept = append(d.kept, v)
		return
	}
	if i := rand.IntN(d.seen); i < maxKept { // Vitter's algorithm R
		d.kept[i] = v
	}
}

// Percentiles returns the smallest durations that at least so large a part of all
// are no longer than (nearest rank), in ms; null if there were none.
func (d *Durations) Percentiles(parts ...float64) []*float64 {
	sorted := slices.Sorted(slices.Values(d.kept))
	out := make([]*float64, len(parts))
	for i, p := range parts {
		if len(sorted) > 0 {
			rank := int(math.Ceil(p*float64(len(sorted)))) - 1
			out[i] = new(ms(sorted[max(rank, 0)]))
		}
	}
	return out
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
