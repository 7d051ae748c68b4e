package emit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

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
			l.r.tell(l.r.observer().OnParked, letter)
		}
		l.r.tell(l.r.observer().OnStored, letter)
		return nil
	case outcomeOf(err) == Shed:
		l.count.shed.Add(1)
	default:
		l.count.unstored.Add(1)
		if errors.Is(err, errNoAnswer) || !errors.Is(err, ErrBackPressure) && !errors.Is(err, ErrTooLarge) {
			l.r.fault(l.Name, err)
		}
	}
	l.r.tellShed(letter, err)
	return err
}

// append has the store keep a letter, and ends the trigger's turn, also if the store panics or ends the goroutine.
func (l *lane) append(ctx context.Context, letter *Letter, turn *turn) (evicted []Letter, err error) {
	stored := !letter.Parked
	if turn.keys == nil && stored {
		*turn = l.keys.Load().idle(letter.Trigger.Key)
	}
	defer func() { turn.end(stored) }()
	asked, cancel := l.asking(ctx)
	defer cancel()
	evicted, err = l.store.Append(asked, *letter)
	if err != nil && asked.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w: %w", ErrBackPressure, errNoAnswer, err)
	}
	l.r.evicted(evicted)
	stored = stored && err == nil
	return evicted, err
}

// storeTimeout bounds the wait for a store.
const storeTimeout = 5 * time.Second

var errNoAnswer = fmt.Errorf("no answer of the store within %v", storeTimeout)

// asking is a context in which the store is asked: that of the caller, or another where it has ended, which is bounded where the store may wait.
func (s *state) asking(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case ctx.Err() != nil:
		ctx = context.WithoutCancel(ctx)
	case !s.waits:
		return ctx, func() {} // it allocates nothing (REQ-E5)
	}
	return context.WithTimeout(ctx, storeTimeout)
}

// received stores a trigger before the first try.
func (l *lane) received(ctx context.Context, t Trigger, priority int, _ *Result) Result {
	defer l.timed(l.r.sinceBase())
	l.count.received.Add(1)
	turn := l.order.begin(t.Key)
	letter := Letter{Consumer: l.Name, Priority: priority, Trigger: t, Reason: ReasonReceived, StoredAt: time.Now()}
	if err := l.keep(ctx, &letter, &turn); err != nil {
		return Result{Consumer: l.Name, Outcome: outcomeOf(err), Reason: ReasonReceived, Err: err}
	}
	return Result{Consumer: l.Name, Outcome: Stored, Reason: ReasonReceived}
}
