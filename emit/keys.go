package emit

import (
	"hash/maphash"
	"sync"
	"time"
)

// keySlots is how many keys an ordered lane tells apart. Others share a slot, which only holds more of them back:
// while K keys have a call under way or a letter stored, another key is held back falsely with odds of K in 4,096, about.
const keySlots = 4096

// keys is the order of an ordered lane's keys, in memory that does not grow with them. A trigger has its key
// from begin until end: calls and appends of one key follow each other in the order of begin, so that the store's Seq is
// in that order too.
type keys struct {
	seed maphash.Seed // immutable

	mu struct {
		sync.Mutex
		slots   [keySlots]keySlot
		queues  map[int][]chan struct{} // of callers that wait for their slot; the first is next
		storing int                     // who may store: holders of slots, and those who unpark
		came    uint64                  // triggers and letters so far
		forgot  time.Time               // when all was last forgotten
		// frozen is the epoch whose emits may store letters that are not counted here, since the lane was not ordered then: until they have
		// ended and all is counted once more nothing is taken off. 0: none.
		frozen uint64
	}
}

type keySlot struct {
	stored int32 // letters in the store, or too many: never too few
	busy   bool  // a trigger has the slot
	live   bool  // and is not held: letters of the slot are not replayed meanwhile
}

func newKeys() *keys {
	k := &keys{seed: maphash.MakeSeed()}
	k.mu.queues = map[int][]chan struct{}{}
	return k
}

// A turn is a trigger's hold of its key's slot. The zero value holds nothing.
type turn struct {
	keys *keys
	slot int
	held bool // an earlier trigger of the key, or one of its slot, is stored
	idle bool // it has not the slot: it only counts
}

// begin takes the slot of a key, and waits for those that came before. Their calls end by the lane's timeout, and
// after one that was stored the others only store, so that the wait is bounded.
func (k *keys) begin(key string) turn {
	if k == nil || key == "" {
		return turn{}
	}
	n := k.slotOf(key)
	k.mu.Lock()
	s := &k.mu.slots[n]
	if s.busy {
		granted := make(chan struct{})
		k.mu.queues[n] = append(k.mu.queues[n], granted)
		k.mu.Unlock()
		<-granted
		k.mu.Lock()
	}
	defer k.mu.Unlock()
	s.busy = true // or still so: it was handed over
	k.mu.storing++
	k.mu.came++
	s.live = s.stored == 0
	return turn{keys: k, slot: n, held: !s.live}
}

func (k *keys) slotOf(key string) int { return int(maphash.String(k.seed, key) % keySlots) } //nolint:gosec // below keySlots

// idle is a turn that waits for nobody, of a letter about to be stored by a lane that is not ordered but was, or will be: counted
// now, and no more if it ends without being stored.
func (k *keys) idle(key string) turn {
	if k == nil || key == "" {
		return turn{}
	}
	n := k.slotOf(key)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.storing++
	k.mu.came++
	k.mu.slots[n].stored++
	return turn{keys: k, slot: n, idle: true}
}

// end gives the slot to the next one that waits.
func (t *turn) end(stored bool) {
	if t.keys == nil {
		return
	}
	k := t.keys
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.idle {
		k.mu.storing--
		if !stored {
			k.goneLocked(t.slot)
		}
		return
	}
	s := &k.mu.slots[t.slot]
	s.live = false
	k.mu.storing--
	if stored {
		s.stored++
	}
	queue := k.mu.queues[t.slot]
	switch len(queue) {
	case 0:
		s.busy = false
		return
	case 1:
		delete(k.mu.queues, t.slot)
	default:
		k.mu.queues[t.slot] = queue[1:]
	}
	close(queue[0])
}

// gone takes a letter off that is stored no more, or is parked.
func (k *keys) gone(key string) {
	if k == nil || key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.goneLocked(k.slotOf(key))
}

func (k *keys) goneLocked(slot int) {
	if s := &k.mu.slots[slot]; k.mu.frozen == 0 {
		s.stored = max(0, s.stored-1)
	}
}

// freeze keeps all that is counted until thaw.
func (k *keys) freeze(epoch uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.frozen = epoch
}

func (k *keys) thaw() { k.freeze(0) }

func (k *keys) frozen() uint64 {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.frozen
}

// evicted is gone for a letter that made room, of which its lane is told late: one from before all was forgotten is not counted any more.
func (k *keys) evicted(l *Letter) {
	if k == nil || !k.remembers(l.StoredAt) {
		return
	}
	k.gone(l.Trigger.Key)
}

func (k *keys) remembers(storedAt time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return storedAt.After(k.mu.forgot)
}

// comes counts a letter that waits in the store.
func (k *keys) comes(key string) {
	if k == nil || key == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.slots[k.slotOf(key)].stored++
	k.mu.came++
}

// pin with 1 keeps forget from clearing, while letters are sent back, and with -1 no more.
func (k *keys) pin(n int) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.storing += n
}

// live reports whether a trigger of the key's slot is being delivered.
func (k *keys) live(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mu.slots[k.slotOf(key)].live
}

// forget clears what is counted as stored, if the store turns out to be empty: what was discarded, or lost by the store, was still
// counted. It does nothing if a trigger or a letter came while the store was asked.
func (k *keys) forget(empty func() bool) {
	if k == nil {
		return
	}
	k.mu.Lock()
	before, storing := k.mu.came, k.mu.storing
	frozen := k.mu.frozen
	k.mu.Unlock()
	if storing > 0 || frozen > 0 || !empty() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mu.came != before {
		return
	}
	k.mu.forgot = time.Now()
	for i := range k.mu.slots {
		k.mu.slots[i].stored = 0
	}
}
