package lab

import "time"

// hit is the first fault of a run.
type hit struct {
	fault   fault
	node    string
	at      time.Duration // when it began
	missing int64         // the first commit that the replica lacks; 0: not a fault of lag
	healed  time.Duration // 0: not yet
}

// faultBegan notes the first fault of a run; the other figures of it come later.
func (r *recorder) faultBegan(f fault, node string, at time.Duration, inFlight int, missing int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.Faults++
	if r.mu.sum.Faults == 1 {
		r.mu.hit = hit{fault: f, node: node, at: at, missing: missing}
		r.mu.sum.InFlightAtFault = inFlight
	}
}

func (r *recorder) faultHealed(node string, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := &r.mu.hit; h.node == node && h.healed == 0 {
		h.healed = at
	}
}
