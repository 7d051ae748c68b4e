package replica

import (
	"fmt"
	"time"
)

// A Verdict is what a Set says of one replica and one read.
type Verdict struct {
	// Condition is Fit if the read may be sent there, whatever is in flight; Detail says why not, in words.
	Condition Condition
	Detail    string
	// Err is why the newest sample failed, where the Condition is Unreachable: for who may not show Detail, which quotes it. A driver's names users, databases and addresses.
	Err error
	// Hi bounds its staleness now; Never if nothing does.
	Hi time.Duration
	// Share is its part of its full share of traffic, 0 to 1: less in a slow start.
	Share float64
	// RetryAfter is after which time it may be back; 0 if unknown.
	RetryAfter time.Duration
}

// Judge tells whether a replica may take such a read: for those who route reads elsewhere, a proxy say, and have none to Pick for. It reads memory only, and
// allocates only for a refusal. Not known: no replica of the Set has that name, which the primary is not one of; once the Set is closed none has. PrimaryOnly, Except and AcceptLate are ignored.
func (s *Set) Judge(name string, r Requirement) (v Verdict, known bool) {
	n := s.find(name)
	if n == nil || n == s.primary {
		return Verdict{}, false
	}
	st, now := s.settings.Load(), s.now()
	seen := n.view.Load()
	v.Hi, v.Share = time.Duration(sub(now, seen.asOf)), n.share(seen, st, now)
	if v.Condition, _ = seen.check(now, st, &r, s.primarySeen.Load()); v.Condition == Fit && n.admits() {
		return v, true
	}
	v.Detail = seen.explain(v.Condition, now, st, &r)
	if v.Condition == Unreachable {
		v.Err = seen.err
	}
	if b := n.breaker.Stats(); !n.admits() {
		v.RetryAfter = b.RetryAfter
		if v.Condition == Fit {
			v.Condition, v.Detail = Open, fmt.Sprintf("breaker %v: %v", b.State, b.Reason)
		}
	}
	return v, true
}
