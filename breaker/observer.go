package breaker

import "time"

// An Observer is told what happens to a breaker. Its functions are called in
// the order of the events, one at a time, with no lock held, each on the
// goroutine of a caller whose call made an event (or of a timer): a slow
// function delays that caller, not the others, and later events wait for it.
// They may call the breaker. A panic in one is caught and reported (REQ-B18).
// A nil function is not called.
type Observer struct {
	// OnTransition is called once for each change of state. Default: nil.
	OnTransition func(Transition)
	// OnWouldOpen is called when a DryRun rule holds that did not hold before.
	// Default: nil.
	OnWouldOpen func(WouldOpen)
	// OnFault is called when a part of the breaker failed, so that it failed
	// open. If more than 64 events wait for delivery, faults are only counted
	// (Stats.Faults); transitions never are. Default: nil.
	OnFault func(Fault)
}

// A Transition is one change of state.
type Transition struct {
	Name       string // Config.Name
	From, To   State
	At         time.Time
	Generation uint64 // of To: one more with each change
	Reason     Reason
	// OpenPeriod is the newest open period before jitter: of this opening, or
	// of the one that it ends. 0 if there was none, and after Force.
	OpenPeriod time.Duration
}

// A WouldOpen is what a DryRun rule reports instead of opening.
type WouldOpen struct {
	Name   string // Config.Name
	At     time.Time
	Reason Reason
}

// A Fault is a failure of a part that the breaker was given, or of a value.
// It never keeps a call from running.
type Fault struct {
	Name   string // Config.Name
	At     time.Time
	Part   string // "Classify", "OnTransition", "OnWouldOpen", "Observe", "For" or "outcome"; of an adapter "Key" or "OnEnd"
	Detail string
	Panic  any // what it panicked with, or nil
}

// An event holds one of the three.
type event struct {
	transition *Transition
	wouldOpen  *WouldOpen
	fault      *Fault
}

const maxWaitingFaults = 64

// pushLocked queues an event; unlockAndDeliver hands it out.
func (b *Breaker) pushLocked(e event) {
	o := b.settings.Load().Observer
	if e.transition != nil && o.OnTransition == nil || e.wouldOpen != nil && o.OnWouldOpen == nil ||
		e.fault != nil && o.OnFault == nil {
		return
	}
	b.mu.queue = append(b.mu.queue, e)
}

func (b *Breaker) faultLocked(f Fault) {
	b.faults.Add(1)
	if len(b.mu.queue) >= maxWaitingFaults {
		return
	}
	f.Name, f.At = b.name, b.clock.wall()
	b.pushLocked(event{fault: &f})
}

func (b *Breaker) report(f Fault) {
	b.mu.Lock()
	defer b.unlockAndDeliver()
	b.faultLocked(f)
}

// unlockAndDeliver ends a critical section that may have queued events.
func (b *Breaker) unlockAndDeliver() {
	b.rememberLocked()
	waiting := len(b.mu.queue) > 0
	b.mu.Unlock()
	if waiting {
		b.deliver()
	}
}

// deliver hands out events until none waits or another goroutine is at it,
// which will then see those that are left: it looks again after each.
func (b *Breaker) deliver() {
	for {
		e, ok := b.claim()
		if !ok {
			return
		}
		b.handOut(e)
	}
}

// claim takes the oldest event, if nobody is in an observer's function.
func (b *Breaker) claim() (event, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.delivering || len(b.mu.queue) == 0 {
		return event{}, false
	}
	e := b.mu.queue[0]
	b.mu.queue[0] = event{}
	b.mu.queue = b.mu.queue[1:]
	if len(b.mu.queue) == 0 {
		b.mu.queue = nil
	}
	b.mu.delivering = true
	return e, true
}

// handOut calls the observer for one event that was claimed. Whatever the
// observer does, the claim ends; a runtime.Goexit in it takes this goroutine
// away, so the rest is handed out on the way.
func (b *Breaker) handOut(e event) {
	returned := false
	defer func() {
		v := recover()
		b.mu.Lock()
		b.mu.delivering = false
		if v != nil {
			b.observerPanicLocked(e, v)
		}
		b.mu.Unlock()
		if !returned && v == nil {
			b.deliver()
		}
	}()
	o := b.settings.Load().Observer
	switch {
	case e.transition != nil && o.OnTransition != nil:
		o.OnTransition(*e.transition)
	case e.wouldOpen != nil && o.OnWouldOpen != nil:
		o.OnWouldOpen(*e.wouldOpen)
	case e.fault != nil && o.OnFault != nil:
		o.OnFault(*e.fault)
	}
	returned = true
}

// observerPanicLocked reports a panic of the other functions to OnFault; one of
// OnFault has nobody to go to and is counted only.
func (b *Breaker) observerPanicLocked(e event, v any) {
	if e.fault != nil {
		b.faults.Add(1)
		return
	}
	part, detail := "OnTransition", "panicked; the transition stands"
	if e.wouldOpen != nil {
		part, detail = "OnWouldOpen", "panicked"
	}
	b.faultLocked(Fault{Part: part, Detail: detail, Panic: v})
}
