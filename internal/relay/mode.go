package relay

import "fmt"

// Mode is what a relay does with its connections. The zero value is Pass.
type Mode int

const (
	// Pass carries bytes both ways.
	Pass Mode = iota
	// Refuse resets every connection, the existing ones at once and new ones
	// as soon as they are accepted, so the connect or the first read fails
	// with "connection reset by peer". The listener stays open: a closed one
	// could lose its port to another process.
	Refuse
	// Blackhole swallows bytes and closings both ways while connections stay
	// up, as a network does that drops packets. New connections are accepted
	// and never answered.
	Blackhole
)

// String returns the mode's word: pass, refuse or blackhole.
func (m Mode) String() string {
	switch m {
	case Pass:
		return "pass"
	case Refuse:
		return "refuse"
	case Blackhole:
		return "blackhole"
	default:
		return fmt.Sprintf("mode(%d)", int(m))
	}
}

func (m Mode) valid() bool { return m >= Pass && m <= Blackhole }
