package emit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ended takes in the end of an attempt, and keeps its settlement for the store.
func (l *lane) ended(r result) {
	w := &l.work
	c := w.claimed[r.seq]
	if r.untried {
		w.holdOff = l.r.sinceBase() + triedSoon
		w.pending = append(w.pending, Settlement{Seq: r.seq})
		return
	}
	c.letter.Attempts++
	if !c.probe {
		w.pace.ended(l.r.sinceBase(), r.took, r.took >= l.Slow, r.err != nil && !errors.Is(r.err, ErrRejected))
	}
	s := Settlement{Seq: r.seq, Delivered: r.err == nil}
	if r.err != nil {
		s.Attempt = Attempt{At: time.Now(), Err: attemptText(r.err)}
		s.Reason = l.reasonOf(r.err)
		if c.letter.Reason == ReasonReceived && s.Reason != ReasonRejected {
			s.Reason = ReasonReceived // still to be delivered, where replay is manual too
		}
		s.NotBefore = l.retryAt(c, r.err)
		c.letter.Last = append(c.letter.Last, s.Attempt)
		c.letter.Last = c.letter.Last[max(0, len(c.letter.Last)-KeptAttempts):]
	}
	switch most := l.Replay.MaxAttempts; {
	case s.Reason == ReasonRejected:
		l.park(&c.letter, s, ReasonRejected)
	case r.err != nil && l.reasonOf(r.err) != ReasonShutdown && (poisoned(&c.letter) || most > 0 && c.letter.Attempts >= most):
		l.park(&c.letter, s, ReasonPoison)
	default:
		w.pending = append(w.pending, s)
	}
}

// retryAt is when a letter may be tried again: one that failed as a probe after others had their turn.
func (l *lane) retryAt(c *claim, err error) time.Time {
	wait := backoff(c.letter.Attempts, err)
	if c.probe {
		wait = max(wait, probeBackoff)
	}
	return time.Now().Add(wait)
}

// backoff is how long a letter waits after so many attempts, or as its consumer asks.
func backoff(attempts int, err error) time.Duration {
	wait := min(firstBackoff<<min(attempts-1, 10), longestBackoff)
	if later, ok := errors.AsType[*LaterError](err); ok {
		wait = max(wait, min(later.After, longestLater))
	}
	return wait
}

// park settles a letter as one that waits for a person.
func (l *lane) park(letter *Letter, s Settlement, why Reason) {
	s.Park, s.Reason, s.NotBefore = true, why, time.Time{}
	letter.Reason, letter.Parked = why, true
	if l.work.claimed[s.Seq] == nil {
		l.work.claimed[s.Seq] = &claim{letter: *letter}
	}
	l.work.pending = append(l.work.pending, s)
}

// settle hands the results to the store, all in one step; what it does not take is tried again.
func (l *lane) settle(ctx context.Context) {
	w := &l.work
	if len(w.pending) == 0 {
		return
	}
	ctx, cancel := l.asking(ctx)
	defer cancel()
	if err := l.store.Settle(ctx, l.Name, w.pending); err != nil {
		l.r.fault(l.Name, fmt.Errorf("emit: settle for %s: %w", l.Name, err))
		if w.stopping {
			w.unsaved++
		}
		if w.unsaved >= lastTries { // they come back as crashed, when the store is opened again
			w.pending = nil
			clear(w.claimed)
		}
		return
	}
	for _, s := range w.pending {
		l.settled(w.claimed[s.Seq], s)
		delete(w.claimed, s.Seq)
	}
	w.pending = w.pending[:0]
	l.demands.progress()
}

// settled counts what the store has taken.
func (l *lane) settled(c *claim, s Settlement) {
	switch {
	case s.Delivered:
		l.count.replayed.Add(1)
		l.keys.Load().gone(c.letter.Trigger.Key)
		if c.demand != nil {
			c.demand.delivered.Add(1)
		}
		l.r.tell(l.r.observer().OnReplayed, &c.letter)
	case s.Park:
		l.count.parked.Add(1)
		l.keys.Load().gone(c.letter.Trigger.Key)
		l.r.tell(l.r.observer().OnParked, &c.letter)
	}
}

// poison parks a letter that was claimed, without a try. One that is parked for that already, and waits all the same, was sent back by a
// person: that goes into its history, and so it gets another five.
func (l *lane) poison(letter *Letter) {
	s := Settlement{Seq: letter.Seq}
	if letter.Reason != ReasonPoison {
		l.park(letter, s, ReasonPoison)
		return
	}
	s.Attempt, s.Reason = Attempt{At: time.Now(), Err: attemptUnparked}, ReasonFailed
	l.work.claimed[s.Seq] = &claim{letter: *letter}
	l.work.pending = append(l.work.pending, s)
}

const attemptUnparked = "unparked"
