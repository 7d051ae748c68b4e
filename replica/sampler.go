package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// run is a sampler: it calls turn until ctx ends, waiting as long as turn says or
// until it is nudged.
func (n *node) run(ctx context.Context, turn func(context.Context) time.Duration) {
	ended := false
	defer func() {
		if !ended { // runtime.Goexit in a driver or an observer: go on in another goroutine
			_ = n.panicked("sampler", "runtime.Goexit")
			go func() {
				n.rest(ctx, n.set.settings.Load().Calm)
				n.run(ctx, turn)
			}()
			return
		}
		n.disconnect()
		close(n.stopped)
	}()
	for ctx.Err() == nil {
		wait := n.safeTurn(ctx, turn)
		n.markFirst()
		n.rest(ctx, wait)
	}
	ended = true
}

// safeTurn keeps a sampler going whatever panics in it (REQ-R5): its samples age, so its
// replica leaves the read set by itself if that goes on.
func (n *node) safeTurn(ctx context.Context, turn func(context.Context) time.Duration) (wait time.Duration) {
	defer func() {
		if p := recover(); p != nil {
			_ = n.panicked("sampler", p)
			wait = n.set.settings.Load().Calm
		}
	}()
	return turn(ctx)
}

func (n *node) rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-n.demand.wake:
	}
}

func (n *node) markFirst() {
	select {
	case <-n.first:
	default:
		close(n.first)
	}
}

// sample takes one look within the sample timeout, connecting where needed, and
// answers those who wait for it.
func (n *node) sample(ctx context.Context) (looked, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.set.settings.Load().SampleTimeout, errSampleTimeout)
	defer cancel()
	r := n.demand.take()
	l, err := n.look(ctx)
	if err != nil {
		n.failures++
		n.disconnect()
		err = n.sampleError(ctx, err)
	} else {
		n.failures = 0
	}
	r.finish(l, err)
	return l, err
}

var errSampleTimeout error = timeoutError("no answer within the sample timeout")

// A timeoutError says that it is one, as those of package net do.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// Timeout is true.
func (timeoutError) Timeout() bool { return true }

// sampleError prefers our own timeout's words to the driver's.
func (n *node) sampleError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSampleTimeout) {
		return fmt.Errorf("%w of %v", cause, n.set.settings.Load().SampleTimeout)
	}
	return err
}

// look asks the driver. A panic in it is a failed sample that is reported (REQ-R5).
func (n *node) look(ctx context.Context) (l looked, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = n.panicked("Look", p)
		}
	}()
	if n.conn == nil {
		if n.conn, err = n.Connect(ctx); err != nil {
			return l, err
		}
	}
	l.sent = n.set.now()
	l.Look, err = n.conn.Look(ctx)
	l.recv = n.set.now()
	return l, err
}

func (n *node) disconnect() {
	conn := n.conn
	n.conn = nil
	if conn == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			_ = n.panicked("Close", p)
		}
	}()
	conn.Close()
}

// replicaTurn samples a replica once, or probes it if its breaker is half-open.
func (n *node) replicaTurn(ctx context.Context) time.Duration {
	if n.breaker.State() == breaker.HalfOpen {
		n.probe(ctx)
		return n.interval()
	}
	l, err := n.sample(ctx)
	if ctx.Err() == nil {
		n.feed(n.publish(l, err), err)
	}
	return n.interval()
}

// interval is the time to the next sample: the shortest while reads wait for one, fast while
// a replica that takes reads is in doubt, calm otherwise, also while it is open, since a thousand processes must
// not hammer the primary in an incident.
func (n *node) interval() time.Duration {
	s := n.set.settings.Load()
	switch {
	case n.hurries() && n.set.watch.anybody():
		return min(n.awaitPause(), s.Fast)
	case n.view.Load().doubt && n.admits():
		return spread(s.Fast)
	}
	return spread(s.Calm)
}

// publish makes a sample visible to picks and to the observer.
func (n *node) publish(l looked, err error) *view {
	v := n.set.recordReplica(n, l, err)
	n.set.watch.wake()
	n.announce(v)
	n.report(v, err)
	return v
}

// feed tells the breaker what a sample says: a node that cannot be sampled opens at
// once (REQ-R3), lag counts once per sample, or in request mode only its absence does (REQ-R4).
func (n *node) feed(v *view, err error) {
	s := n.set.settings.Load()
	switch {
	case err != nil:
		n.breaker.Trip(breaker.Reason{Rule: Unreachable.String(), Detail: oneLine(err)})
	case v.condition != Fit || s.Trip == Never:
	case !s.CountRequests || v.lo <= int64(s.Trip):
		n.breaker.Observe(lagSignal, time.Duration(v.lo).Seconds())
	}
}

func (n *node) report(v *view, err error) {
	tell(n, "OnSample", n.set.observer.OnSample, Sample{
		Node: n.Name, At: time.Now(), Primary: n.breaker == nil, Lo: time.Duration(v.lo),
		Hi: time.Duration(sub(n.set.now(), v.asOf)), Position: v.position, Condition: v.condition, Err: err,
	})
}

// announce tells a change of condition, and fences a node that left the read set by it.
func (n *node) announce(v *view) {
	from := n.announced
	if v.condition == from {
		return
	}
	n.announced = v.condition
	if v.condition > UnknownPrimary {
		n.fence()
	}
	tell(n, "OnCondition", n.set.observer.OnCondition, ConditionChange{
		Node: n.Name, At: time.Now(), From: from, To: v.condition, Detail: v.detail,
	})
}
