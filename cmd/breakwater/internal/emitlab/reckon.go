package emitlab

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/emit"
)

// slowEmit is how long an emit takes that held its caller up.
const slowEmit = 50 * time.Millisecond

// accounts are what is known at the end of a run, before the path is closed.
type accounts struct {
	stats   map[string]emit.ConsumerStats // none: the path counts nothing
	reports map[string]consumer.Report
	left    map[string]bool // IDs in the dead letters
}

// reckon asks everybody what there is to know once all is quiet.
func (r *run) reckon(ctx context.Context) error {
	a := accounts{map[string]emit.ConsumerStats{}, map[string]consumer.Report{}, nil}
	for _, t := range r.targets {
		report, err := t.process.Report(true)
		if err != nil {
			return fmt.Errorf("consumer %s: %w", t.name, err)
		}
		a.reports[t.name] = report
	}
	stats := r.path.stats()
	for i := range stats {
		s := &stats[i]
		a.stats[s.Name] = *s
		ended, begun := r.target(s.Name).counts()
		// All is quiet: what is counted as stored is what the store holds.
		r.watch.checked(addsUp(*s, ended, begun) && s.Stored == uint64(s.Depth.Letters)) //nolint:gosec // not negative
	}
	var err error
	a.left, err = r.path.left(ctx)
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	r.watch.mu.accounts = a
	return err
}

// lostOf counts what was acknowledged and is nowhere.
func (t *target) lostOf(report consumer.Report, left map[string]bool) (lost, unknown int) {
	taken := map[int]bool{}
	for _, id := range report.IDs {
		n, ok := t.numberOf(id)
		if !ok {
			unknown++
			continue
		}
		taken[n] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for n, r := range t.mu.records {
		acknowledged := r.out == emit.Delivered || r.out == emit.Stored && !r.evicted
		if acknowledged && !taken[n] && !left[t.id(n)] {
			lost++
		}
	}
	return lost, unknown
}

// summary is what a target's run came to.
func (t *target) summary(a accounts) *ConsumerSummary {
	report := a.reports[t.name]
	s := &ConsumerSummary{Calls: report.Calls, OutOfOrder: report.OutOfOrder}
	s.Duplicates = report.Duplicates
	s.Lost, s.UnknownIDs = t.lostOf(report, a.left)
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Percentiles = percentilesOf(t.mu.records)
	s.Skipped, s.OpenCalls = t.mu.skipped, t.mu.openCalls
	t.countLocked(s)
	t.movesLocked(s)
	if stats, ok := a.stats[t.name]; ok {
		s.Delivered, s.Stored, s.Replayed = int(stats.Delivered), int(stats.Stored), int(stats.Replayed) //nolint:gosec // small
		s.Shed, s.Refused = int(stats.Shed), int(stats.Refused)                                          //nolint:gosec // small
	}
	return s
}

// countLocked counts what the emits answered.
func (t *target) countLocked(s *ConsumerSummary) {
	s.Emitted = len(t.mu.records)
	for _, r := range t.mu.records {
		switch r.out {
		case emit.Delivered:
			s.Delivered++
		case emit.Stored:
			s.Diverted++
			if r.phase == during {
				s.DivertedDuring++
			}
		case emit.Shed:
			s.Shed++
		case emit.Refused:
			s.Refused++
		}
		if r.phase == during && r.took > slowEmit {
			s.SlowEmits++
		}
	}
}

// movesLocked are the figures of the breaker and of the fault.
func (t *target) movesLocked(s *ConsumerSummary) {
	s.Transitions = len(t.mu.moves)
	from, to := t.mu.brokenFrom, t.mu.mendedAt
	var opened time.Duration
	for _, m := range t.mu.moves {
		if m.to != breaker.Open {
			continue
		}
		switch {
		case from == 0 || m.at < from:
			s.OpeningsBefore++
		case opened == 0:
			opened = m.at
			s.TimeToOpen, s.OpenReason = new(ms(m.at-from)), m.rule
		}
	}
	if t.mu.firstReturn > 0 {
		s.FirstReturn = new(ms(t.mu.firstReturn - from))
	}
	if opened == 0 || to == 0 {
		return
	}
	s.TimeToClose = t.closeLocked(to)
	var took []time.Duration
	for _, r := range t.mu.records {
		if r.begin >= opened && r.begin < to {
			took = append(took, r.took)
		}
	}
	s.P99AfterOpen = sorted(took).percentile(0.99)
}

// closeLocked is from the fault's end to the close that lasts from then on, or to the first; 0 if it was closed then.
func (t *target) closeLocked(to time.Duration) *float64 {
	if t.stateAtLocked(to) == breaker.Closed {
		return new(0.0)
	}
	for _, m := range t.mu.moves {
		if m.at > to && m.to == breaker.Closed {
			return new(ms(m.at - to))
		}
	}
	return nil
}

func percentilesOf(all []record) (p Percentiles) {
	var took [phases][]time.Duration
	for _, r := range all {
		if r.out != 0 {
			took[r.phase] = append(took[r.phase], r.took)
		}
	}
	for in, to := range map[phase][3]**float64{
		calm:   {&p.P50Before, &p.P95Before, &p.P99Before},
		during: {&p.P50During, &p.P95During, &p.P99During},
		after:  {&p.P50After, &p.P95After, &p.P99After},
	} {
		f := sorted(took[in])
		*to[0], *to[1], *to[2] = f.percentile(0.50), f.percentile(0.95), f.percentile(0.99)
		if in == during {
			p.MaxDuring = f.percentile(1)
		}
	}
	return p
}

// summary is the last line, with the scenario's verdict.
func (r *run) summary() Summary {
	s := Summary{
		Head: r.head("summary"), Scenario: r.scenario.Name, Policy: r.policy, Seed: r.opts.Seed, Fleet: "none", Rate: r.opts.rate(), Load: r.opts.Load,
		RefusedBy: map[string]int{}, Consumers: map[string]*ConsumerSummary{}, FailedExpectations: []string{}, Bulkhead: bulkhead,
	}
	r.watched(&s)
	if r.kills.rounds > 0 {
		r.kills.summary(&s)
	} else {
		r.emits(&s)
	}
	v := &verdict{failed: s.FailedExpectations}
	v.judge(&s, r.scenario)
	s.FailedExpectations, s.OnlySpeedFailed = v.failed, v.onlySpeed(&s)
	return s
}

// bulkhead is the library's default.
const bulkhead = 16

// watched adds what was noted besides the emits.
func (r *run) watched(s *Summary) {
	_, second := r.watch.quarter(2)
	last, _ := r.watch.quarter(4)
	w := &r.watch.mu
	w.Lock()
	defer w.Unlock()
	s.Ready, s.Ran = ms(w.first), ms(w.last-w.began)
	s.WorstStall = max(ms(w.worst), w.consumers)
	s.BalanceChecks, s.BalanceViolations, s.OwnFaults, s.PriorityViolations = w.checks, w.odds, w.faults, w.misplaced
	s.GoroutinesSecond, s.GoroutinesLast = second.goroutines, last.goroutines
	s.HeapSecond, s.HeapLast = mb(second.heap), mb(last.heap)
}

func mb(bytes uint64) float64 { return float64(bytes/1e4) / 100 }

// emits adds what became of the triggers.
func (r *run) emits(s *Summary) {
	r.watch.mu.Lock()
	a := r.watch.mu.accounts
	r.watch.mu.Unlock()
	var all []record
	for _, t := range r.targets {
		c := t.summary(a)
		s.Consumers[t.name] = c
		s.add(c.Counts)
		s.Transitions += c.Transitions
		s.Skipped += c.Skipped
		s.open(c)
		t.mu.Lock()
		all = append(all, t.mu.records...)
		for why, n := range t.mu.refused {
			s.RefusedBy[why] += n
		}
		s.Outage = max(s.Outage, ms(t.mu.mendedAt-t.mu.brokenFrom))
		t.mu.Unlock()
	}
	s.Percentiles = percentilesOf(all)
	if r.scenario.mixed {
		s.StoreBound, s.ByPriority = r.bound(), byPriority(all)
	}
}

// open takes over the longest times of the consumers that broke.
func (s *Summary) open(c *ConsumerSummary) {
	if c.TimeToOpen != nil && (s.TimeToOpen == nil || *c.TimeToOpen > *s.TimeToOpen) {
		s.TimeToOpen, s.OpenReason = c.TimeToOpen, c.OpenReason
	}
	if c.TimeToClose != nil && (s.TimeToClose == nil || *c.TimeToClose > *s.TimeToClose) {
		s.TimeToClose = c.TimeToClose
	}
}

func byPriority(all []record) map[string]*PrioritySummary {
	by := map[string]*PrioritySummary{}
	for _, p := range priorities {
		by[p] = &PrioritySummary{}
	}
	for _, r := range all {
		p := by[priorities[r.priority]]
		p.Emitted++
		switch {
		case r.out == emit.Shed || r.evicted:
			p.Shed++
		case r.out == emit.Refused:
			p.Refused++
		}
	}
	return by
}
