package boltletters

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

// A laneKey names a bucket of letters: those of a consumer with one priority, that wait or are parked.
type laneKey struct {
	consumer string
	priority uint8
	parked   bool
}

// name is the key of the bucket: the consumer, the priority, 1 if parked.
func (k laneKey) name() []byte {
	b := append(make([]byte, 0, len(k.consumer)+2), k.consumer...)
	b = append(b, k.priority, 0)
	if k.parked {
		b[len(b)-1] = 1
	}
	return b
}

func laneOf(name []byte) (laneKey, bool) {
	n := len(name) - 2
	if n < 1 || name[n+1] > 1 || name[n] >= emit.MaxPriorities {
		return laneKey{}, false
	}
	return laneKey{string(name[:n]), name[n], name[n+1] == 1}, true
}

// A place is where a letter lies.
type place struct {
	lane laneKey
	seq  uint64
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// A lane is what is known in memory of one bucket. Its fields are written by the committer under Store.mu.
type lane struct {
	key            laneKey
	letters, bytes int64
	claimed        map[uint64]int64 // claimed letters by sequence, with their bytes
	claimedBytes   int64
	// first is the oldest letter, and free the oldest that is not claimed; 0: none, or to be looked for.
	first, free           uint64
	firstAt               time.Time
	firstKnown, freeKnown bool
}

// gone notes that a letter is no longer in the lane.
func (l *lane) gone(seq uint64, size int64) {
	l.letters--
	l.bytes -= size
	l.firstKnown = l.firstKnown && l.first != seq
	l.freeKnown = l.freeKnown && l.free != seq
}

// came notes a letter that is new in the lane.
func (l *lane) came(seq uint64, at time.Time, size int64) {
	l.letters++
	l.bytes += size
	if l.firstKnown && (l.first == 0 || seq < l.first) {
		l.first, l.firstAt = seq, at
	}
	if l.freeKnown && (l.free == 0 || seq < l.free) {
		l.free = seq
	}
}

func (l *lane) claim(seq uint64, size int64) {
	l.claimed[seq] = size
	l.claimedBytes += size
	l.freeKnown = l.freeKnown && l.free != seq
}

func (l *lane) unclaim(seq uint64) {
	l.claimedBytes -= l.claimed[seq]
	delete(l.claimed, seq)
	if l.freeKnown && (l.free == 0 || seq < l.free) {
		l.free = seq
	}
}

// lanesOf lists the lanes of a consumer that hold letters, the most important first.
func lanesOf(lanes map[laneKey]*lane, consumer string) []laneKey {
	var keys []laneKey
	for k, l := range lanes {
		if k.consumer == consumer && l.letters > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b laneKey) int { return int(a.priority) - int(b.priority) })
	return keys
}
