package replica

import "time"

// Never is a threshold that is never passed: Config.Trip = Never makes the lag
// rule inert (REQ-R11). As a bound it reads "no bound".
const Never time.Duration = 1<<63 - 1

// Requirement says what a read asks of its node. The zero value asks for a replica
// within the Set's default staleness limit.
type Requirement struct {
	// MaxStaleness is the read's own bound, compared with Hi at the pick.
	// Default 0: the Set's limit. Negative: no replica is fresh enough. Never: any sampled replica that is not late.
	MaxStaleness time.Duration
	// Position asks for a node that holds what was written before it: one of its timeline whose
	// newest sample has replayed up to it (REQ-R12). The primary holds any position but one of
	// a newer timeline than it was seen on. A position of another cluster is a *PositionError. Default: none.
	Position Position
	// PrimaryOnly asks for the primary; all else but Position is ignored.
	PrimaryOnly bool
	// AcceptUnverified lets the read use a replica that was fresh when the primary
	// was last seen, for Config.Grace after that (REQ-R14).
	AcceptUnverified bool
	// Except is the name of a node not to use, for a second try elsewhere.
	Except string
}
