package replica

import "testing"

// FuzzMemory records looks as the bytes say, some of WAL that is flushed later, and compares each look-up with a plain list of all looks.
func FuzzMemory(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 3}, uint64(3))
	f.Fuzz(func(t *testing.T, steps []byte, p uint64) {
		var m memory
		type look struct {
			position, flushed uint64
			sent, recv        int64
		}
		var all []look
		position, flushed, now := uint64(0), uint64(0), int64(0)
		for _, s := range steps {
			position += uint64(s % 4)
			now += int64(s/4) + 1
			if s%3 != 0 { // up to two bytes are held back, inside of a record maybe
				flushed = max(flushed, position-min(position, uint64(s%3-1)))
			}
			l := look{position, flushed, now, now + int64(s%7)}
			now = l.recv
			m.record(l.position, l.flushed, l.sent, l.recv)
			all = append(all, l)
		}
		p %= position + 2
		asOf, since, missing := int64(never), int64(0), false
		above := uint64(0) // the first position over p
		for _, l := range all {
			if l.position <= p {
				asOf = l.sent
			} else if above == 0 {
				above = l.position
			}
			if above != 0 && !missing && l.flushed >= above {
				since, missing = l.recv, true
			}
		}
		if got := m.asOf(p); got != asOf {
			t.Errorf("asOf(%d) = %d, want %d", p, got, asOf)
		}
		if got, ok := m.missingSince(p); got != since || ok != missing {
			t.Errorf("missingSince(%d) = %d, %v; want %d, %v", p, got, ok, since, missing)
		}
	})
}
