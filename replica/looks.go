package replica

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// looks is what the samplers have seen, on one mutex that no pick takes. Lock order:
// it is the innermost lock; no callback runs under it.
type looks struct {
	sync.Mutex

	primary   looked
	known     bool   // primary holds a look
	positions memory // where the primary was seen
	witnesses memory // what replicas had received while the primary was unknown
	wall      int64  // wall clock minus the Set's clock at the last look
	gap       gap    // the last time for which the primary was not seen
}

// gap is from the last good look at the primary before it was lost to the return of the first one after that, which
// found it at position.
type gap struct {
	from, to int64
	position uint64
}

// opaque tells whether a look at a replica says nothing of what the primary has written since the gap: it is from before, or the
// replica's receiver has not come back yet, for which it is given the grace (REQ-R14).
func (g *gap) opaque(l *lastLook, grace time.Duration) bool {
	return l.recv < g.to || l.Position < g.position && sub(l.recv, g.from) <= int64(grace)
}

// suspendJump is a step of the wall clock against the monotonic one that is taken
// for a suspended machine, whose monotonic clock stood still.
const suspendJump = int64(500 * time.Millisecond)

// primaryTurn looks at the primary once.
func (s *Set) primaryTurn(ctx context.Context) time.Duration {
	s.nudgeStalled()
	l, err := s.primary.sample(ctx)
	if ctx.Err() != nil {
		return 0
	}
	v := s.recordPrimary(l, err)
	s.primary.announce(v)
	s.primary.report(v, err)
	if v.condition == Fit {
		s.flushIdle(ctx, l.recv)
	}
	st := s.settings.Load()
	if s.primary.failures > 1 { // a thousand processes must not hammer it while it restarts
		return spread(st.Calm)
	}
	return spread(st.PrimaryInterval)
}

// nudgeStalled asks for a sample of each node whose reads in flight have made no
// progress for a primary interval: a node that froze is then found before its next
// calm sample.
func (s *Set) nudgeStalled() {
	for _, n := range *s.replicas.Load() {
		busy, finished := n.inFlight() > 0, n.finished()
		if busy && n.stall.busy && finished == n.stall.finished {
			n.demand.nudge()
		}
		n.stall.busy, n.stall.finished = busy, finished
	}
}

// recordPrimary remembers a look at the primary and judges all replicas anew.
func (s *Set) recordPrimary(l looked, err error) *view {
	s.looks.Lock()
	defer s.looks.Unlock()
	v := primaryView(l, err)
	if v.condition != Fit {
		v.system, v.timeline = s.looks.primary.SystemID, s.looks.primary.Timeline
		s.primary.view.Store(v)
		return v
	}
	s.primary.view.Store(v)
	if s.otherHistoryLocked(l) {
		s.forgetLocked()
	}
	s.looks.primary, s.looks.known = l, true
	s.looks.positions.record(l.Position, l.flushed(), l.sent, l.recv)
	s.looks.witnesses.reset()
	s.noteGapLocked(l)
	s.primarySeen.Store(l.sent)
	for _, n := range *s.replicas.Load() {
		n.last.prove(l)
		s.judgeLocked(n)
	}
	return v
}

// noteGapLocked is for a primary that was lost and is back: what replicas hold of what it has written since, their next
// samples tell, which are taken at once. Until then their old ones say what they said before (REQ-R14), and so do those of a
// replica that is not connected to it again: what it lacks makes it late as soon as its lag passes the trip threshold.
func (s *Set) noteGapLocked(l looked) {
	from := s.primarySeen.Load()
	if from == never || sub(l.recv, from) <= s.settings.Load().lost() {
		return
	}
	s.looks.gap = gap{from, l.recv, l.Position}
	for _, n := range *s.replicas.Load() {
		if n.last.err == nil { // one that did not answer has nothing to tell, and its own way back
			n.demand.nudge()
		}
	}
}

func primaryView(l looked, err error) *view {
	switch {
	case err != nil:
		return &view{condition: Unreachable, detail: oneLine(err), asOf: never}
	case l.InRecovery:
		return &view{condition: NotPrimary, asOf: never, detail: "it is in recovery: name the server that takes writes as the primary"}
	}
	return &view{asOf: l.recv, sampledAt: l.recv, position: l.Position, system: l.SystemID, timeline: l.Timeline}
}

// otherHistoryLocked tells whether positions seen before cannot be compared with this look.
func (s *Set) otherHistoryLocked(l looked) bool {
	wall := time.Now().UnixNano() - s.base.UnixNano() - l.recv
	suspended := wall-s.looks.wall > suspendJump
	s.looks.wall = wall
	if suspended {
		for _, n := range *s.replicas.Load() {
			n.last.ok = false
			n.demand.nudge()
		}
	}
	p := s.looks.primary
	newest, _ := s.looks.positions.newest()
	wentBack := l.Position < newest
	if wentBack {
		for _, n := range *s.replicas.Load() {
			n.last.ok, n.last.unproven = false, true
		}
	}
	return suspended || s.looks.known && (wentBack || p.SystemID != l.SystemID || p.Timeline != l.Timeline)
}

// prove compares a replica's look with one at the primary that was sent after it: who held more then
// holds another history. A primary that crashed comes back without the WAL that it had not
// written, which no replica holds; one that was restored comes back without more.
func (last *lastLook) prove(primary looked) {
	if !last.ok || last.err != nil || last.recv >= primary.sent {
		return
	}
	if last.SystemID == primary.SystemID && (last.timeline == primary.Timeline || last.timeline == 0 || primary.Timeline == 0) {
		last.diverged = last.diverged || last.Position > primary.Position
	}
	last.unproven = false
}

// forgetLocked drops the memory; replicas are sampled anew at once.
func (s *Set) forgetLocked() {
	s.looks.positions.reset()
	s.looks.witnesses.reset()
	for _, n := range *s.replicas.Load() {
		n.last.diverged = false // by comparison with a history that is no longer the primary's
		n.demand.nudge()
	}
}

// recordReplica remembers a sample of a replica and publishes what it says.
func (s *Set) recordReplica(n *node, l looked, err error) *view {
	s.looks.Lock()
	defer s.looks.Unlock()
	n.last.err = err
	if err == nil {
		n.last.take(l)
		s.witnessLocked(n)
		if n.last.unproven {
			s.primary.demand.nudge()
		}
	}
	newest, known := s.looks.positions.newest()
	n.last.settleDoubt(err == nil && known && l.Position < newest)
	for _, other := range *s.replicas.Load() {
		if other != n {
			s.judgeLocked(other) // it may have turned out to be the same server
		}
	}
	return s.judgeLocked(n)
}

// take replaces the look, keeping what only a receiver tells.
func (last *lastLook) take(l looked) {
	if last.Instance != l.Instance {
		last.timeline, last.diverged = 0, false
	}
	if l.Timeline != 0 && l.Timeline != last.timeline {
		last.diverged = false // what it held of another timeline was compared with that
	}
	last.pace = paceOf(last, l)
	last.looked, last.ok, last.elsewhere = l, true, false
	switch {
	case l.Timeline != 0:
		last.timeline = l.Timeline
	case last.timeline == 0:
		last.timeline = l.ControlTimeline
	}
}

// paceOf is the progress of replay since the last look, in bytes a nanosecond.
func paceOf(last *lastLook, l looked) float64 {
	if !last.ok || last.Instance != l.Instance || l.Position <= last.Position || l.recv <= last.recv {
		return 0
	}
	return float64(l.Position-last.Position) / float64(l.recv-last.recv)
}

// settleDoubt: a replica behind the position just looked at is in doubt until it
// has caught up twice.
func (last *lastLook) settleDoubt(behind bool) {
	if behind {
		last.doubt, last.caughtUp = true, 0
		return
	}
	last.caughtUp++
	last.doubt = last.doubt && last.caughtUp < 2
}

// witnessLocked: while the primary is unknown, what a replica has received proves what the
// primary had written. It can raise a sibling's Lo, never lower a Hi.
func (s *Set) witnessLocked(n *node) {
	l := n.last
	lost := sub(l.recv, s.primarySeen.Load()) > s.settings.Load().lost()
	if s.looks.known && lost && l.Received != 0 && l.timeline == s.looks.primary.Timeline && l.SystemID == s.looks.primary.SystemID {
		s.looks.witnesses.record(l.Received, l.Received, l.sent, l.recv) // what was sent was flushed
	}
}

// judgeLocked publishes what is known of a replica.
func (s *Set) judgeLocked(n *node) *view {
	v := &view{asOf: never}
	last := &n.last
	v.condition, v.detail = s.conditionLocked(n)
	v.err = last.err
	if last.ok {
		v.position, v.sampledAt, v.took = last.Position, last.recv, last.recv-last.sent
		if s.looks.gap.opaque(last, s.settings.Load().Grace) {
			v.seen = s.looks.gap.from
		}
		v.system, v.timeline, v.pace = last.SystemID, last.timeline, last.pace
		v.doubt, v.down, v.paused = last.doubt, last.ReceiverDown, last.ReplayPaused
		v.lo = max(loOf(&s.looks.positions, last), loOf(&s.looks.witnesses, last))
		if v.condition == Fit && last.Position > 0 {
			v.asOf = s.looks.positions.asOf(last.Position)
		}
	}
	n.view.Store(v)
	return v
}

// loOf is the evidence of lag as of the sample: a newer look at the primary proves nothing, nor does WAL that no replica can have yet.
func loOf(m *memory, last *lastLook) int64 {
	if at, ok := m.missingSince(last.Position); ok {
		return max(0, last.sent-at)
	}
	return 0
}

// conditionLocked finds what bars a replica whatever a read asks for.
func (s *Set) conditionLocked(n *node) (Condition, string) {
	last, p := &n.last, &s.looks.primary
	switch {
	case last.err != nil:
		return Unreachable, oneLine(last.err)
	case !last.ok && last.elsewhere:
		return NoSample, "a connection led to another server than its sample: name each server itself, not an address that several share"
	case !last.ok:
		return NoSample, "it has not been sampled yet"
	case s.looks.known && last.Instance != "" && last.Instance == p.Instance:
		return Duplicate, fmt.Sprintf("it is the same server as %q: give each node its own", s.primary.Name)
	case !last.InRecovery:
		return Promoted, s.promotedDetailLocked(last)
	case last.MissingRights != "":
		return NoRights, last.MissingRights
	case s.looks.known && last.SystemID != p.SystemID:
		return OtherCluster, fmt.Sprintf("its system identifier is %s, the primary's %s: it is a replica of another cluster", last.SystemID, p.SystemID)
	case s.looks.known && last.timeline != 0 && p.Timeline != 0 && last.timeline != p.Timeline:
		return OtherTimeline, fmt.Sprintf("it follows timeline %d, the primary is on %d", last.timeline, p.Timeline)
	case last.diverged:
		return OtherTimeline, "it held more than the primary did later, so it is of another history: rebuild it"
	case last.unproven:
		return NoSample, "the primary's WAL position went back, and it has not been compared with that yet"
	}
	return s.twinLocked(n)
}

func (s *Set) promotedDetailLocked(last *lastLook) string {
	if s.looks.known && last.SystemID == s.looks.primary.SystemID {
		return fmt.Sprintf("it is no longer in recovery (timeline %d, the primary is on %d): two servers take writes", last.Timeline, s.looks.primary.Timeline)
	}
	return "it is not in recovery: it is no replica"
}

// twinLocked finds an earlier node that is the same server.
func (s *Set) twinLocked(n *node) (Condition, string) {
	for _, other := range *s.replicas.Load() {
		if other == n {
			break
		}
		if other.last.ok && other.last.err == nil && n.last.Instance != "" && other.last.Instance == n.last.Instance {
			return Duplicate, fmt.Sprintf("it is the same server as %q: give each node its own", other.Name)
		}
	}
	return Fit, ""
}

// lookAtPrimary waits for a look at the primary that begins now, shared by all who wait.
func (s *Set) lookAtPrimary(ctx context.Context) (*round, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.settings.Load().SampleTimeout) // one under way, then ours
	defer cancel()
	r := s.primary.demand.join()
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	if r.looked.InRecovery { // its position is another replica's
		return nil, errPrimaryUnknown
	}
	return r, nil
}

// Confirm tells whether instance is the server that the newest sample of that replica saw; who
// makes a connection for reads asks it. If it is another one (restarted or restored
// since, or one of several behind an address), the sample says nothing about it: it is void, and a new
// one is taken at once. An unknown name, or a replica without a sample, is confirmed.
func (s *Set) Confirm(name, instance string) bool {
	n := s.find(name)
	if n == nil || n.breaker == nil {
		return true
	}
	s.looks.Lock()
	defer s.looks.Unlock()
	if n.last.Instance == "" || n.last.Instance == instance {
		return true
	}
	n.last.ok, n.last.elsewhere = false, true
	s.judgeLocked(n)
	n.demand.nudge()
	return false
}

// oneLine puts the text of a driver's error on one line, as it stands in errors and logs of ours.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\t' }), " ")
}
