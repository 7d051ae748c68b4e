package breakerstates

import (
	"fmt"

	"github.com/breakwater-go/breakwater/breaker"
)

const (
	callers = 3
	slots   = 2 // Probe.Concurrent
	need    = 2 // successes in a row that close
)

// A word is the state word.
type word struct {
	state      breaker.State
	generation uint8
}

// A machine is the state of everything; it is compared by value, in its canonical form.
type machine struct {
	word    word
	cell    uint8 // its generation
	balance int8  // results counted, less calls ended: 0 when nobody is between the two
	slots   [slots]uint8
	lock    uint8 // 1 + who holds it; 0: free
	probeOK uint8
	over    uint16 // a bit for each reservation whose lease is over
	actors  [callers + 2]actor
}

// The actors besides the callers.
const (
	timer   = callers
	tripper = callers + 1
)

// An actor is what a goroutine has in its registers.
type actor struct {
	at    place
	word  word // of the permit; of a timer: the one that it was set for
	slot  uint8
	held  uint8 // what it saw in the slot
	mine  uint8 // its reservation
	fails bool  // how its call ends
	to    breaker.State
	saved int8 // by a variant
}

// A place is the step that comes next.
type place uint8

const (
	idle     place = iota
	loadSlot       // reserve
	swapSlot
	relook
	giveBack
	running // admitted
	undo
	lock
	moveCell
	storeCell // only of a variant
	moveWord
	freeSlot
)

func (p place) String() string {
	return [...]string{
		"idle", "load slot", "swap slot", "look again", "give back", "running", "undo", "lock", "move cell", "store cell",
		"move word", "free slot",
	}[p]
}

// A variant leaves one guard out.
type variant int

const (
	sound variant = iota
	noGenerationInSuccess
	noUndo
	noGenerationInFailure
	noGenerationInProbe
	noOwnerInProbe
	noRelook
	noGiveBack
	freeByStore
	noGenerationInTimer
	wordBeforeCell
	cellStored
	slotsEmptied
)

// A fault is what must not be.
type fault string

func (f fault) Error() string { return string(f) }

// A move is a step that was taken, for the trace.
type move struct {
	who    int
	what   string
	begins bool // something new, rather than going on
}

func (m move) String() string { return fmt.Sprintf("%d: %s", m.who, m.what) }

// next calls yield with every state that can follow.
func (m *machine) next(v variant, yield func(move, machine, error)) {
	for i := range m.actors {
		m.act(v, i, func(what string, n machine, err error) { yield(move{i, what, m.actors[i].at == idle}, n, err) })
	}
	for _, id := range m.slots {
		if id != 0 && !m.isOver(id) {
			n := *m
			n.over |= 1 << id
			yield(move{-1, fmt.Sprintf("the lease of %d is over", id), true}, n, nil)
		}
	}
}

func (m *machine) isOver(id uint8) bool { return m.over>>id&1 == 1 }

// act takes the steps of one actor.
func (m *machine) act(v variant, i int, yield func(string, machine, error)) {
	a := m.actors[i]
	step := func(what string, f func(m *machine, a *actor) error) {
		n := *m
		err := f(&n, &n.actors[i])
		yield(what, n, err)
	}
	switch {
	case a.at == idle:
		m.beginAct(i, step)
	case a.at == running && a.mine == 0:
		step("succeeds", func(m *machine, a *actor) error { return m.succeed(v, a) })
		step("fails", func(_ *machine, a *actor) error { a.fails, a.at = true, lock; return nil })
	case a.at == running:
		step("probe succeeds", func(_ *machine, a *actor) error { a.fails, a.at = false, lock; return nil })
		step("probe fails", func(_ *machine, a *actor) error { a.fails, a.at = true, lock; return nil })
	case a.at == lock && m.lock == 0:
		step("lock", func(m *machine, a *actor) error { m.lock = uint8(i + 1); return m.locked(v, i, a) })
	case a.at != idle && a.at != lock:
		step(a.at.String(), func(m *machine, a *actor) error { return m.step(v, i, a) })
	}
}

func (m *machine) beginAct(i int, step func(string, func(*machine, *actor) error)) {
	switch {
	case i < callers:
		step("asks", func(m *machine, a *actor) error { m.ask(a); return nil })
	case i == tripper:
		step("trips", func(_ *machine, a *actor) error { a.at = lock; return nil })
	case m.word.state != breaker.Closed:
		step("timer fires", func(m *machine, a *actor) error { a.word, a.at = m.word, lock; return nil })
	}
}

// ask is admit: one load of the word.
func (m *machine) ask(a *actor) {
	a.word = m.word
	switch m.word.state {
	case breaker.Closed:
		a.at = running
	case breaker.HalfOpen:
		a.at, a.slot = loadSlot, 0
	default:
		m.balance++
		m.finish(a)
	}
}

// finish ends a call.
func (m *machine) finish(a *actor) {
	m.balance--
	*a = actor{}
}

// step is one of the steps that need no choice.
func (m *machine) step(v variant, i int, a *actor) error {
	switch a.at {
	case loadSlot:
		m.look(a)
	case swapSlot:
		return m.swap(v, a)
	case relook:
		if m.word == a.word {
			a.at = running
		} else {
			a.at = giveBack
		}
	case giveBack:
		m.compareAndFree(a)
		*a = actor{} // asks again
	case undo:
		m.balance++ // late
		if v != noUndo {
			m.balance--
		}
		m.finish(a)
	case moveCell, storeCell:
		m.moveCell(v, a)
	case moveWord:
		return m.moveWord(v, i, a)
	case freeSlot:
		if v == freeByStore {
			m.slots[a.slot] = 0
		}
		m.compareAndFree(a)
		m.unlock(i, a)
	default:
	}
	return nil
}

func (m *machine) compareAndFree(a *actor) {
	if m.slots[a.slot] == a.mine {
		m.slots[a.slot] = 0
	}
}

// look reads one slot in reserve.
func (m *machine) look(a *actor) {
	a.held = m.slots[a.slot]
	switch {
	case a.held == 0, m.isOver(a.held):
		a.at = swapSlot
	default:
		m.nextSlot(a)
	}
}

func (m *machine) nextSlot(a *actor) {
	a.slot++
	a.at = loadSlot
	if a.slot == slots {
		m.balance++
		m.finish(a)
	}
}

// swap is the compare-and-swap of a reservation.
func (m *machine) swap(v variant, a *actor) error {
	if m.slots[a.slot] != a.held {
		m.nextSlot(a)
		return nil
	}
	a.mine = m.fresh()
	m.slots[a.slot] = a.mine
	a.at = relook
	if v == noRelook {
		a.at = running
		if m.word != a.word {
			return fault("a probe was admitted by a half-open that was over")
		}
	}
	if v == noGiveBack && m.word != a.word {
		*a = actor{}
	}
	return nil
}

// succeed is Done(nil) of a call that is no probe: one add.
func (m *machine) succeed(v variant, a *actor) error {
	m.balance++
	if m.cell != a.word.generation && v != noGenerationInSuccess {
		a.at = undo
		if m.cell < a.word.generation {
			return fault("a success of the present generation is dropped")
		}
		return nil
	}
	defer m.finish(a)
	return m.counted(a)
}

// counted is the moment at which a result counts.
func (m *machine) counted(a *actor) error {
	if m.word != a.word {
		return fault("a result counts in another generation than that of its call")
	}
	return nil
}

// locked is what an actor does first under the lock.
func (m *machine) locked(v variant, i int, a *actor) error {
	switch {
	case i == timer:
		return m.wake(v, i, a)
	case i == tripper:
		m.moveIf(m.word.state != breaker.Open, breaker.Open, i, a)
	case a.mine == 0:
		return m.failed(v, i, a)
	default:
		return m.probed(v, i, a)
	}
	return nil
}

func (m *machine) moveIf(moves bool, to breaker.State, i int, a *actor) {
	switch {
	case moves:
		a.to, a.at = to, moveCell
	case a.mine != 0:
		a.at = freeSlot
	default:
		m.unlock(i, a)
	}
}

func (m *machine) unlock(i int, a *actor) {
	m.lock = 0
	if i < callers {
		m.finish(a)
		return
	}
	*a = actor{}
}

func (m *machine) wake(v variant, i int, a *actor) error {
	stale := m.word != a.word
	if stale && v != noGenerationInTimer {
		m.unlock(i, a)
		return nil
	}
	switch m.word.state {
	case breaker.Open:
		m.moveIf(true, breaker.HalfOpen, i, a)
		if stale {
			return fault("an open period ended by the timer of another state")
		}
	case breaker.HalfOpen: // Longest has passed, and ExpireOpen
		m.moveIf(true, breaker.Open, i, a)
	default:
		m.unlock(i, a)
	}
	return nil
}

func (m *machine) failed(v variant, i int, a *actor) error {
	if m.word.generation != a.word.generation && v != noGenerationInFailure {
		m.balance++
		m.unlock(i, a)
		return nil
	}
	m.balance++
	err := m.counted(a)
	m.moveIf(m.word.state != breaker.Open, breaker.Open, i, a)
	return err
}

func (m *machine) probed(v variant, i int, a *actor) error {
	stale := m.word.generation != a.word.generation && v != noGenerationInProbe
	lost := m.slots[a.slot] != a.mine
	if stale || lost && v != noOwnerInProbe {
		m.balance++
		m.moveIf(false, 0, i, a)
		return nil
	}
	err := m.counted(a)
	if lost {
		err = fault("the result of a probe counts whose slot another one has")
	}
	m.balance++
	if a.fails {
		m.moveIf(true, breaker.Open, i, a)
		return err
	}
	m.probeOK++
	m.moveIf(m.probeOK >= need, breaker.Closed, i, a)
	return err
}

// moveCell is the first half of a move: the cell goes to the new generation, by an add.
func (m *machine) moveCell(v variant, a *actor) {
	switch {
	case v == wordBeforeCell && a.saved == 0: // first the word
		a.saved, a.at = 1, moveWord
		return
	case v == cellStored && a.at == moveCell: // load, and store later
		a.saved, a.at = m.balance, storeCell
		return
	case v == cellStored:
		m.balance = a.saved
	}
	m.cell++
	a.at = moveWord
}

// moveWord is the second half.
func (m *machine) moveWord(v variant, i int, a *actor) error {
	if v == wordBeforeCell && a.saved == 2 { // the cell is there by now
		m.ended(i, a)
		return nil
	}
	from, to := m.word.state, a.to
	m.word = word{to, m.word.generation + 1}
	if to == breaker.HalfOpen {
		m.probeOK = 0
		if v == slotsEmptied {
			m.slots = [slots]uint8{}
		}
	}
	if v == wordBeforeCell {
		a.saved, a.at = 2, moveCell
	} else {
		m.ended(i, a)
	}
	if !legal(from, to) {
		return fault(fmt.Sprintf("moved from %v to %v", from, to))
	}
	return nil
}

func (m *machine) ended(i int, a *actor) {
	if a.mine != 0 {
		a.at = freeSlot
		return
	}
	m.unlock(i, a)
}

func legal(from, to breaker.State) bool {
	switch from {
	case breaker.Closed:
		return to == breaker.Open
	case breaker.Open:
		return to == breaker.HalfOpen
	default:
		return to == breaker.Open || to == breaker.Closed
	}
}
