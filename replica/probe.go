package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// The catch-up probe's pauses between looks at the replica.
const (
	catchUpPause    = time.Millisecond
	catchUpPauseMax = 20 * time.Millisecond
)

// errPrimaryUnknown ends a probe without a verdict: that the primary cannot be
// looked at says nothing about the replica.
var errPrimaryUnknown = errors.New("the primary cannot be looked at, so the lag is not known")

// errUnflushed does so too: no replica can have replayed up to a position that the primary has not flushed.
var errUnflushed = errors.New("the primary is not known to have flushed its WAL, so the lag is not known")

// probe is the one probe of a half-open replica, made by its sampler so that no
// user's read pays for it (REQ-R9): it must catch up with the primary within the
// re-entry threshold, then answer a trivial read through the application's pool.
func (n *node) probe(ctx context.Context) {
	permit, err := n.breaker.AllowProbe()
	if err != nil {
		return // its state has changed meanwhile
	}
	outcome, err := n.attempt(ctx)
	if outcome == breaker.Success {
		n.ramp.Store(n.set.now() + 1) // before the breaker may close, however late its observers are told
	}
	permit.DoneAs(outcome, err)
}

func (n *node) attempt(ctx context.Context) (breaker.Outcome, error) {
	if err := n.settle(ctx); errors.Is(err, errPrimaryUnknown) || errors.Is(err, errUnflushed) {
		return breaker.Ignored, err
	} else if err != nil {
		return breaker.Failure, err
	}
	if n.Probe == nil || n.breaker.State() != breaker.HalfOpen {
		return breaker.Success, nil
	}
	return n.safeProbe(ctx)
}

// settle tells the breaker the lag; without a lag rule it only looks whether the node answers.
func (n *node) settle(ctx context.Context) error {
	if n.set.settings.Load().Trip == Never {
		_, err := n.lookAgain(ctx)
		return err
	}
	lag, err := n.catchUp(ctx)
	if err == nil {
		n.breaker.Observe(lagSignal, lag.Seconds())
	}
	return err
}

// catchUp looks at the primary once, then at the replica until it has replayed up to
// there. The time that took bounds its lag more closely than a pair of looks. It
// gives up once the replica is known to be behind by more than the trip threshold, or the
// primary to hold back for longer than that what the replica lacks.
func (n *node) catchUp(ctx context.Context) (time.Duration, error) {
	primary, err := n.set.lookAtPrimary(ctx)
	if err != nil {
		if _, err = n.lookAgain(ctx); err != nil { // it must answer, whatever the primary does
			return 0, err
		}
		return 0, errPrimaryUnknown
	}
	trip := int64(n.set.settings.Load().Trip)
	target := primary.looked
	for pause := catchUpPause; ; pause = min(2*pause, catchUpPauseMax) {
		l, err := n.lookAgain(ctx)
		if err != nil {
			return 0, err
		}
		since, flushed := n.set.flushedSince(&target)
		switch behind := l.sent - since; {
		case l.Position >= target.Position: // an upper bound, with the round trip to the primary in it: no evidence of a breach
			return time.Duration(min(l.recv-target.sent, trip)), nil
		case behind > trip && flushed:
			return time.Duration(max(behind, n.view.Load().lo)), nil
		case behind > trip:
			return 0, errUnflushed
		}
		n.pause(ctx, pause)
	}
}

// lookAgain samples and publishes; a condition that bars the node is an error.
func (n *node) lookAgain(ctx context.Context) (looked, error) {
	l, err := n.sample(ctx)
	if ctx.Err() != nil {
		return l, context.Cause(ctx)
	}
	v := n.publish(l, err)
	if err == nil && v.condition != Fit {
		err = fmt.Errorf("%v: %s", v.condition, v.detail)
	}
	return l, err
}

func (n *node) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (n *node) safeProbe(ctx context.Context) (o breaker.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = breaker.Failure, n.panicked("Probe", p)
		}
	}()
	return n.Probe(ctx)
}
