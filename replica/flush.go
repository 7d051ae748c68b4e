package replica

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// Flusher is what a [Conn] to a primary may be too. An idle primary may hold WAL of no commit unflushed until its next
// commit; while it does no replica can be known to be as new as the primary, and all of them become stale.
type Flusher interface {
	// Flush has the primary flush the WAL that it had written before, within a few hundred milliseconds of the call; it need not
	// wait for that. It is called between looks, on their goroutine, once the primary has held WAL back for two
	// primary intervals, and for 400 ms at least, and again if it still does after twice that time. An error is told as a fault: the look before it stays good, and the next one is taken on a new connection.
	Flush(ctx context.Context) error
}

// flushPatience is the least time for which a primary may hold WAL unflushed: what asynchronous commits
// write is flushed by itself within that.
const flushPatience = 400 * time.Millisecond

// flushIdle asks the primary to flush what it has held back for too long, as of a look that returned at this instant.
func (s *Set) flushIdle(ctx context.Context, at int64) {
	n := s.primary
	f, ok := n.conn.(Flusher)
	if !ok || !s.holdsBack(at) {
		return
	}
	n.asked = at
	if !n.flush(ctx, f) {
		n.disconnect()
	}
}

// holdsBack tells whether the primary has held WAL unflushed for too long, and was not asked to flush just now.
func (s *Set) holdsBack(at int64) bool {
	patience := int64(s.settings.Load().patience())
	s.looks.Lock()
	defer s.looks.Unlock()
	since, ok := s.looks.positions.unflushedSince()
	return ok && at-since >= patience && at-s.primary.asked >= 2*patience
}

// patience is how long a primary may hold WAL unflushed: until the second look after the one that saw it first.
func (s *Settings) patience() time.Duration {
	return max(flushPatience, 2*(s.PrimaryInterval-time.Duration(jitter*float64(s.PrimaryInterval))))
}

// flush asks the driver, within the sample timeout. That it fails is told, and is no failed sample: a server may
// refuse a new transaction and still answer, and the look before it holds.
func (n *node) flush(ctx context.Context, f Flusher) (ok bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, n.set.settings.Load().SampleTimeout, errSampleTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			_, ok = n.panicked("Flush", p), false
		}
	}()
	err := f.Flush(ctx)
	if err != nil {
		detail := oneLine(n.sampleError(ctx, err))
		tell(n, "OnFault", n.set.observer.OnFault, breaker.Fault{Name: n.Name, At: time.Now(), Part: "Flush", Detail: detail})
	}
	return err == nil
}

// flushedSince returns since when the primary is known to have flushed all up to the position of a look at
// it; where it is not, since when it is known to be there.
func (s *Set) flushedSince(l *looked) (at int64, ok bool) {
	if l.flushed() >= l.Position {
		return l.recv, true
	}
	s.looks.Lock()
	defer s.looks.Unlock()
	if at, ok = s.looks.positions.missingSince(l.Position - 1); ok {
		return max(at, l.recv), true
	}
	return l.recv, false
}
