package emit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Drain ends the Router in order: emits are refused from now on; deliveries under way go on until ctx ends, and are cut off and stored then
// (ReasonShutdown); replay stops. It returns once all has ended; the error is that of ctx if deliveries were cut off, or names the
// consumers whose Sinks do not end although theirs did, a second after it. Stores that the caller gave stay open. Where a store fails
// three times to take the results of replay, the letters of these stay claimed until it is opened again, and then count as crashed.
func (r *Router) Drain(ctx context.Context) error {
	r.shut()
	ended := make(chan struct{})
	go func() {
		<-r.drained
		r.owned.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return r.closeRings()
	case <-ctx.Done():
	}
	states := r.states()
	for _, s := range states {
		s.calls.end()
	}
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case <-ended:
		return errors.Join(context.Cause(ctx), r.closeRings())
	case <-patience.C:
		return hanging(states)
	}
}

// shut refuses emits, and stops what the lanes do of themselves.
func (r *Router) shut() {
	r.mu.Lock()
	r.mu.closed = true
	r.mu.Unlock()
	r.now.Load().intake.close() // nobody replaces it any more
	r.stop()
}

// states are those of all lanes that have not ended.
func (r *Router) states() (all []*state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.now.Load().lanes {
		all = append(all, l.state)
	}
	for _, s := range r.mu.others {
		all = append(all, s)
	}
	return all
}

func (r *Router) closeRings() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ring := range r.mu.rings {
		_ = ring.Close() // returns nil
	}
	return nil
}

func hanging(states []*state) error {
	var faults []error
	for _, s := range states {
		if n := s.bulkhead.Stats().InFlight; n > 0 {
			faults = append(faults, fmt.Errorf("emit: %d deliveries to %s do not end although their contexts have", n, s.name))
		}
	}
	return errors.Join(append(faults, context.DeadlineExceeded)...)
}

// Close is Drain with the longest Timeout of a consumer as its deadline, of those too that were taken out and have not ended.
func (r *Router) Close() error {
	longest := time.Duration(0)
	for _, s := range r.states() {
		longest = max(longest, s.current.Load().Timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	return r.Drain(ctx)
}
