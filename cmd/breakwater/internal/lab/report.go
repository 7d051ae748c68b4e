package lab

import (
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// endSecond returns what happened since it was last called.
func (r *recorder) endSecond() second {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.mu.second
	r.mu.second = second{nodes: map[string]int{}}
	r.mu.path.use()
	r.mu.sum.PrimaryReadsMax = max(r.mu.sum.PrimaryReadsMax, ended.by.Primary)
	return ended
}

// summary computes what can be told at the end of a run.
func (r *recorder) summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.mu.sum
	s.Ready, s.Ran = ms(r.mu.first), ms(r.mu.latest-r.mu.first)
	if r.mu.worst != nil {
		s.BoundWorst = new(ms(*r.mu.worst))
	}
	s.RefusalP999 = r.mu.refusals.Percentiles(0.999)[0]
	r.percentilesLocked(&s)
	r.movesLocked(&s)
	r.hitLocked(&s)
	r.pathLocked(&s)
	return s
}

// transitionsOf counts those of a node's breaker.
func (r *recorder) transitionsOf(node string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.mu.moves {
		if m.node == node {
			n++
		}
	}
	return n
}

func (r *recorder) percentilesLocked(s *Summary) {
	for p, to := range map[phase][3]**float64{
		calm:   {&s.P50Before, &s.P95Before, &s.P99Before},
		during: {&s.P50During, &s.P95During, &s.P99During},
		after:  {&s.P50After, &s.P95After, &s.P99After},
	} {
		for i, v := range r.mu.reads[p].Percentiles(0.50, 0.95, 0.99) {
			*to[i] = v
		}
	}
	s.WriterP50Before = r.mu.writes[calm].Percentiles(0.50)[0]
	s.WriterP50During = r.mu.writes[during].Percentiles(0.50)[0]
}

func (r *recorder) movesLocked(s *Summary) {
	s.OpenPeriods = []float64{}
	for _, m := range r.mu.moves {
		if m.to != breaker.Open {
			continue
		}
		s.OpenPeriods = append(s.OpenPeriods, ms(m.period))
		if m.from == breaker.Closed {
			s.ClosedToOpen++
		}
	}
}

// hitLocked computes the figures of the first fault, if its node opened for it.
func (r *recorder) hitLocked(s *Summary) {
	h := r.mu.hit
	if h.node == "" {
		return
	}
	var closedAt time.Duration
	for _, m := range r.mu.moves {
		if m.node != h.node || m.at < h.at {
			continue
		}
		if m.to == breaker.Open && s.TimeToOpen == nil {
			s.OpenReason = m.rule
			if from, ok := r.dueLocked(h); ok {
				s.TimeToOpen = new(ms(m.at - from))
			}
		}
		if m.to == breaker.Closed && h.healed > 0 && m.at >= h.healed && closedAt == 0 {
			closedAt = m.at
			s.TimeToClose = new(ms(m.at - h.healed))
		}
	}
	if closedAt > 0 {
		s.ProbesToClose = new(r.probesLocked(h.node, h.healed, closedAt))
		s.RampShareFirst = r.shareLocked(h.node, closedAt, closedAt+rampWindow)
		s.RampShareLast = r.shareLocked(h.node, r.mu.latest-rampWindow, r.mu.latest)
	}
}

// dueLocked is the moment from which time_to_open counts: when the true lag passed
// the trip threshold, or the fault's begin.
func (r *recorder) dueLocked(h hit) (time.Duration, bool) {
	if h.missing == 0 {
		return h.at, true
	}
	acked, ok := r.acks.At(h.missing)
	return acked + r.trip, ok
}

func (r *recorder) probesLocked(node string, from, to time.Duration) (n int) {
	for _, p := range r.mu.probes {
		if p.node == node && p.at >= from && p.at <= to {
			n++
		}
	}
	return n
}

// shareLocked is a node's share of the reads picked in a window, null if there were none.
func (r *recorder) shareLocked(node string, from, to time.Duration) *float64 {
	all, own := 0, 0
	for name, h := range r.mu.history {
		for i := int(from/slot) + 1; i < min(int(to/slot), len(h)); i++ {
			all += h[i]
			if name == node {
				own += h[i]
			}
		}
	}
	if all == 0 {
		return nil
	}
	return new(float64(own) / float64(all))
}
