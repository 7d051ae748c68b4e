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
	// PrimaryOnly asks for the primary; all else but Position and Except is ignored.
	PrimaryOnly bool
	// AcceptUnverified lets the read use a replica that was fresh when the primary
	// was last seen, for Config.Grace after that (REQ-R14).
	AcceptUnverified bool
	// AcceptLate lets the read use a late replica where no other may take it: one whose only fault is lag, also while its
	// breaker is open because of that, whose Hi is at most AcceptLate (REQ-D5). Choice.Late says that it was one. A
	// replica that is open for another reason is none, nor one whose staleness has no bound. Default 0 and less: none.
	AcceptLate time.Duration
	// Except is the name of a node not to use, for a second try elsewhere.
	Except string
}
