package lab

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// phase is the part of a run that a read belongs to, by its begin.
type phase int

const (
	warmup phase = iota // counted, but in no percentile
	calm
	during
	after
	phases
)

const (
	waitedFrom  = 250 * time.Millisecond // a read this long has waited
	slot        = 250 * time.Millisecond // of the reads' history by node
	rampWindow  = 2 * time.Second
	keptSamples = 256
)

// answer is one read, as the lab saw it.
type answer struct {
	phase      phase // at its begin
	begin, end time.Duration
	value      int64
	node       string
	source     readpath.Source
	flagged    bool // told to be stale or unverified
	pickedAt   time.Duration
	attempts   int  // nodes that it was tried on
	refused    bool // ErrNoReplica or ErrSaturated; with a class, a readpath.RefusedError
	err        error

	class      readpath.Class // 0: not by way of the read path
	limit      time.Duration  // of an answer that is not flagged; 0: the library's default
	age        time.Duration  // as it was told; only with a class
	shed       bool
	missed     bool          // it lacks the commit that the read asked for
	retryAfter time.Duration // of a refusal
}

// moved is a breaker's change of state.
type moved struct {
	at     time.Duration
	node   string
	from   breaker.State
	to     breaker.State
	rule   string
	period time.Duration
}

// recorder counts what happens in a run and judges it against the truth. All its
// methods may be called from any goroutine.
type recorder struct {
	acks  *truth.Acks   // immutable
	trip  time.Duration // written by judgeBy only, before there is a read
	limit time.Duration // the same: of a read that names no bound
	keep  bool          // immutable: a scenario's history is kept; live traffic has no end
	phase atomic.Int32  // written by enter only

	mu struct {
		sync.Mutex
		sum      Summary // the plain counts
		reads    [phases]Durations
		writes   [phases]Durations
		refusals Durations
		second   second
		samples  map[string][]published
		barred   map[string][]published
		last     map[string]breaker.State
		moves    []moved
		probes   []probed
		history  map[string][]int // reads by node and slot
		first    time.Duration    // end of the first read, 0: none yet
		latest   time.Duration
		hit      hit
		path     pathCounts

		connections int // to the primary, now
		worst       *time.Duration
		idleSince   *time.Duration
	}
}

// second is what is counted anew each second.
type second struct {
	commits   int
	by        BySource
	byClass   map[readpath.Class]*BySource
	durations Durations
	nodes     map[string]int
	firstErr  string
}

type probed struct {
	node string
	at   time.Duration
}

func newRecorder(acks *truth.Acks, keep bool) *recorder {
	r := &recorder{acks: acks, keep: keep}
	r.mu.samples = map[string][]published{}
	r.mu.barred = map[string][]published{}
	r.mu.last = map[string]breaker.State{}
	r.mu.history = map[string][]int{}
	r.mu.second.nodes = map[string]int{}
	return r
}

// judgeBy sets the thresholds by which reads are judged. Samples may come before it, since they
// begin while the library is being opened; reads may not.
func (r *recorder) judgeBy(s replica.Settings) { r.trip, r.limit = s.Trip, s.MaxStaleness }

// read judges one answer: how old it was when the read began, by the writer's own
// acknowledgements, and whether its node was fit to be picked. It tells whether it was older than its
// limit and not flagged.
func (r *recorder) read(a answer) (stale bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took := a.end - a.begin
	s := &r.mu.sum
	s.Reads++
	r.mu.reads[a.phase].Add(took)
	r.mu.second.durations.Add(took)
	s.MaxWait = max(s.MaxWait, ms(took))
	if took >= waitedFrom && (a.attempts > 1 || a.node == r.mu.hit.node) {
		s.Waited++
	}
	if r.mu.first == 0 {
		r.mu.first = a.end
	}
	r.mu.latest = max(r.mu.latest, a.end)
	r.sourceLocked(a)
	if a.err != nil {
		r.failedLocked(a)
		return false
	}
	r.nodeLocked(a)
	return r.ageLocked(a)
}

func (r *recorder) failedLocked(a answer) {
	s := &r.mu.sum
	s.Errors++
	if s.FirstError == "" {
		s.FirstError = a.err.Error()
	}
	if r.mu.second.firstErr == "" {
		r.mu.second.firstErr = a.err.Error()
	}
	if a.refused {
		s.Refused++
		r.mu.refusals.Add(a.end - a.begin)
		if a.class != 0 && a.retryAfter <= 0 {
			s.RefusedWithoutRetryAfter++
		}
	}
}

func (r *recorder) sourceLocked(a answer) {
	r.mu.sum.BySource.count(&a)
	r.mu.second.by.count(&a)
	if a.err == nil {
		r.mu.second.nodes[a.node]++
	}
	if a.class != 0 {
		classOf(&r.mu.sum.ByClass, a.class).count(&a)
		classOf(&r.mu.second.byClass, a.class).count(&a)
	}
}

// ageLocked judges how old an answer was. A default holds nothing of the data.
func (r *recorder) ageLocked(a answer) (stale bool) {
	if a.source == readpath.FromDefault {
		return false
	}
	age, s := r.acks.Age(a.value, a.begin), &r.mu.sum
	limit := a.limit
	if limit == 0 {
		limit = r.limit
	}
	if a.class != 0 && a.source != readpath.FromPrimary && age > a.age {
		s.AgeViolations++
	}
	if a.class == readpath.Critical && (a.flagged || age > limit) {
		s.CriticalStale++
	}
	if a.flagged {
		s.Flagged++
		return false
	}
	s.MaxStaleness = max(s.MaxStaleness, ms(age))
	if age > limit {
		s.StaleUnflagged++
	}
	return age > limit
}

func (r *recorder) nodeLocked(a answer) {
	if a.source != readpath.FromReplica {
		return
	}
	r.mu.path.resumed.note(&a)
	if !a.flagged && always(r.mu.samples[a.node], r.trip, a.begin, a.pickedAt) {
		r.mu.sum.LateReplicaReads++
	}
	if always(r.mu.barred[a.node], 0, a.begin, a.pickedAt) {
		r.mu.sum.OpenReplicaReads++
	}
	if r.keep {
		h, i := r.mu.history[a.node], int(a.pickedAt/slot)
		for len(h) <= i {
			h = append(h, 0)
		}
		h[i]++
		r.mu.history[a.node] = h
	}
}

// sample keeps what a look at a node told. A node that cannot be sampled counts as
// infinitely late (REQ-R3).
func (r *recorder) sample(s replica.Sample, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lag := s.Lo
	if s.Err != nil {
		lag = replica.Never
	}
	r.mu.samples[s.Node] = keep(r.mu.samples[s.Node], published{at, lag})
}

func (r *recorder) transition(t breaker.Transition, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.Transitions++
	r.mu.last[t.Name] = t.To
	r.mu.moves = append(r.mu.moves, moved{
		at: at, node: t.Name, from: t.From, to: t.To, rule: t.Reason.Rule, period: t.OpenPeriod,
	})
	barred := published{at, 0}
	if t.To != breaker.Closed {
		barred.lag = replica.Never
	}
	r.mu.barred[t.Name] = keep(r.mu.barred[t.Name], barred)
	if !r.keep {
		r.mu.moves = nil
	}
}

// dialled counts a real dial of a pool, not for a probe, to a node whose breaker does
// not admit reads.
func (r *recorder) dialled(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if state := r.mu.last[node]; state == breaker.Open || state == breaker.HalfOpen {
		r.mu.sum.DialsAfterOpen++
	}
}

// probed counts a trivial read of the library's own.
func (r *recorder) probed(node string, at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keep {
		r.mu.probes = append(r.mu.probes, probed{node, at})
	}
}

func (r *recorder) wrote(begin, end time.Duration, async bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.mu.sum.WriterErrors++
		return
	}
	r.mu.sum.Commits++
	r.mu.second.commits++
	if async {
		r.mu.sum.CommitsAsync++
	}
	r.mu.writes[r.in()].Add(end - begin)
}

// idle tells from when to when the writer idles.
func (r *recorder) idle(now time.Duration, idles bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := r.mu.idleSince; since != nil {
		r.mu.sum.WriterIdle += ms(now - *since)
		r.mu.idleSince = nil
	}
	if idles {
		r.mu.idleSince = &now
	}
}

// checked compares a replica's true staleness with the bound that was told for it.
func (r *recorder) checked(truly, hi time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.BoundSamples++
	over := truly - hi
	if over > 0 {
		r.mu.sum.BoundViolations++
	}
	if r.mu.worst == nil || over > *r.mu.worst {
		r.mu.worst = &over
	}
}

// primaryConnections counts the connections to the primary, the library's own apart.
func (r *recorder) primaryConnections(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.connections += more
	r.mu.sum.PrimaryConnectionsMax = max(r.mu.sum.PrimaryConnectionsMax, r.mu.connections)
}

func (r *recorder) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.connections
}

// crowded notes how long one of many callers on one key waited.
func (r *recorder) crowded(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.CrowdWait = max(r.mu.sum.CrowdWait, ms(d))
}

// stalled notes how long after its time something was sent: the machine's fault, not the library's.
func (r *recorder) stalled(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.WorstStall = max(r.mu.sum.WorstStall, ms(d))
}

func (r *recorder) skipped() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.Skipped++
}

func (r *recorder) switched() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.sum.SegmentSwitches++
}

func (r *recorder) enter(p phase) {
	r.phase.Store(int32(p))
	if p == during {
		r.faultBegins()
	}
}

// in is the phase of now.
func (r *recorder) in() phase { return phase(r.phase.Load()) }

func (r *recorder) owned() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.sum.OwnReads
}

func (r *recorder) misrouted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.sum.OpenReplicaReads + r.mu.sum.LateReplicaReads
}
