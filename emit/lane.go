package emit

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/limit"
)

// A lane is one consumer with all that stands before it: its settings, immutable, and its state, which outlives them.
type lane struct {
	Consumer // with its defaults
	*state
	order    *keys // nil: not ordered
	noLabels bool
	retired  bool // in no Config any more
}

// state is what a lane keeps when its settings change.
type state struct {
	name      string
	r         *Router
	current   atomic.Pointer[lane] // the newest with this state; written under Router.mu
	breaker   *breaker.Breaker
	bulkhead  *limit.Bulkhead
	store     DeadLetters
	waits     bool                 // the store may have its caller wait
	keys      atomic.Pointer[keys] // nil: it was never ordered
	labels    context.Context      // with the profile label alone
	lastEpoch uint64               // the last one with this consumer; under Router.mu
	coming    bool                 // it is about to be in a Config again; under Router.mu

	count   counts
	took    histogram
	letters atomic.Bool  // letters may wait in the store
	later   atomic.Int64 // the consumer wants no call before; ns since Router.base
	ramped  atomic.Int64 // traffic is back in full from then on; ns since Router.base
	spent   atomic.Bool  // no letter can be a probe just now
	proven  atomic.Bool  // a probe succeeded in this half-open
	wakeup  chan struct{}
	results results // of attempts at letters
	calls   calls
	work    work // of the lane's goroutine
	demands demands
}

func newState(r *Router, c *Consumer, store DeadLetters) *state {
	s := &state{name: c.Name, r: r, store: store, waits: store.Durability() != InMemory, wakeup: make(chan struct{}, 1)}
	s.bulkhead, _ = limit.NewBulkhead(c.bulkheadConfig()) // both were checked
	s.breaker, _ = breaker.New(s.watched(c.breakerConfig()))
	if c.Ordered {
		s.keys.Store(newKeys())
	}
	s.labels = pprof.WithLabels(context.Background(), pprof.Labels("consumer", c.Name))
	s.work.claimed, s.work.pace = map[uint64]*claim{}, newPace()
	return s
}

// watched has the lane look at the breaker's transitions.
func (s *state) watched(b breaker.Config) breaker.Config {
	b.Observer.OnTransition = s.onTransition(b.Ramp.For, b.Observer.OnTransition)
	return b
}

func (s *state) onTransition(ramp time.Duration, also func(breaker.Transition)) func(breaker.Transition) {
	return func(t breaker.Transition) {
		if t.To == breaker.HalfOpen {
			s.proven.Store(false)
			s.spent.Store(false)
		}
		if t.From == breaker.HalfOpen && t.To == breaker.Closed {
			s.ramped.Store(int64(s.r.sinceBase() + ramp))
		}
		s.wake()
		s.r.tellTransition(t)
		if also != nil {
			also(t)
		}
	}
}

// reconfigure has breaker and bulkhead do as the newest settings say, which were checked.
func (s *state) reconfigure(old, c *Consumer) {
	b := s.watched(c.breakerConfig())
	if o := old.Breaker.Observer; o.OnWouldOpen != nil && b.Observer.OnWouldOpen == nil {
		b.Observer.OnWouldOpen = func(breaker.WouldOpen) {} // nil keeps the one before
	}
	if o := old.Breaker.Observer; o.OnFault != nil && b.Observer.OnFault == nil {
		b.Observer.OnFault = func(breaker.Fault) {}
	}
	_ = s.breaker.Reconfigure(b)
	_ = s.bulkhead.Reconfigure(c.bulkheadConfig())
	s.wake()
}

// wake has the lane's goroutine look again.
func (s *state) wake() {
	select {
	case s.wakeup <- struct{}{}:
	default:
	}
}

// emit delivers a trigger now, or sees to it that it is kept.
func (l *lane) emit(ctx context.Context, t Trigger, priority int, exited *Result) Result {
	began := l.r.sinceBase()
	defer l.timed(began)
	turn := l.order.begin(t.Key)
	left := l.Timeout
	if turn.keys != nil {
		left -= l.r.sinceBase() - began
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
	return time.Duration(at) - l.r.sinceBase()
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
	if !l.noLabels {
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
	until := int64(l.r.sinceBase() + after)
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
