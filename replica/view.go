package replica

import (
	"fmt"
	"math"
	"time"
)

// view is what the samples say of a node. It is immutable: each look publishes a new one.
// Instants are nanoseconds of the Set's clock.
type view struct {
	condition Condition // Fit or a structural one
	detail    string
	err       error // of a sample that failed: what detail quotes
	asOf      int64 // the node holds every commit acknowledged before; Hi = now − asOf
	lo        int64 // evidence of lag, as of the sample
	sampledAt int64 // when the look had returned
	took      int64 // how long the look took
	seen      int64 // when the primary had last been seen, if it was lost and came back only after the sample; else 0
	position  uint64
	system    string  // of the newest sample; on the primary, of the newest good one
	timeline  uint32  // likewise; 0: not known
	pace      float64 // bytes replayed in a nanosecond between the two newest samples
	doubt     bool
	down      bool // its WAL receiver does not stream
	paused    bool
}

// fresh is the common case of check: nothing bars the node, Hi is within the limit, and
// so is the age of the sample, which is another thing where the primary is idle (REQ-R5).
func (v *view) fresh(now int64, s *Settings, limit int64) bool {
	return v.condition == Fit && v.lo <= int64(s.Trip) && now-v.asOf <= limit && now-v.sampledAt <= int64(s.MaxStaleness)
}

// holds tells whether the node has replayed up to a position, if one is asked for.
func (v *view) holds(p *Position) bool {
	return p.LSN == 0 || v.position >= p.LSN && v.timeline == p.Timeline && v.system == p.SystemID
}

// check tells whether a read may be sent to the node now. It is memory only.
func (v *view) check(now int64, s *Settings, r *Requirement, primarySeen int64) (c Condition, unverified bool) {
	c, unverified = v.within(now, s, r, primarySeen)
	if c == Fit && !v.holds(&r.Position) {
		return v.lacks(&r.Position), false
	}
	return c, unverified
}

// lacks says why a node does not hold a position.
func (v *view) lacks(p *Position) Condition {
	switch {
	case v.system != p.SystemID:
		return OtherCluster
	case v.timeline != p.Timeline:
		return OtherTimeline
	}
	return Behind
}

// within is check without the position that the read asks for.
func (v *view) within(now int64, s *Settings, r *Requirement, primarySeen int64) (c Condition, unverified bool) {
	if v.seen != 0 {
		primarySeen = v.seen
	}
	switch {
	case v.condition != Fit:
		return v.condition, false
	case v.lo > int64(s.Trip):
		return Late, false
	case now-v.sampledAt > int64(s.MaxStaleness):
		return Stale, false
	case now-v.asOf <= s.limit(r):
		return Fit, false
	case sub(now, primarySeen) <= s.lost():
		return Stale, false
	case r.AcceptUnverified && v.wasFresh(now, s, r, primarySeen):
		return Fit, true
	}
	return UnknownPrimary, false
}

// wasFresh tells whether the node was within the bound when the primary was last
// seen, less than the grace ago, and is still sampled (REQ-R14).
func (v *view) wasFresh(now int64, s *Settings, r *Requirement, primarySeen int64) bool {
	return s.Grace > 0 && sub(now, primarySeen) <= int64(s.Grace) && sub(primarySeen, v.asOf) <= s.limit(r)
}

// explain puts a refusal into words, with the measured value and the threshold.
func (v *view) explain(c Condition, now int64, s *Settings, r *Requirement) string {
	hi, limit := hiText(sub(now, v.asOf)), time.Duration(s.limit(r))
	switch c {
	case Late:
		return fmt.Sprintf("lag at least %v, over %v", round3(time.Duration(v.lo)), s.Trip)
	case Stale:
		if age := now - v.sampledAt; age > int64(s.MaxStaleness) {
			return fmt.Sprintf("last sampled %v ago, over %v", round3(time.Duration(age)), s.MaxStaleness)
		}
		return fmt.Sprintf("staleness up to %s, over %v%s", hi, limit, s.boundHint(limit))
	case UnknownPrimary:
		return fmt.Sprintf("without a look at the primary its staleness is not known to be within %v", limit)
	case Behind, OtherTimeline, OtherCluster:
		if v.condition == Fit {
			return v.explainLack(c, &r.Position)
		}
	default:
	}
	return v.detail
}

// explainLack puts into words why a node that may take reads does not hold a position.
func (v *view) explainLack(c Condition, p *Position) string {
	switch c {
	case OtherCluster:
		return fmt.Sprintf("the read's position is of system identifier %s, this node's is %s", p.SystemID, v.system)
	case OtherTimeline:
		return fmt.Sprintf("the read's position is of timeline %d, this node follows %d", p.Timeline, v.timeline)
	default:
	}
	missing := fmt.Sprintf("%d bytes of WAL short of the read's position", p.LSN-v.position)
	if after := v.reaches(p); after > 0 {
		return fmt.Sprintf("%s, about %v at its pace", missing, round3(after))
	}
	return missing + ", and made no progress between its last two samples"
}

// reaches estimates how long after its newest sample a node that is behind will hold a
// position, from its progress; 0 if it made none.
func (v *view) reaches(p *Position) time.Duration {
	if v.pace <= 0 {
		return 0
	}
	after := math.Ceil(float64(p.LSN-v.position) / v.pace)
	return max(time.Duration(min(after, float64(longestSetting))), time.Millisecond)
}

// boundHint says why a bound below what sampling can show is refused most of the time.
func (s *Settings) boundHint(limit time.Duration) string {
	if limit >= s.floor() {
		return ""
	}
	return fmt.Sprintf("; a bound under %v needs a shorter sampling interval than Calm %v", s.floor(), s.Calm)
}

func hiText(hi int64) string {
	if time.Duration(hi) == Never {
		return "unbounded"
	}
	return round3(time.Duration(hi)).String()
}

func round3(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
