package limit

import (
	"container/list"
	"context"
	"errors"
	"time"
)

// ErrFull says that a [Bulkhead] had no slot in the caller's time.
var ErrFull = errors.New("limit: the bulkhead is full")

// AcquireWithin takes a slot, and waits for one at most maxWait (0 or negative:
// not at all). Callers are served in the order in which they came. The error is
// [ErrFull] if no slot became free in time or MaxWaiting callers wait already, and
// ctx.Err() if ctx ended first. A slot that comes in the same moment as the end of
// the wait is taken, with a nil error. ctx is looked at only while waiting.
func (b *Bulkhead) AcquireWithin(ctx context.Context, maxWait time.Duration) (Permit, error) {
	if !b.enter() {
		if err := b.wait(ctx, maxWait); err != nil {
			b.refused.Add(1)
			return Permit{}, err
		}
	}
	return Permit{b: b, held: true}, nil
}

// wait returns nil once the caller holds a slot.
func (b *Bulkhead) wait(ctx context.Context, maxWait time.Duration) error {
	if maxWait <= 0 {
		return ErrFull
	}
	done := ctx.Done() // before there is a place to leave behind: it panics where ctx is nil
	place := b.join()
	if place == nil {
		return ErrFull
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	var err error
	select {
	case <-granted(place):
		return nil
	case <-timer.C:
		err = ErrFull
	case <-done:
		err = ctx.Err()
	}
	if !b.giveUp(place) {
		return nil
	}
	return err
}

// granted is closed once the place in the queue became a slot.
func granted(place *list.Element) chan struct{} { return place.Value.(chan struct{}) }

// join queues a caller and gives away what is free, to it too; nil if the queue is
// full.
func (b *Bulkhead) join() *list.Element {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.queue.Len() >= b.mu.maxWaiting {
		return nil
	}
	place := b.mu.queue.PushBack(make(chan struct{}))
	b.word.Add(waitingOne)
	b.grantLocked()
	return place
}

// giveUp leaves the queue; false if the place had become a slot before.
func (b *Bulkhead) giveUp(place *list.Element) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-granted(place):
		return false
	default:
	}
	b.mu.queue.Remove(place)
	b.word.Add(^uint64(waitingOne - 1))
	return true
}

func (b *Bulkhead) grant() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.grantLocked()
}

// grantLocked turns places into slots, oldest first, while there are both.
func (b *Bulkhead) grantLocked() {
	for b.mu.queue.Len() > 0 && b.promoteLocked() {
		close(granted(b.mu.queue.Front()))
		b.mu.queue.Remove(b.mu.queue.Front())
	}
}

// promoteLocked makes a waiting caller one in flight, if there is room. It ends:
// each further turn needs a call that ended since the turn before (none enters
// while one waits).
func (b *Bulkhead) promoteLocked() bool {
	for {
		word := b.word.Load()
		if !hasRoom(word) {
			return false
		}
		if b.word.CompareAndSwap(word, word-waitingOne+1) {
			b.notePeak(inFlightOf(word + 1))
			return true
		}
	}
}
