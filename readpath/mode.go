package readpath

import (
	"slices"
	"time"
)

// A Mode is what the read path does with its classes. The zero value is Normal.
type Mode uint8

const (
	// Normal sends every class to the replicas.
	Normal Mode = iota
	// Degraded withholds the replicas from every class: none is eligible, or none has been
	// for long enough.
	Degraded
	// Recovering has given the replicas back to some classes, in the order of Recovery.Order.
	Recovering
)

// String returns the mode as one lower-case word.
func (m Mode) String() string {
	switch m {
	case Degraded:
		return "degraded"
	case Recovering:
		return "recovering"
	default:
		return "normal"
	}
}

// MarshalText returns the word of [Mode.String]. It never fails.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// confirm is how long no replica must have been eligible before they are withheld: a process that stood
// still, or a primary that came back, leaves none for the moment that new samples take, and each read of that moment is
// answered by its class anyway.
const confirm = lookEvery

// A machine is the mode of a path (REQ-D1, REQ-D8). It knows no clock: instants are
// handed to it. It is guarded by Router.mu.
//
// Without an eligible replica every class is withheld. Once there is one, and has been without a
// break for the sustained time, the first class of the order is given back; the time is counted
// anew for the next one. A time of confirm without an eligible replica starts it all over, any instant the count.
type machine struct {
	order   []Class
	sustain time.Duration

	given    int           // classes of the order that the replicas serve; len(order): Normal
	eligible bool          // at the newest look
	since    time.Duration // of the present run of looks with an eligible replica or without, or of the class given last
	began    time.Duration // of the time degraded
	total    time.Duration // degraded, before began
}

func newMachine(r Recovery) machine {
	return machine{order: r.Order, sustain: r.Sustain, given: len(r.Order)}
}

func (m *machine) mode() Mode {
	switch m.given {
	case len(m.order):
		return Normal
	case 0:
		return Degraded
	default:
		return Recovering
	}
}

// withheld are the classes that the replicas do not serve, as bits.
func (m *machine) withheld() (mask uint32) {
	for _, c := range m.order[m.given:] {
		mask |= 1 << c
	}
	return mask
}

// look takes in whether a replica is eligible now, and reports whether anything changed.
func (m *machine) look(now time.Duration, eligible bool) (changed bool) {
	before := m.given
	switch {
	case eligible != m.eligible:
		m.since = now
	case !eligible && now-m.since >= confirm:
		m.lose(now)
	case !eligible:
	case m.given < len(m.order) && now-m.since >= m.sustain:
		m.give(now)
	}
	m.eligible = eligible
	return m.given != before
}

func (m *machine) lose(now time.Duration) {
	if m.given == len(m.order) {
		m.began = now
	}
	m.given = 0
}

func (m *machine) give(now time.Duration) {
	m.given++
	m.since = now
	if m.given == len(m.order) {
		m.total += now - m.began
	}
}

// degraded is how long the path has been degraded in all.
func (m *machine) degraded(now time.Duration) time.Duration {
	if m.given == len(m.order) {
		return m.total
	}
	return m.total + now - m.began
}

// change is the step from a mode to the present one.
func (m *machine) change(from Mode) ModeChange {
	return ModeChange{From: from, To: m.mode(), Given: slices.Clone(m.order[:m.given]), At: time.Now()}
}

// asking are the classes whose reads the replicas serve, and the one that waits to be given back.
func (m *machine) asking() []Class { return m.order[:min(m.given+1, len(m.order))] }

// reconfigure takes over the order and time of r. Classes that were given back stay so, if the
// order still begins with them.
func (m *machine) reconfigure(r Recovery) {
	normal := m.given == len(m.order)
	kept := 0
	for kept < m.given && m.order[kept] == r.Order[kept] {
		kept++
	}
	m.order, m.sustain, m.given = r.Order, r.Sustain, kept
	if normal {
		m.given = len(r.Order)
	}
}
