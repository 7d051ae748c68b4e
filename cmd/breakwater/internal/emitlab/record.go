package emitlab

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/emit"
)

// phase is the part of a run that an emit belongs to, by its begin.
type phase uint8

const (
	warmup phase = iota // counted, but in no percentile
	calm
	during
	after
	phases
)

// record is one emit.
type record struct {
	begin, took time.Duration
	phase       phase
	priority    uint8
	out         outcome // 0: under way
	evicted     bool    // it was stored, and had to make room
}

// moved is a breaker's change of state.
type moved struct {
	at   time.Duration
	to   breaker.State
	rule string
}

// target is one consumer with what was emitted to it. Its methods may be called from any goroutine.
type target struct {
	name    string            // immutable
	process *consumer.Process // immutable

	mu struct {
		sync.Mutex
		records []record // by number
		ended   int
		refused map[string]int // by why
		skipped int
		moves   []moved
		second  second

		brokenFrom  time.Duration // when the fault was asked for; 0: never
		brokenAt    time.Duration // when it was there for certain
		mendedAt    time.Duration
		firstReturn time.Duration // of a live call that began with the fault there; 0: none
		openCalls   int           // live calls made while its breaker was open
	}
}

// second is what is counted anew each second.
type second struct {
	emitted int
	by      [5]int // by outcome
	took    []time.Duration
}

// begin notes an emit and returns its number.
func (t *target) begin(p phase, priority int, at time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.records = append(t.mu.records, record{begin: at, phase: p, priority: uint8(priority)}) //nolint:gosec // below MaxPriorities
	return len(t.mu.records) - 1
}

func (t *target) end(n int, at time.Duration, out outcome, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.mu.records[n]
	r.took, r.out = at-r.begin, out
	t.mu.ended++
	if out == emit.Refused {
		t.mu.refused[why]++
	}
	t.mu.second.emitted++
	t.mu.second.by[out]++
	t.mu.second.took = append(t.mu.second.took, r.took)
}

func (t *target) skip() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.skipped++
}

// counts are the emits that ended and that began.
func (t *target) counts() (ended, begun int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.ended, len(t.mu.records)
}

// evict notes that a stored trigger had to make room.
func (t *target) evict(id string) {
	n, ok := t.numberOf(id)
	if !ok {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.records[n].evicted = true
}

// id is that of the trigger with a number.
func (t *target) id(n int) string { return t.name + "-" + strconv.Itoa(n) }

// numberOf is the number in an ID that was emitted to t.
func (t *target) numberOf(id string) (int, bool) {
	text, ours := strings.CutPrefix(id, t.name+"-")
	n, err := strconv.Atoi(text)
	_, begun := t.counts()
	return n, ours && err == nil && n >= 0 && n < begun
}

func (t *target) move(tr breaker.Transition, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.moves = append(t.mu.moves, moved{at, tr.To, tr.Reason.Rule})
}

func (t *target) closed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stateAtLocked(time.Duration(math.MaxInt64)) == breaker.Closed
}

func (t *target) stateAtLocked(at time.Duration) breaker.State {
	state := breaker.Closed
	for _, m := range t.mu.moves {
		if m.at > at {
			break
		}
		state = m.to
	}
	return state
}

// called notes a delivery. emitted is when its emit began; negative: it is one of a dead letter.
func (t *target) called(emitted, begin, end time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if emitted < 0 {
		return
	}
	if t.mu.brokenAt > 0 && begin >= t.mu.brokenAt && (t.mu.firstReturn == 0 || end < t.mu.firstReturn) {
		t.mu.firstReturn = end
	}
	if t.openThroughoutLocked(emitted, begin) {
		t.mu.openCalls++
	}
}

// openThroughoutLocked tells whether the breaker was open from before an emit began until its call did: what is
// counted is certain.
func (t *target) openThroughoutLocked(from, to time.Duration) bool {
	if t.stateAtLocked(from) != breaker.Open {
		return false
	}
	return !slices.ContainsFunc(t.mu.moves, func(m moved) bool { return m.at > from && m.at <= to })
}

func (t *target) breaks(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.brokenFrom = at
}

func (t *target) broken(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.brokenAt = at
}

func (t *target) mended(at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.mendedAt = at
}

// endSecond returns what happened since it was last called.
func (t *target) endSecond() second {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := t.mu.second
	t.mu.second = second{}
	return ended
}

// figures are percentiles of how long emits took, in ms; null where there were none.
type figures []time.Duration

// percentile is the shortest duration that at least so large a part of all are no longer than (nearest rank).
func (f figures) percentile(part float64) *float64 {
	if len(f) == 0 {
		return nil
	}
	rank := int(math.Ceil(part*float64(len(f)))) - 1
	return new(ms(f[max(rank, 0)]))
}

func sorted(all []time.Duration) figures {
	slices.Sort(all)
	return all
}

// ms is a duration in milliseconds, to the microsecond.
func ms(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}

// starts notes that an emit runs now: from then on it is measured.
func (t *target) starts(n int, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.records[n].begin = at
}
