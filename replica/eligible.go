package replica

// Eligible returns how many replicas may take such a read now, whatever they have in flight:
// for those who decide about many reads, not one. It reads memory only. With PrimaryOnly it is 1 if
// the primary may be read and its newest sample did not fail, else 0: Pick would still send a read there.
func (s *Set) Eligible(r Requirement) (count int) {
	if r.PrimaryOnly {
		if c := s.primary.view.Load().condition; s.ctx.Err() != nil || c == NotPrimary || c == Unreachable {
			return 0
		}
		return 1
	}
	nodes, st, now, seen := *s.replicas.Load(), s.settings.Load(), s.now(), s.primarySeen.Load()
	for _, n := range nodes {
		if n.Name != r.Except && n.eligible(now, st, &r, seen) {
			count++
		}
	}
	return count
}

func (n *node) eligible(now int64, st *Settings, r *Requirement, primarySeen int64) bool {
	v := n.view.Load()
	if c, _ := v.check(now, st, r, primarySeen); c == Fit && n.admits() {
		return true
	}
	return n.takesLate(v, now, st, r)
}

// Sampled reports whether each node's first sample has come or failed.
func (s *Set) Sampled() bool {
	for _, n := range *s.replicas.Load() {
		if !n.sampled() {
			return false
		}
	}
	return s.primary.sampled()
}

func (n *node) sampled() bool {
	select {
	case <-n.first:
		return true
	default:
		return false
	}
}
