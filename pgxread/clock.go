package pgxread

import (
	"context"
	"net"
	"sync"
	"time"
)

// clock ends the calls on one node that have lasted for the call timeout.
//
// A context with a deadline for each call would do it too, at the price of a sixth of a
// fast read: its timer, and the watcher that pgx starts for a context that can end. So the
// calls with the usual timeout stand in a list, the oldest first, and one timer looks at
// its head. A call whose time has run out has its connection's deadline set to the past,
// which is what pgx's own watcher would do.
type clock struct {
	limit time.Duration // the usual timeout; immutable

	mu struct {
		sync.Mutex

		oldest, newest *call
		timer          *time.Timer // nil until first needed
		armed          bool
	}
}

// timing is the part of a call that belongs to its node's clock, written under clock.mu.
type timing struct {
	older, newer *call
	listed       bool
	own          *time.Timer // of a call with a timeout of its own
	expired      bool
	stopped      bool
	socket       net.Conn      // interrupted when the time has run out
	wake         chan struct{} // closed when the wait for a connection must end; nil until asked for
	woken        bool
	unhook       func() bool // takes the wait off the caller's context
}

// start begins to time c.
func (k *clock) start(c *call) {
	switch {
	case c.timeout == 0:
	case c.timeout != k.limit:
		k.mu.Lock()
		defer k.mu.Unlock()
		c.time.own = time.AfterFunc(c.timeout, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			c.expireLocked()
		})
	default:
		k.mu.Lock()
		defer k.mu.Unlock()
		k.appendLocked(c)
		if !k.mu.armed {
			k.armLocked(k.limit)
		}
	}
}

func (k *clock) appendLocked(c *call) {
	c.time.listed, c.time.older = true, k.mu.newest
	if k.mu.newest == nil {
		k.mu.oldest = c
	} else {
		k.mu.newest.time.newer = c
	}
	k.mu.newest = c
}

func (k *clock) removeLocked(c *call) {
	t := &c.time
	if !t.listed {
		return
	}
	if t.older == nil {
		k.mu.oldest = t.newer
	} else {
		t.older.time.newer = t.newer
	}
	if t.newer == nil {
		k.mu.newest = t.older
	} else {
		t.newer.time.older = t.older
	}
	t.listed, t.older, t.newer = false, nil, nil
}

func (k *clock) armLocked(d time.Duration) {
	k.mu.armed = true
	if k.mu.timer == nil {
		k.mu.timer = time.AfterFunc(d, k.ring)
		return
	}
	k.mu.timer.Reset(d)
}

// ring ends the calls whose time has run out and waits for the next one's.
func (k *clock) ring() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := k.mu.oldest; c != nil; c = k.mu.oldest {
		if left := c.timeout - time.Since(c.begun); left > 0 {
			k.armLocked(left)
			return
		}
		k.removeLocked(c)
		c.expireLocked()
	}
	k.mu.armed = false
}

// expireLocked ends what c is doing.
func (c *call) expireLocked() {
	t := &c.time
	if t.stopped {
		return
	}
	t.expired = true
	c.wakeLocked()
	if t.socket != nil {
		_ = t.socket.SetDeadline(time.Unix(1, 0)) // fails on a closed connection only
	}
}

func (c *call) wakeLocked() {
	if t := &c.time; t.wake != nil && !t.woken {
		t.woken = true
		close(t.wake)
	}
}

// attach has the connection interrupted when the time of c runs out.
func (k *clock) attach(c *call, socket net.Conn) error {
	if c.timeout == 0 {
		return nil
	}
	unhook, expired := k.connected(c, socket)
	if unhook != nil {
		unhook()
	}
	if expired {
		return context.DeadlineExceeded
	}
	return nil
}

// connected notes the connection of c. The caller's context is let go by unhook, with no
// lock held: see waiting.
func (k *clock) connected(c *call, socket net.Conn) (unhook func() bool, expired bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &c.time
	unhook, t.unhook = t.unhook, nil
	if !t.expired {
		t.socket = socket
	}
	return unhook, t.expired
}

// stop ends the timing of c; usable tells whether its connection lives on, which then
// must not stay interrupted.
func (k *clock) stop(c *call, usable bool) {
	if c.timeout == 0 {
		return
	}
	if unhook := k.ended(c, usable); unhook != nil {
		unhook()
	}
}

func (k *clock) ended(c *call, usable bool) (unhook func() bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &c.time
	k.removeLocked(c)
	t.stopped = true
	if t.own != nil {
		t.own.Stop()
	}
	if t.expired && usable && t.socket != nil {
		_ = t.socket.SetDeadline(time.Time{}) // fails on a closed connection only
	}
	t.socket = nil
	unhook, t.unhook = t.unhook, nil
	return unhook
}

// ran tells whether the time of c has run out.
func (k *clock) ran(c *call) bool {
	if c.timeout == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return c.time.expired
}

// waiting is the channel that ends the wait of c for a connection. The caller's context
// is asked before and after the lock is held, never under it: it may be a call on this
// clock itself, where a hook of the pool reads with the context that it was given.
func (k *clock) waiting(c *call) <-chan struct{} {
	parent := c.parent.Done()
	wake, first := k.wait(c)
	if !first || parent == nil {
		return wake
	}
	unhook := context.AfterFunc(c.parent, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		c.wakeLocked()
	})
	if !k.hook(c, unhook) {
		unhook()
	}
	return wake
}

// hook keeps what lets the caller's context go, unless the wait is over already.
func (k *clock) hook(c *call, unhook func() bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &c.time
	if t.stopped || t.socket != nil {
		return false
	}
	t.unhook = unhook
	return true
}

// wait makes the channel if this is the first to ask for it.
func (k *clock) wait(c *call) (wake <-chan struct{}, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := &c.time
	if t.wake != nil {
		return t.wake, false
	}
	t.wake = make(chan struct{})
	if t.expired || t.stopped {
		c.wakeLocked()
		return t.wake, false
	}
	return t.wake, true
}
