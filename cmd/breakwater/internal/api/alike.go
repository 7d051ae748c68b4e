package api

import (
	"sync"
	"time"
)

// alikeEvery is how often events that are alike are told, at most.
const alikeEvery = time.Second

// alike folds events that come by the thousand, such as each trigger that is shed, into one a second with their count: else they
// would push the transitions out of the Hub. The first one is told at once.
type alike struct {
	mu      sync.Mutex
	windows map[alikeKey]*window
}

// alikeKey is what events that are alike have in common. Its parts are from the configuration and from code, so that there are few.
type alikeKey struct{ kind, scope, name, part string }

// A window is the second after an event that was told.
type window struct {
	newest Event
	count  uint64 // of those that were not told yet
}

// fold publishes e with the Count 1, or counts it if one that is alike was told within the last second: those are told when that is over, as
// the newest of them.
func (h *Hub) fold(part string, e Event) {
	key := alikeKey{e.Kind, e.Scope, e.Name, part}
	h.alike.mu.Lock()
	w := h.alike.windows[key]
	if w != nil {
		w.newest = e
		w.count++
		h.alike.mu.Unlock()
		return
	}
	h.alike.windows[key] = &window{}
	h.alike.mu.Unlock()
	e.Count = 1
	h.Publish(e)
	time.AfterFunc(alikeEvery, func() { h.unfold(key) })
}

// unfold tells what came within a second. After one in which nothing came, the next one is told at once again.
func (h *Hub) unfold(key alikeKey) {
	h.alike.mu.Lock()
	w := h.alike.windows[key]
	if w.count == 0 {
		delete(h.alike.windows, key)
		h.alike.mu.Unlock()
		return
	}
	e := w.newest
	e.Count, w.count = w.count, 0
	h.alike.mu.Unlock()
	h.Publish(e)
	time.AfterFunc(alikeEvery, func() { h.unfold(key) })
}
