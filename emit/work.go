package emit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// work is what a lane's goroutine knows: probes and replays. Nobody else touches it.
type work struct {
	probes   int               // at once; those of lane
	lane     *lane             // whose settings are taken in
	claimed  map[uint64]*claim // attempts under way
	pending  []Settlement      // results that the store has not taken yet
	pace     pace
	holdOff  time.Duration // no attempt before: the store failed
	lost     bool          // a probe was lost in this half-open
	stopping bool
	unsaved  int // settlements that failed since then
}

// A claim is a letter under way.
type claim struct {
	letter Letter
	lostAt time.Duration // it has lasted for longer than the lease then
	probe  bool
	lost   bool // it has
	demand *demand
}

// A result is the end of an attempt.
type result struct {
	seq  uint64
	took time.Duration
	err  error
	// untried: the breaker or the bulkhead refused.
	untried bool
}

// adopt takes in the newest settings.
func (w *work) adopt(l *lane) {
	if w.lane != l {
		w.lane = l
		w.probes, w.pace.share = max(1, l.breakerConfig().Probe.Concurrent), l.Replay.Share
	}
}

// results are the ends of attempts that the lane's goroutine has not seen yet.
type results struct {
	mu struct {
		sync.Mutex
		all []result // at most one for each attempt under way
	}
}

func (r *results) add(x result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.all = append(r.mu.all, x)
}

func (r *results) take() []result {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.mu.all
	r.mu.all = nil
	return all
}

// busy is how many attempts are under way and not lost.
func (w *work) busy() (n int) {
	for _, c := range w.claimed {
		if !c.lost {
			n++
		}
	}
	return n
}

const (
	pollEvery      = 50 * time.Millisecond // how often the store is asked again for letters that are not due
	storeRetry     = 100 * time.Millisecond
	lastTries      = 3                     // of a settlement, when the Router ends
	triedSoon      = 10 * time.Millisecond // after the bulkhead or the breaker refused an attempt
	forever        = time.Duration(math.MaxInt64)
	firstBackoff   = 100 * time.Millisecond
	longestBackoff = 10 * time.Second
	probeBackoff   = 4 * time.Second // two of the longest open periods
)

// run is the lane's goroutine.
func (s *state) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		select {
		case <-stop:
			s.work.stopping, stop = true, nil
		case <-s.wakeup:
		case <-timer.C:
		}
		l := s.current.Load()
		s.work.adopt(l)
		for _, r := range s.results.take() { // all that are there are settled in one step
			l.ended(r)
		}
		l.settle(ctx)
		if len(s.work.claimed) == 0 && (s.work.stopping || l.retired && s.r.leaves(s)) {
			return
		}
		if wait := min(l.step(ctx), s.recount(ctx)); wait < forever {
			timer.Reset(wait)
		}
	}
}

// recount counts the keys of what is stored, once all emits have ended that did not, and returns when to look again.
func (s *state) recount(ctx context.Context) time.Duration {
	keys := s.keys.Load()
	epoch := keys.frozen()
	if epoch == 0 || s.work.stopping || !s.r.isOver(epoch) { // the end of an epoch wakes
		return forever
	}
	if _, err := s.hold(ctx, Filter{Parked: new(false)}); err != nil {
		s.r.fault(s.name, fmt.Errorf("emit: keys of %s: %w", s.name, err))
		return storeRetry
	}
	keys.thaw()
	s.wake() // what was taken off meanwhile may be forgotten
	return forever
}

// step begins what may begin now, and returns when to look again.
func (l *lane) step(ctx context.Context) time.Duration {
	w, now := &l.work, l.r.sinceBase()
	w.pace.measure(now, l.count.arrived.Load(), l.count.received.Load())
	switch {
	case len(w.pending) > 0:
		l.spent.Store(true) // the store fails: live triggers find out whether the consumer is well
		return storeRetry
	case w.stopping, l.retired:
		return forever
	case now < w.holdOff:
		return w.holdOff - now
	case l.untilLater() > 0:
		return l.untilLater()
	}
	switch l.breaker.State() {
	case breaker.HalfOpen:
		return min(l.probe(ctx, now), l.watchLease(now))
	case breaker.Open, breaker.ForcedOpen:
		w.lost = false
		return forever // a transition wakes
	default:
		w.lost = false
		return l.replay(ctx, now)
	}
}

// probe has as many letters tried as there may be probes: due ones first, so that one that failed goes to the
// end of the row, then any.
func (l *lane) probe(ctx context.Context, now time.Duration) time.Duration {
	w := &l.work
	free := w.probes - w.busy()
	if free <= 0 || !l.letters.Load() {
		return forever
	}
	if !l.proven.Load() {
		free = min(free, 1-w.busy()) // one alone finds out whether it answers at all
	}
	if free <= 0 {
		return forever
	}
	f := Filter{Now: time.Now()}
	n, err := l.take(ctx, f, free, now, nil, true)
	if n == 0 && err == nil && !l.proven.Load() {
		f.Now = time.Time{}
		n, err = l.take(ctx, f, free, now, nil, true)
	}
	l.spent.Store(n == 0) // then live triggers are probes too: what is left waits after a failure, or the store fails
	return l.next(n, err)
}

// next is when to look again after a claim of n letters.
func (l *lane) next(n int, err error) time.Duration {
	switch {
	case err != nil:
		l.work.holdOff = l.r.sinceBase() + storeRetry
		return storeRetry
	case n > 0:
		return forever // a result wakes
	case l.empty():
		return forever
	}
	return pollEvery
}

// empty finds out whether letters wait.
func (l *lane) empty() bool {
	l.letters.Store(false) // before the look: a letter that comes after it sets it again
	waiting := func() bool {
		d := l.store.Depths()[l.Name]
		return d.Letters > d.Parked
	}
	if waiting() {
		l.letters.Store(true)
		return false
	}
	l.keys.Load().forget(func() bool { return !waiting() })
	return true
}

// watchLease gives an attempt up that has lasted for too long, and makes room for another; a probe counts as failed, once a half-open.
func (l *lane) watchLease(now time.Duration) time.Duration {
	w := &l.work
	wait := forever
	for _, c := range w.claimed {
		if c.lost {
			continue
		}
		if left := c.lostAt - now; left > 0 {
			wait = min(wait, left)
			continue
		}
		c.lost, w.lost, wait = true, w.lost || c.probe, 0
	}
	if w.lost {
		w.lost = false
		l.breaker.Trip(breaker.Reason{Rule: "probe_lost", Value: l.lease().Seconds(), Unit: "s", Detail: "a probe did not end in time"})
	}
	return wait
}

// lease is how long a probe may take that ends by Slow.
func (l *lane) lease() time.Duration { return 2*l.Slow + time.Second }

// replay begins attempts as the pace allows.
func (l *lane) replay(ctx context.Context, now time.Duration) time.Duration {
	w := &l.work
	if !l.letters.Load() {
		return forever
	}
	if left := time.Duration(l.ramped.Load()) - now; left > 0 {
		return left // live traffic comes back first
	}
	for {
		inFlight, mine := l.bulkhead.Stats().InFlight, w.busy()
		free := w.pace.room(l.Bulkhead, inFlight, mine)
		switch {
		case free <= 0 && inFlight <= mine:
			return forever // a result wakes
		case free <= 0:
			return triedSoon // yields to live traffic
		}
		n, wait := w.pace.most(now, free)
		if n == 0 {
			return wait
		}
		taken, err := l.takeDue(ctx, now, n)
		w.pace.giveBack(n - taken)
		if taken < n || err != nil {
			return l.next(taken, err)
		}
	}
}

// takeDue begins up to n attempts: at what a caller of Replay waits for, else at what is due.
func (l *lane) takeDue(ctx context.Context, now time.Duration, n int) (int, error) {
	due := Filter{Now: time.Now()}
	for _, d := range l.demands.list() {
		f := d.f
		f.Now = due.Now
		if taken, err := l.take(ctx, f, n, now, d, false); taken > 0 || err != nil {
			return taken, err
		}
	}
	if l.Replay.Manual {
		due.Reasons = []Reason{ReasonReceived}
	}
	return l.take(ctx, due, n, now, nil, false)
}

// take claims up to n letters and begins attempts at them.
func (l *lane) take(ctx context.Context, f Filter, n int, now time.Duration, d *demand, probe bool) (int, error) {
	if l.order != nil {
		f.InOrder, f.Skip = true, l.skip()
	}
	letters, err := l.store.Claim(ctx, l.Name, f, n)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			l.r.fault(l.Name, fmt.Errorf("emit: claim for %s: %w", l.Name, err))
		}
		return 0, err
	}
	parked := false
	for i := range letters {
		if l.work.claimed[letters[i].Seq] != nil {
			l.r.fault(l.Name, fmt.Errorf("emit: claim for %s: letter %d was given out twice", l.Name, letters[i].Seq))
			continue
		}
		if poisoned(&letters[i]) {
			l.poison(&letters[i])
			parked = true
			continue
		}
		lostAt := now + l.lease()
		if !probe {
			lostAt += l.Timeout
		}
		l.work.claimed[letters[i].Seq] = &claim{letter: letters[i], lostAt: lostAt, probe: probe, demand: d}
		l.r.owned.Go(func() { l.try(&letters[i], probe) }) //nolint:contextcheck // an attempt goes on while the lane's goroutine stops
	}
	if parked {
		l.settle(ctx)
		l.wake()
	}
	return len(letters), nil
}

// skip tells keys of which a trigger or a letter is being delivered: a store passes over what is behind a claimed letter, but one that was sent back
// may stand before it.
func (l *lane) skip() func(key string) bool {
	claimed := map[string]bool{}
	for _, c := range l.work.claimed {
		claimed[c.letter.Trigger.Key] = true
	}
	return func(key string) bool { return claimed[key] || l.order.live(key) }
}

// poisoned reports whether all attempts that are remembered crashed or panicked.
func poisoned(letter *Letter) bool {
	return len(letter.Last) == KeptAttempts && !slices.ContainsFunc(letter.Last, func(a Attempt) bool { return !a.crashed() })
}

// try is one attempt at a letter, on a goroutine of its own.
func (l *lane) try(letter *Letter, probe bool) {
	res := result{seq: letter.Seq, untried: true}
	defer func() { l.results.add(res); l.wake() }()
	allow := l.breaker.Allow
	timeout := l.Timeout
	if probe {
		allow, timeout = l.breaker.AllowProbe, min(l.Timeout, l.Slow)
	}
	permit, err := allow()
	if err != nil {
		return
	}
	slot, ok := l.bulkhead.Acquire()
	if !ok {
		permit.DoneAs(breaker.Ignored, nil)
		return
	}
	began := time.Now()
	res.untried, res.err = false, errGoexit
	res.err = l.attempt(context.Background(), letter.Trigger, timeout, &permit, &slot, role{probe: probe, again: letter.Attempts > 1})
	res.took = time.Since(began)
}
