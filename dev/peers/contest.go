package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// A contest is one piece of work.
type contest struct {
	id         string // in the JSON
	title      string // in the table
	contenders []contender
}

// A contender is one way to do the work.
type contender struct {
	id       string // in the JSON, after the contest's
	title    string // in the table
	ours     bool   // it must not allocate
	parallel bool   // it is measured on two processors too
	private  bool   // with a loop of its own for each goroutine
	setup    setup
}

// A setup makes what a contender needs, in the state that its contest wants.
type setup func() (loop, error)

// A loop makes n calls and returns how many of them went as the contest wants. Each
// contender has a loop of its own, so that the calls in it are direct ones.
type loop func(n int) (good int)

// refused is the loop for a contest that wants every call refused.
func refused(s setup) setup {
	return func() (loop, error) {
		admitted, err := s()
		return func(n int) int { return n - admitted(n) }, err
	}
}

// lineSize is as in package breaker: no two words share a cache line, or a pair of lines.
const lineSize = 128

// words are what the floors touch.
type words struct {
	word atomic.Uint64
	_    [lineSize]byte
	cell atomic.Uint64
	_    [lineSize]byte
}

// floor is one atomic load and one atomic add.
func floor() (loop, error) {
	f := new(words)
	return func(n int) (good int) {
		for range n {
			if f.word.Load() == 0 {
				f.cell.Add(1)
				good++
			}
		}
		return good
	}, nil
}

// arithmetic waits for nothing: it takes twice as long where two goroutines run on one core. Locked adds do not, since
// one thread of a core waits for its own while the other goes on.
func arithmetic() (loop, error) {
	return func(n int) (good int) {
		a, b, c, d, e, f, g, h := 1, 2, 3, 4, 5, 6, 7, 8
		for range n {
			a, b, c, d = a<<1^a+1, b<<1^b+3, c<<1^c+5, d<<1^d+7
			e, f, g, h = e<<1^e+9, f<<1^f+11, g<<1^g+13, h<<1^h+15
			good++
		}
		if a^b^c^d^e^f^g^h == 0 { // never, but the compiler does not know
			good--
		}
		return good
	}, nil
}

// timedFloor is two looks at the clock and two atomic adds.
func timedFloor() (loop, error) {
	f, base := new(words), time.Now()
	return func(n int) (good int) {
		for range n {
			began := time.Since(base)
			f.word.Add(1)
			if time.Since(base) >= began {
				f.cell.Add(1)
				good++
			}
		}
		return good
	}, nil
}

// clockFloor is one look at the clock, one load and one compare-and-swap.
func clockFloor() (loop, error) {
	f, base := new(words), time.Now()
	return func(n int) (good int) {
		for range n {
			now := uint64(time.Since(base))
			if was := f.cell.Load(); f.cell.CompareAndSwap(was, now) {
				good++
			}
		}
		return good
	}, nil
}

// patience is how long a contender may take to get into its state.
const patience = 10 * time.Second

// until waits for a state that comes by itself.
func until(what string, holds func() bool) error {
	for begin := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			return fmt.Errorf("%s: not within %v", what, patience)
		}
	}
	return nil
}
