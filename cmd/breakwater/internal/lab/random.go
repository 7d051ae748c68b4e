package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// step is one fault of scenario random, with its length.
type step struct {
	at, lasts time.Duration
	node      string
	fault     fault
}

// writerStep is one phase of the writer.
type writerStep struct {
	at   time.Duration
	mode writerMode
}

// plan is what scenario random will do: the same for the same seed, replicas and
// length. A node has one fault at a time; several nodes may have theirs at once.
type plan struct {
	steps  []step // by at
	writer []writerStep
}

const (
	planQuiet     = 3 * time.Second // at the start and, healed, at the end
	shortestStep  = 400 * time.Millisecond
	longestStep   = 6 * time.Second
	shortestPause = 2 * time.Second // long enough to be probed and re-admitted in
	longestPause  = 9 * time.Second
)

func makePlan(seed uint64, replicas []string, length time.Duration) plan {
	var p plan
	for i, node := range replicas {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for at := planQuiet + between(rng, 0, longestPause/2); ; {
			lasts := between(rng, shortestStep, longestStep)
			if at+lasts > length-planQuiet {
				break
			}
			p.steps = append(p.steps, step{at: at, lasts: lasts, node: node, fault: faults[rng.IntN(len(faults))]})
			at += lasts + between(rng, shortestPause, longestPause)
		}
	}
	slices.SortStableFunc(p.steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	p.writer = planWriter(rand.New(rand.NewPCG(seed, uint64(len(replicas)))), length)
	return p
}

// planWriter splits the run into phases of equal length, at least four, and goes
// through the writer's modes in a random order, all of them before any again.
func planWriter(rng *rand.Rand, length time.Duration) []writerStep {
	const usual = 6 * time.Second
	n := max(4, int(length/usual))
	var steps []writerStep
	for i := 0; i < n; {
		for _, k := range rng.Perm(len(writerModes)) {
			if i < n {
				steps = append(steps, writerStep{at: length * time.Duration(i) / time.Duration(n), mode: writerModes[k]})
				i++
			}
		}
	}
	return steps
}

func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

func (s step) String() string {
	return fmt.Sprintf("%v %s %s for %v", s.at.Round(time.Millisecond), s.fault.name, s.node, s.lasts.Round(time.Millisecond))
}
