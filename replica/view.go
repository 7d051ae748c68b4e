package replica

import (
	"fmt"
	"time"
)

// view is what the samples say of a node. It is immutable: each look publishes a new one.
// Instants are nanoseconds of the Set's clock.
type view struct {
	condition Condition // Fit or a structural one
	detail    string
	asOf      int64 // the node holds every commit acknowledged before; Hi = now − asOf
	lo        int64 // evidence of lag, as of the sample
	sampledAt int64 // when the look had returned
	position  uint64
	doubt     bool
	down      bool // its WAL receiver does not stream
	paused    bool
}

// fresh is the common case of check: nothing bars the node, Hi is within the limit, and
// so is the age of the sample, which is another thing where the primary is idle (REQ-R5).
func (v *view) fresh(now int64, s *Settings, limit int64) bool {
	return v.condition == Fit && v.lo <= int64(s.Trip) && now-v.asOf <= limit && now-v.sampledAt <= int64(s.MaxStaleness)
}

// check tells whether a read may be sent to the node now. It is memory only.
func (v *view) check(now int64, s *Settings, r *Requirement, primarySeen int64) (c Condition, unverified bool) {
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
	default:
		return v.detail
	}
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
