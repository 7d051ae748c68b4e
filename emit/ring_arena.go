package emit

import (
	"encoding/binary"
	"time"
)

// blockSize is what the arena gives out.
const blockSize = 256

// An arena is memory in blocks; a chain of blocks holds one trigger. So nothing fragments, and a letter in
// the middle can go.
type arena struct {
	bytes []byte
	next  []int32 // of a block: the next one of its chain, or of the free ones; -1: none
	free  int32
}

func newArena(blocks int) arena {
	a := arena{bytes: make([]byte, blocks*blockSize), next: make([]int32, blocks)}
	for i := range a.next {
		a.next[i] = int32(i) + 1 //nolint:gosec // at most 16 GiB in blocks
	}
	a.next[blocks-1] = -1
	return a
}

func (a *arena) len() int { return len(a.next) }

// A layout is how long the parts of a trigger are in the arena.
type layout struct {
	texts  [textsOfTrigger]int32 // in the order of texts
	data   int32
	extra  int32 // the attributes, each part after its length in four bytes
	time   time.Time
	noData bool // Data was nil
}

const textsOfTrigger = 7

// texts are the texts of a trigger, in the order of the arena.
func (t *Trigger) texts() [textsOfTrigger]*string {
	return [...]*string{&t.ID, &t.Type, &t.Source, &t.Subject, &t.Key, &t.Priority, &t.ContentType}
}

func measure(t *Trigger) layout {
	l := layout{data: length(len(t.Data)), time: t.Time, noData: t.Data == nil}
	for i, s := range t.texts() {
		l.texts[i] = length(len(*s))
	}
	for name, value := range t.Attributes {
		l.extra = length(int(l.extra) + 8 + len(name) + len(value))
	}
	return l
}

// maxLength is where lengths end, far above any bound and below an overflow of their sum.
const maxLength = 1 << 27

func length(n int) int32 { return int32(min(n, maxLength)) } //nolint:gosec // 2^27

func (l *layout) blocks() int {
	n := int64(l.data) + int64(l.extra)
	for _, length := range l.texts {
		if length == maxLength {
			return int(^uint(0) >> 1) // too large
		}
		n += int64(length)
	}
	if l.data == maxLength || l.extra == maxLength {
		return int(^uint(0) >> 1)
	}
	return max(1, int((n+blockSize-1)/blockSize))
}

// put takes need blocks, which must be there, and copies the trigger into them.
func (a *arena) put(t *Trigger, need int) (first int32) {
	first = a.free
	last := first
	for range need - 1 {
		last = a.next[last]
	}
	a.free, a.next[last] = a.next[last], -1
	w := cursor{arena: a, block: first}
	for _, s := range t.texts() {
		w.write(*s)
	}
	write(&w, t.Data)
	for name, value := range t.Attributes {
		w.writeSized(name)
		w.writeSized(value)
	}
	return first
}

// release gives a chain back.
func (a *arena) release(first int32) {
	last := first
	for a.next[last] >= 0 {
		last = a.next[last]
	}
	a.next[last], a.free = a.free, first
}

// get is a copy of a trigger.
func (a *arena) get(first int32, l layout) (t Trigger) {
	r := cursor{arena: a, block: first}
	for i, s := range t.texts() {
		*s = string(r.read(int(l.texts[i])))
	}
	if !l.noData {
		t.Data = r.read(int(l.data))
	}
	t.Time = l.time
	for left := int(l.extra); left > 0; {
		name, value := r.readSized(), r.readSized()
		if t.Attributes == nil {
			t.Attributes = map[string]string{}
		}
		t.Attributes[name] = value
		left -= 8 + len(name) + len(value)
	}
	return t
}

// text is one of the texts of a trigger.
func (a *arena) text(first int32, l layout, which int) string {
	r := cursor{arena: a, block: first}
	for _, n := range l.texts[:which] {
		r.skip(int(n))
	}
	return string(r.read(int(l.texts[which])))
}

// The numbers of two texts.
const (
	textType = 1
	textKey  = 4
)

// A cursor is a place in a chain of blocks.
type cursor struct {
	arena *arena
	block int32
	at    int // in the block
}

// room is what is left of the block, or of the next one where nothing is.
func (c *cursor) room() []byte {
	if c.at == blockSize {
		c.block, c.at = c.arena.next[c.block], 0
	}
	begin := int(c.block) * blockSize
	return c.arena.bytes[begin+c.at : begin+blockSize]
}

func (c *cursor) write(s string) { write(c, s) }

func write[T string | []byte](c *cursor, s T) {
	for len(s) > 0 {
		n := copy(c.room(), s)
		c.at, s = c.at+n, s[n:]
	}
}

func (c *cursor) writeSized(s string) {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], uint32(len(s))) //nolint:gosec // at most maxLength
	write(c, n[:])
	c.write(s)
}

func (c *cursor) skip(n int) {
	for n > 0 {
		step := min(n, len(c.room()))
		c.at, n = c.at+step, n-step
	}
}

func (c *cursor) read(n int) []byte {
	out := make([]byte, n)
	for rest := out; len(rest) > 0; {
		n := copy(rest, c.room())
		c.at, rest = c.at+n, rest[n:]
	}
	return out
}

func (c *cursor) readSized() string {
	return string(c.read(int(binary.LittleEndian.Uint32(c.read(4)))))
}

// A chain is a list of slots.
type chain struct{ head, tail int32 }

// A link is a slot's place in a chain.
type link struct{ prev, next int32 }

var emptyChain = chain{-1, -1} //nolint:gochecknoglobals // a constant that the language has no word for

// pushLocked puts a slot at the end of both of its chains.
func (r *Ring) pushLocked(i int32) {
	s := &r.mu.slots[i]
	push(&r.mu.all, i, &s.all, func(j int32) *link { return &r.mu.slots[j].all })
	push(&r.mu.ranks[s.priority], i, &s.rank, func(j int32) *link { return &r.mu.slots[j].rank })
}

func (r *Ring) unlinkLocked(i int32) {
	s := &r.mu.slots[i]
	unlink(&r.mu.all, s.all, func(j int32) *link { return &r.mu.slots[j].all })
	unlink(&r.mu.ranks[s.priority], s.rank, func(j int32) *link { return &r.mu.slots[j].rank })
}

func push(c *chain, i int32, l *link, of func(int32) *link) {
	*l = link{prev: c.tail, next: -1}
	if c.tail >= 0 {
		of(c.tail).next = i
	} else {
		c.head = i
	}
	c.tail = i
}

func unlink(c *chain, l link, of func(int32) *link) {
	if l.prev >= 0 {
		of(l.prev).next = l.next
	} else {
		c.head = l.next
	}
	if l.next >= 0 {
		of(l.next).prev = l.prev
	} else {
		c.tail = l.prev
	}
}
