package boltletters

import (
	"slices"

	"go.etcd.io/bbolt"

	"github.com/breakwater-go/breakwater/emit"
)

// maxScan is how many records are read in one transaction: one that reads for long keeps pages from being used again.
const maxScan = 4096

// A scan reads the letters of some lanes of a consumer, in the order of their sequence.
type scan struct {
	lanes []laneKey
	after uint64
	done  bool
}

// page reads on, in one transaction, until f returns false or enough was read. What f is given is valid during the call.
// Damaged records are collected in bad.
func (s *Store) page(sc *scan, bad *[]place, f func(v *letterView) bool) error {
	return s.read(func(tx *bbolt.Tx) error {
		heads := make([]head, 0, len(sc.lanes))
		for _, k := range sc.lanes {
			if bucket := tx.Bucket(lettersBucket).Bucket(k.name()); bucket != nil {
				h := head{lane: k, cursor: bucket.Cursor()}
				h.set(h.cursor.Seek(seqKey(sc.after + 1)))
				heads = append(heads, h)
			}
		}
		for range maxScan {
			h := oldest(heads)
			if h == nil {
				sc.done = true
				return nil
			}
			sc.after = h.seq
			record := h.next()
			v, err := view(record, place{h.lane, sc.after})
			if err != nil {
				*bad = append(*bad, v.place)
			} else if !f(&v) {
				return nil
			}
		}
		return nil
	})
}

// A head is where a scan is in a lane.
type head struct {
	lane   laneKey
	cursor *bbolt.Cursor
	seq    uint64 // 0: at its end
	key    []byte
	value  []byte
}

func (h *head) set(k, v []byte) { h.seq, h.key, h.value = seqOf(k), k, v }

// next is the record at the head, which goes on to the one after it.
func (h *head) next() []byte {
	record, k, v := assemble(h.cursor, h.key, h.value)
	h.set(k, v)
	return record
}

func oldest(heads []head) *head {
	var first *head
	for i := range heads {
		if h := &heads[i]; h.seq != 0 && (first == nil || h.seq < first.seq) {
			first = h
		}
	}
	return first
}

// lanesFor lists the lanes of a consumer that a filter may select from.
func (s *Store) lanesFor(consumer string, f *emit.Filter) []laneKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(lanesOf(s.mu.lanes, consumer), func(k laneKey) bool {
		return f.Parked != nil && *f.Parked != k.parked || f.Priorities != nil && !slices.Contains(f.Priorities, int(k.priority))
	})
}

// matches reports whether a filter selects a letter, of a lane that it may select from.
func matches(f *emit.Filter, v *letterView) bool {
	switch {
	case v.seq <= f.After,
		f.Key != "" && f.Key != string(v.key()),
		f.Types != nil && !slices.Contains(f.Types, string(v.kind())),
		f.Reasons != nil && !slices.Contains(f.Reasons, emit.Reason(v.reason)),
		f.Priorities != nil && !slices.Contains(f.Priorities, int(v.lane.priority)),
		!f.From.IsZero() && v.storedAt.Before(f.From),
		!f.To.IsZero() && !v.storedAt.Before(f.To),
		!f.Now.IsZero() && v.notBefore.After(f.Now):
		return false
	}
	return true
}
