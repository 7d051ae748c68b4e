package replica

import "time"

// ReadInfo tells the caller of one read which node it was sent to. Drivers write it while the read
// runs: use one for each call at a time. Of several statements under one context it tells of the newest,
// unless it is merged.
type ReadInfo struct {
	// Node is the name of the node; of the last one if the read was tried twice.
	Node string
	// Primary says that the node is the primary.
	Primary bool
	// Lo and Hi bound the node's staleness as of PickedAt; Hi is Never if there is no bound.
	Lo, Hi time.Duration
	// PickedAt is when the node was picked.
	PickedAt time.Time
	// Unverified says that the bound could not be verified (REQ-R14).
	Unverified bool
	// Late says that the node is a late replica, which the read accepts (Requirement.AcceptLate).
	Late bool
	// Attempts counts the nodes that the statement was tried on: 1, or 2 after a
	// failure; 0 if no node could be picked.
	Attempts int
}

// Info is what the choice says to the caller of the read, without Attempts.
func (c *Choice) Info() ReadInfo {
	lo, hi := c.Staleness()
	return ReadInfo{
		Node: c.Name(), Primary: c.Primary(), Lo: lo, Hi: hi, PickedAt: c.At(), Unverified: c.unverified, Late: c.late,
	}
}

// Merge has i, which tells of one statement, tell of those before it as well: it is late or unverified
// if one of them was, and as stale as the stalest. An earlier that is the zero value changes nothing.
func (i *ReadInfo) Merge(earlier ReadInfo) {
	if earlier.PickedAt.IsZero() {
		return
	}
	i.Primary = i.Primary && earlier.Primary
	i.Late, i.Unverified = i.Late || earlier.Late, i.Unverified || earlier.Unverified
	i.Lo = max(i.Lo, earlier.Lo)
	if i.Hi == Never || earlier.Hi == Never {
		i.Hi = Never
		return
	}
	i.Hi = max(i.Hi, i.PickedAt.Sub(earlier.Current()))
}

// Current is the moment for which what was read is known to be current; the zero time if
// nothing bounds it.
func (i *ReadInfo) Current() time.Time {
	if i.Hi == Never || i.PickedAt.IsZero() {
		return time.Time{}
	}
	return i.PickedAt.Add(-i.Hi)
}
