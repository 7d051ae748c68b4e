package breakerstates

import (
	"fmt"
	"slices"
)

// A visit is a state with the way to it.
type visit struct {
	machine machine
	from    int // the visit before
	move    move
}

// explore visits every state that can be reached from a closed breaker, the nearest first, and
// returns how many there are, or the first fault with the shortest way to it.
func explore(v variant) (states int, err error) {
	start := canonical(machine{})
	visits := []visit{{machine: start, from: -1}}
	seen := map[machine]bool{start: true}
	for i := 0; i < len(visits); i++ {
		goesOn := false
		now := visits[i].machine
		now.next(v, func(step move, n machine, fault error) {
			goesOn = goesOn || !step.begins
			n = canonical(n)
			if fault == nil && !seen[n] {
				fault = n.check()
				seen[n] = true
				visits = append(visits, visit{n, i, step})
			}
			if fault != nil && err == nil {
				err = fmt.Errorf("%w, after %v", fault, append(wayTo(visits, i), step))
			}
		})
		if !goesOn && err == nil && !now.quiet() {
			err = fmt.Errorf("nobody can go on, after %v", wayTo(visits, i))
		}
		if err != nil {
			return len(visits), err
		}
	}
	return len(visits), nil
}

func wayTo(visits []visit, i int) (way []move) {
	for ; visits[i].from >= 0; i = visits[i].from {
		way = append(way, visits[i].move)
	}
	slices.Reverse(way)
	return way
}

// check is what holds in every state.
func (m *machine) check() error {
	if n := m.probesAtOnce(); n > slots {
		return fault(fmt.Sprintf("%d probes at once", n))
	}
	for i, id := range m.slots {
		if id != 0 && !m.hasOwner(i, id) {
			return fault(fmt.Sprintf("slot %d is lost: nobody under way has the reservation in it", i))
		}
	}
	if m.quiet() && m.balance != 0 {
		return fault(fmt.Sprintf("%d results too many counted", m.balance))
	}
	return nil
}

// probesAtOnce leaves out those whose lease is over.
func (m *machine) probesAtOnce() (n int) {
	for _, a := range m.actors {
		if a.at == running && a.mine != 0 && !m.isOver(a.mine) {
			n++
		}
	}
	return n
}

func (m *machine) hasOwner(slot int, id uint8) bool {
	return slices.ContainsFunc(m.actors[:callers], func(a actor) bool {
		return a.mine == id && int(a.slot) == slot && a.at != idle
	})
}

// quiet reports that nobody is under way.
func (m *machine) quiet() bool {
	for _, a := range m.actors {
		if a.at != idle {
			return false
		}
	}
	return m.lock == 0
}
