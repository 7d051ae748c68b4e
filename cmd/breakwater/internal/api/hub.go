package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"
)

// hubSize is how many events are kept.
const hubSize = 16384

// maxBatch is how many events a reader gets at a time.
const maxBatch = 256

// A Hub keeps the newest 16,384 events, each with an ID that is one above that of the event before, and wakes those who read them. A transition takes about
// 350 bytes, 670 once it was streamed: 11 MB in all. It remembers besides
// what the events said last: why each breaker opened, which endpoints are over the budget, since when the mode holds. Make it with [NewHub]; all its methods may be called
// at any time from any goroutine. It has no goroutine and no Close; a timer of a second while triggers are shed or parked, or faults are told.
type Hub struct {
	boot   string    // immutable
	redact *Redactor // immutable, may be nil
	alike  alike

	mu struct {
		sync.Mutex
		ring   [hubSize]*entry // by ID modulo hubSize; what they point to is immutable
		last   uint64
		woken  chan struct{} // closed by the next event; nil: nobody waits
		trips  map[string]Trip
		over   map[string]OverBudget
		inMode time.Time
	}
}

// An entry is an event, with its frame for the stream, which is made once for all clients.
type entry struct {
	Event
	once  sync.Once
	frame []byte
}

// NewHub makes an empty Hub. It runs redact over each event's texts; nil: none.
func NewHub(redact *Redactor) *Hub {
	var raw [4]byte
	_, _ = rand.Read(raw[:]) // it never fails
	h := &Hub{boot: hex.EncodeToString(raw[:]), redact: redact}
	h.alike.windows = map[alikeKey]*window{}
	h.mu.trips, h.mu.over = map[string]Trip{}, map[string]OverBudget{}
	return h
}

// Boot tells this process's events from those of an earlier one: their IDs begin anew.
func (h *Hub) Boot() string { return h.boot }

// Publish appends an event and returns its ID. It waits for no reader: its lock is held for a few instructions. At is now where it is zero.
func (h *Hub) Publish(e Event) uint64 {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	h.clean(&e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.last++
	e.ID = h.mu.last
	h.mu.ring[e.ID%hubSize] = &entry{Event: e}
	h.rememberLocked(&e)
	if h.mu.woken != nil {
		close(h.mu.woken)
		h.mu.woken = nil
	}
	return e.ID
}

// clean takes the secrets out of an event's texts.
func (h *Hub) clean(e *Event) {
	e.Text, e.Error = h.redact.Text(e.Text), h.redact.Text(e.Error)
	if e.Reason != nil {
		r := *e.Reason
		r.Text = h.redact.Text(r.Text)
		e.Reason = &r
	}
}

// rememberLocked keeps what a transition and a change of the mode say.
func (h *Hub) rememberLocked(e *Event) {
	switch {
	case e.Kind == KindTransition && e.To == "open" && e.Reason != nil:
		h.mu.trips[e.Scope+"/"+e.Name] = Trip{At: e.At, Reason: *e.Reason}
	case e.Kind == KindMode && e.From != e.To: // another class given back is no other mode
		h.mu.inMode = e.At
	}
}

// Last is the ID of the newest event; 0: there is none yet.
func (h *Hub) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.last
}

// Trip is why a breaker opened last; nil if it never has.
func (h *Hub) Trip(scope, name string) *Trip {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t, ok := h.mu.trips[scope+"/"+name]; ok {
		return &t
	}
	return nil
}

// InMode is since when the read path's mode holds; the zero time: since the start.
func (h *Hub) InMode() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.inMode
}

// Next returns the events after an ID, oldest first and at most 256, and waits for one where there is none yet. missed is how many there were between that ID and
// the first one returned that are not kept any more. After an ID that does not exist yet it waits for the next event. The error is ctx's cause.
//
// To read on, ask for those after the last one's ID; a reader sees each event once and in order, but for those that it missed.
func (h *Hub) Next(ctx context.Context, after uint64) (events []Event, missed uint64, err error) {
	for {
		entries, missed, woken := h.take(after)
		for _, e := range entries {
			events = append(events, e.Event)
		}
		if len(events) > 0 {
			return events, missed, nil
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// Kept returns the events that are kept, oldest first.
func (h *Hub) Kept() []Event {
	events := []Event{}
	for after, more := uint64(0), true; more; {
		entries, _, _ := h.take(after)
		for _, e := range entries {
			events, after = append(events, e.Event), e.ID
		}
		more = len(entries) == maxBatch
	}
	return events
}

// take returns up to maxBatch entries after an ID; where there are none a channel that the next event closes.
func (h *Hub) take(after uint64) (entries []*entry, missed uint64, woken <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if after >= h.mu.last {
		if h.mu.woken == nil {
			h.mu.woken = make(chan struct{})
		}
		return nil, 0, h.mu.woken
	}
	first := after + 1
	if h.mu.last > hubSize && first <= h.mu.last-hubSize {
		first = h.mu.last - hubSize + 1
	}
	n := min(h.mu.last-first+1, maxBatch)
	for id := first; id < first+n; id++ {
		entries = append(entries, h.mu.ring[id%hubSize])
	}
	return entries, first - after - 1, nil
}
