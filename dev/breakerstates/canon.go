package breakerstates

import (
	"cmp"
	"slices"
)

// present is the generation of the word in the canonical form.
const present = 1

// canonical is the one machine that stands for all those which differ from m in names only, so that the
// walk is finite though calls, wakes and trips have no end:
//
//   - generations count from the present one, and all those before it are the same to everybody;
//   - what is in a register that nobody reads any more is forgotten;
//   - the callers are put in order, since they are alike;
//   - reservations are numbered as they are met. A number is free again when nobody has it any more, as
//     the memory of a pointer is.
func canonical(m machine) machine {
	back := m.word.generation - present
	m.word.generation, m.cell = present, m.cell-back
	for i := range m.actors {
		m.actors[i].forget(m.actors[i].word.generation != back+present)
	}
	m.sortCallers()
	m.renumber()
	return m
}

// forget drops what the next steps of an actor do not read.
func (a *actor) forget(stale bool) {
	if stale || a.at == idle || a.at >= moveCell {
		a.word = word{}
	} else {
		a.word.generation = present
	}
	if a.at != swapSlot {
		a.held = 0
	}
}

func (m *machine) sortCallers() {
	order := [callers]int{0, 1, 2}
	slices.SortStableFunc(order[:], func(i, j int) int { return compare(m.actors[i], m.actors[j]) })
	before := m.actors
	holder := int(m.lock) - 1
	for to, from := range order {
		m.actors[to] = before[from]
		if from == holder {
			m.lock = uint8(to + 1)
		}
	}
}

// compare leaves reservations out: their numbers mean nothing.
func compare(a, b actor) int {
	key := func(a actor) int {
		k := int(a.at)<<16 | int(a.word.state)<<12 | int(a.word.generation)<<8 | int(a.slot)<<4 | int(a.to)<<1
		if a.fails {
			k++
		}
		return k
	}
	return cmp.Compare(key(a), key(b))
}

func (m *machine) renumber() {
	var names [16]uint8
	next, over := uint8(0), uint16(0)
	rename := func(id *uint8) {
		if *id == 0 {
			return
		}
		if names[*id] == 0 {
			next++
			names[*id] = next
			over |= m.over >> *id & 1 << next
		}
		*id = names[*id]
	}
	for i := range m.slots {
		rename(&m.slots[i])
	}
	for i := range m.actors {
		rename(&m.actors[i].mine)
		rename(&m.actors[i].held)
	}
	m.over = over
}

// fresh is a number that nobody has.
func (m *machine) fresh() uint8 {
	used := uint16(0)
	for _, id := range m.slots {
		used |= 1 << id
	}
	for _, a := range m.actors {
		used |= 1<<a.mine | 1<<a.held
	}
	id := uint8(1)
	for used>>id&1 == 1 {
		id++
	}
	m.over &^= 1 << id
	return id
}
