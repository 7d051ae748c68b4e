package replica

import (
	"fmt"
	"time"
)

// refuse builds the error of a read that no node may take.
func (s *Set) refuse(nodes []*node, st *Settings, r *Requirement, now int64) error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	if err := s.foreign(&r.Position); err != nil {
		return err
	}
	e := &NoReplicaError{Reasons: make([]NodeReason, 0, len(nodes))}
	for _, n := range nodes {
		reason, retry := s.reason(n, st, r, now)
		e.Reasons = append(e.Reasons, reason)
		if retry > 0 && (e.RetryAfter == 0 || retry < e.RetryAfter) {
			e.RetryAfter = retry
		}
	}
	return e
}

// reason says why a node was not picked. Its samples are asked before its breaker,
// since they say why that is open.
func (s *Set) reason(n *node, st *Settings, r *Requirement, now int64) (NodeReason, time.Duration) {
	v := n.view.Load()
	cond, _ := v.check(now, st, r, s.primarySeen.Load())
	reason := NodeReason{Node: n.Name, Condition: cond, Detail: v.explain(cond, now, st, r)}
	if p := s.primary.view.Load(); cond == UnknownPrimary && p.condition != Fit {
		reason.Detail += fmt.Sprintf("; primary %s: %v (%s)", s.primary.Name, p.condition, p.detail)
	}
	switch {
	case n.Name == r.Except:
		reason.Condition, reason.Detail = Excepted, "the read asked for another node"
	case n.takesLate(v, now, st, r):
		reason.Condition, reason.Detail = n.saturated()
		return reason, 0
	case !n.admits():
		b := n.breaker.Stats()
		if cond != Unreachable && !cond.structural() {
			reason.Condition, reason.Detail = Open, fmt.Sprintf("breaker %v: %v", b.State, b.Reason)
		}
		return reason, b.RetryAfter
	case cond == Behind:
		return reason, v.reaches(&r.Position)
	case cond == Fit:
		reason.Condition, reason.Detail = n.saturated()
	}
	return reason, 0
}

func (n *node) saturated() (Condition, string) {
	return Saturated, fmt.Sprintf("%d reads in flight, its cap", n.MaxInFlight)
}

func (s *Set) refusePrimary(r Requirement) error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	n := s.primary
	reason := NodeReason{Node: n.Name}
	reason.Condition, reason.Detail = n.saturated()
	switch v := n.view.Load(); {
	case r.Except == n.Name:
		reason.Condition, reason.Detail = Excepted, "the read asked for another node"
	case v.condition == NotPrimary:
		reason.Condition, reason.Detail = v.condition, v.detail
	}
	return &NoReplicaError{Reasons: []NodeReason{reason}}
}

// foreign refuses a position of another cluster than the primary's, once that is known.
func (s *Set) foreign(p *Position) error {
	known := s.primary.view.Load().system
	if p.IsZero() || known == "" || known == p.SystemID {
		return nil
	}
	return &PositionError{
		Position: *p, Condition: OtherCluster,
		Detail: fmt.Sprintf("its system identifier is %s, the primary's %s", p.SystemID, known),
	}
}

// primaryLacks refuses what the primary cannot hold: a position of another cluster, or of a
// newer timeline than it was seen on, since then it is no longer the one that takes the writes.
func (s *Set) primaryLacks(p *Position) error {
	if err := s.foreign(p); err != nil {
		return err
	}
	known := s.primary.view.Load().timeline
	if p.IsZero() || known == 0 || p.Timeline <= known {
		return nil
	}
	return &PositionError{
		Position: *p, Condition: OtherTimeline,
		Detail: fmt.Sprintf("it is of timeline %d, and the primary was last seen on %d: another server was promoted, or the primary has not been looked at since", p.Timeline, known),
	}
}
