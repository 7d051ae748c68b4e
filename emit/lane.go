package emit

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/limit"
)

// A lane is one consumer with all that stands before it.
type lane struct {
	Consumer // with its defaults; immutable
	r        *Router
	breaker  *breaker.Breaker
	bulkhead *limit.Bulkhead
	store    DeadLetters
	keys     *keys           // nil: not ordered
	labels   context.Context // with the profile label alone

	count   counts
	letters atomic.Bool  // letters may wait in the store
	later   atomic.Int64 // the consumer wants no call before; ns since Router.base
	ramped  atomic.Int64 // traffic is back in full from then on; ns since Router.base
	spent   atomic.Bool  // no letter can be a probe just now
	proven  atomic.Bool  // a probe succeeded in this half-open
	wakeup  chan struct{}
	results chan result // of attempts at letters; room for all of them
	calls   calls
	work    work // of the lane's goroutine
	demands demands
}

func newLane(r *Router, c Consumer) *lane {
	l := &lane{Consumer: c, r: r, store: c.DeadLetters, wakeup: make(chan struct{}, 1)}
	l.bulkhead, _ = limit.NewBulkhead(limit.BulkheadConfig{Limit: c.Bulkhead, MaxWaiting: -1}) // both were checked
	b := c.breaker()
	b.Observer.OnTransition = l.onTransition(b.Ramp.For, b.Observer.OnTransition)
	l.breaker, _ = breaker.New(b)
	if c.Ordered {
		l.keys = newKeys()
	}
	l.labels = pprof.WithLabels(context.Background(), pprof.Labels("consumer", c.Name))
	l.work.init(l, max(1, b.Probe.Concurrent))
	l.results = make(chan result, max(l.work.probes, l.Bulkhead)+l.Bulkhead) // lost ones hold a slot each
	return l
}

func (l *lane) onTransition(ramp time.Duration, also func(breaker.Transition)) func(breaker.Transition) {
	return func(t breaker.Transition) {
		if t.To == breaker.HalfOpen {
			l.proven.Store(false)
			l.spent.Store(false)
		}
		if t.From == breaker.HalfOpen && t.To == breaker.Closed {
			l.ramped.Store(int64(l.r.now() + ramp))
		}
		l.wake()
		l.r.tellTransition(t)
		if also != nil {
			also(t)
		}
	}
}

// wake has the lane's goroutine look again.
func (l *lane) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// emit delivers a trigger now, or sees to it that it is kept.
func (l *lane) emit(ctx context.Context, t Trigger, priority int, exited *Result) Result {
	began := time.Now()
	turn := l.keys.begin(t.Key)
	left := l.Timeout
	if turn.keys != nil {
		left -= time.Since(began)
	}
	if turn.held || left < l.Slow { // with less a consumer that is well would look sick
		l.count.received.Add(1)
		return l.divert(ctx, t, priority, &turn, ReasonBehind, nil, false)
	}
	l.count.arrived.Add(1)
	permit, slot, probing, reason, err := l.admit()
	if err != nil || reason != "" {
		return l.divert(ctx, t, priority, &turn, reason, err, false)
	}
	if probing {
		left = min(left, l.Slow)
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		// The Sink ended the goroutine by runtime.Goexit, which goes on.
		if result := l.divert(ctx, t, priority, &turn, ReasonFailed, errGoexit, true); exited != nil {
			*exited = result
		}
	}()
	failed := l.attempt(ctx, t, left, &permit, &slot, role{probe: probing})
	returned = true
	if failed == nil {
		turn.end(false)
		l.count.delivered.Add(1)
		return Result{Consumer: l.Name, Outcome: Delivered}
	}
	return l.divert(ctx, t, priority, &turn, l.reasonOf(failed), failed, true)
}

// admit asks the breaker and the bulkhead. A live trigger is a probe only where no letter could be one.
func (l *lane) admit() (permit breaker.Permit, slot limit.Permit, probing bool, why Reason, err error) {
	permit, err = l.breaker.Allow()
	if err != nil && l.breaker.State() == breaker.HalfOpen && (!l.letters.Load() || l.spent.Load()) && l.untilLater() <= 0 {
		permit, err = l.breaker.AllowProbe()
		probing = err == nil
	}
	if err != nil {
		if l.breaker.State() == breaker.ForcedOpen {
			return permit, slot, false, ReasonForcedOpen, err
		}
		return permit, slot, false, ReasonOpen, err
	}
	slot, ok := l.bulkhead.Acquire()
	if !ok {
		permit.DoneAs(breaker.Ignored, nil)
		return permit, slot, false, ReasonBulkhead, nil
	}
	return permit, slot, probing, "", nil
}

// untilLater is for how long the consumer wants no call.
func (l *lane) untilLater() time.Duration {
	at := l.later.Load()
	if at == 0 {
		return 0
	}
	return time.Duration(at) - l.r.now()
}

// A role is what a delivery is to the breaker.
type role struct {
	probe bool
	again bool // at a letter that has failed more than once: perhaps it is the letter
}

// attempt delivers once, and tells the breaker. A Sink's panic is an error, a *panicError.
func (l *lane) attempt(ctx context.Context, t Trigger, timeout time.Duration, permit *breaker.Permit, slot *limit.Permit, as role) (err error) {
	call, cancel := context.WithTimeout(ctx, timeout)
	at := l.calls.add(cancel)
	ended := false
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{fmt.Sprint("panic: ", v)}
			l.r.fault(l.Name, fmt.Errorf("emit: the sink of %s panicked: %v", l.Name, v))
		} else if !ended {
			err = errGoexit
		}
		l.calls.drop(at)
		slot.Release()
		l.report(ctx, call, err, permit, as)
		cancel()
	}()
	if !l.r.noLabels {
		pprof.SetGoroutineLabels(l.labels) //nolint:contextcheck // the labels only: it allocates nothing so
		defer pprof.SetGoroutineLabels(ctx)
	}
	err = sound(l.Sink.Deliver(call, t))
	ended = true
	return err
}

// sound asks an error what it is asked later, so that one whose methods panic, as those of a nil pointer, is a panic of the Sink's.
func sound(err error) error {
	if err != nil {
		_, _ = err.Error(), errors.Is(err, ErrRejected)
	}
	return err
}

// report tells the breaker how a delivery ended (REQ-E15). A caller that went away, or a Router that ends, says nothing
// about the consumer; by its age the call may still have been slow. Nor does a letter that has failed before and fails again at once, where
// the consumer takes others.
func (l *lane) report(ctx, call context.Context, err error, permit *breaker.Permit, as role) {
	later, isLater := errors.AsType[*LaterError](err)
	switch {
	case err == nil, errors.Is(err, ErrRejected):
		permit.DoneAs(breaker.Success, nil)
		if as.probe {
			l.proven.Store(true)
		}
	case !isLater && (ctx.Err() != nil || l.calls.ended()):
		permit.DoneAs(breaker.Ignored, err)
	case as.probe && !l.proven.Load():
		permit.DoneAs(breaker.Fatal, err) // the first probe failed: the verdict needs no other
	case as.probe && as.again && !isLater && call.Err() == nil:
		permit.DoneAs(breaker.Ignored, err)
	default:
		permit.DoneAs(breaker.Failure, err)
	}
	if isLater {
		l.leaveAlone(later)
	}
}

// longestLater bounds what a consumer may ask for.
const longestLater = 10 * time.Minute

// leaveAlone does as a consumer asks that wants no call for some time.
func (l *lane) leaveAlone(e *LaterError) {
	after := min(max(e.After, 0), longestLater)
	until := int64(l.r.now() + after)
	for {
		at := l.later.Load()
		if at >= until || l.later.CompareAndSwap(at, until) { // ends: later only grows
			break
		}
	}
	l.breaker.TripFor(after, breaker.Reason{Rule: breaker.RuleRetryAfter, Value: after.Seconds(), Unit: "s"})
}

var errGoexit = &panicError{"panic: the sink ended its goroutine"}

// A panicError is the end of a delivery by a panic.
type panicError struct{ text string }

func (e *panicError) Error() string { return e.text }

func (l *lane) reasonOf(err error) Reason {
	switch {
	case errors.Is(err, ErrRejected):
		return ReasonRejected
	case l.calls.ended() && errors.Is(err, context.Canceled):
		return ReasonShutdown
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return ReasonTimeout
	}
	return ReasonFailed
}

// divert keeps a trigger that was not delivered, and ends its turn.
func (l *lane) divert(ctx context.Context, t Trigger, priority int, turn *turn, why Reason, cause error, tried bool) Result {
	if l.Degrade == nil {
		return l.put(ctx, t, priority, turn, why, cause, tried)
	}
	returned := false
	defer func() {
		if !returned { // Degrade ended the goroutine by runtime.Goexit, which goes on
			l.put(ctx, t, priority, turn, why, cause, tried)
		}
	}()
	done := l.degrade(ctx, t, why)
	returned = true
	if !done {
		return l.put(ctx, t, priority, turn, why, cause, tried)
	}
	turn.end(false)
	l.count.degraded.Add(1)
	return Result{Consumer: l.Name, Outcome: Delivered, Reason: why, Err: cause}
}

// put makes a letter of a trigger and stores it.
func (l *lane) put(ctx context.Context, t Trigger, priority int, turn *turn, why Reason, cause error, tried bool) Result {
	letter := Letter{Consumer: l.Name, Priority: priority, Trigger: t, Reason: why, StoredAt: time.Now(), Parked: why == ReasonRejected}
	if tried {
		letter.Attempts, letter.Last = 1, []Attempt{{At: letter.StoredAt, Err: attemptText(cause)}}
		if !letter.Parked {
			letter.NotBefore = letter.StoredAt.Add(backoff(1, cause))
		}
	}
	if err := l.keep(ctx, &letter, turn); err != nil {
		return Result{Consumer: l.Name, Outcome: outcomeOf(err), Reason: why, Err: err}
	}
	return Result{Consumer: l.Name, Outcome: Stored, Reason: why, Err: cause}
}

// degrade reports whether Degrade did.
func (l *lane) degrade(ctx context.Context, t Trigger, why Reason) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			l.r.fault(l.Name, fmt.Errorf("emit: Degrade of %s panicked: %v", l.Name, v))
			done = false
		}
	}()
	return l.Degrade(ctx, t, why) == nil
}

func outcomeOf(err error) Outcome {
	if errors.Is(err, ErrFull) {
		return Shed
	}
	return Refused
}

// keep stores a letter, and counts it: as stored before it is, so that it is in some count at every moment (REQ-E14). Observers are told
// when the trigger's turn has ended, since they may emit one of its key.
func (l *lane) keep(ctx context.Context, letter *Letter, turn *turn) error {
	l.count.diverted.Add(1)
	ctx, cancel := l.r.storing(ctx)
	defer cancel()
	evicted, err := l.append(ctx, letter, turn)
	for i := range evicted {
		l.r.tellShed(&evicted[i], ErrFull)
	}
	switch {
	case err == nil:
		l.count.by(letter.Reason).Add(1)
		if !letter.Parked {
			l.letters.Store(true)
			l.wake() // after the end of the turn: the letter's slot is free now
		} else {
			l.count.parked.Add(1)
			l.r.tell(l.r.observer.OnParked, letter)
		}
		l.r.tell(l.r.observer.OnStored, letter)
		return nil
	case outcomeOf(err) == Shed:
		l.count.shed.Add(1)
	default:
		l.count.unstored.Add(1)
		if !errors.Is(err, ErrBackPressure) && !errors.Is(err, ErrTooLarge) {
			l.r.fault(l.Name, err)
		}
	}
	l.r.tellShed(letter, err)
	return err
}

// append has the store keep a letter, and ends the trigger's turn, also if the store panics or ends the goroutine.
func (l *lane) append(ctx context.Context, letter *Letter, turn *turn) (evicted []Letter, err error) {
	stored := !letter.Parked
	defer func() { turn.end(stored) }()
	evicted, err = l.store.Append(ctx, *letter)
	l.r.evicted(evicted)
	stored = stored && err == nil
	return evicted, err
}

// received stores a trigger before the first try.
func (l *lane) received(ctx context.Context, t Trigger, priority int, _ *Result) Result {
	l.count.received.Add(1)
	turn := l.keys.begin(t.Key)
	letter := Letter{Consumer: l.Name, Priority: priority, Trigger: t, Reason: ReasonReceived, StoredAt: time.Now()}
	if err := l.keep(ctx, &letter, &turn); err != nil {
		return Result{Consumer: l.Name, Outcome: outcomeOf(err), Reason: ReasonReceived, Err: err}
	}
	return Result{Consumer: l.Name, Outcome: Stored, Reason: ReasonReceived}
}

// calls are the deliveries under way, so that a Router that ends can end them.
type calls struct {
	mu struct {
		sync.Mutex
		cancel []context.CancelFunc // nil: free
		free   []int
		ended  bool
	}
	over atomic.Bool // mu.ended
}

func (c *calls) add(cancel context.CancelFunc) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.ended {
		cancel()
	}
	if n := len(c.mu.free); n > 0 {
		at := c.mu.free[n-1]
		c.mu.free = c.mu.free[:n-1]
		c.mu.cancel[at] = cancel
		return at
	}
	c.mu.cancel = append(c.mu.cancel, cancel)
	return len(c.mu.cancel) - 1
}

func (c *calls) drop(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cancel[at] = nil
	c.mu.free = append(c.mu.free, at)
}

// end cancels every call under way and to come.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ended = true
	c.over.Store(true)
	for _, cancel := range c.mu.cancel {
		if cancel != nil {
			cancel()
		}
	}
}

func (c *calls) ended() bool { return c.over.Load() }

// attemptText is what an attempt keeps of its error. What a consumer says sounds like no crash or panic.
func attemptText(err error) string {
	text := err.Error()
	if _, panicked := err.(*panicError); !panicked && (Attempt{Err: text}).crashed() { //nolint:errorlint // it is never wrapped
		text = "error: " + text
	}
	return clip(text)
}

// crashed reports whether an attempt ended by a crash or a panic.
func (a Attempt) crashed() bool {
	return a.Err == AttemptCrashed || strings.HasPrefix(a.Err, "panic: ")
}
