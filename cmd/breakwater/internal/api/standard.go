package api

import (
	"cmp"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// About is what a process says of itself; see Status.
type About struct {
	Mode, Version string
	Started       time.Time
	Fleet         string
	Simulated     bool
	ConfigHash    string
}

// StandardConfig is what a Standard is made of. All of it is required, but for Redact.
type StandardConfig struct {
	Hub *Hub
	// Parts and About say what runs now. They are asked at each call, concurrently, and must be quick.
	Parts func() Parts
	About func() About
	// Redact takes secrets out of the texts of a Status. Default: nothing is taken out.
	Redact *Redactor
}

// A Standard is the Source and the Actions of a process over what it runs. The daemon and the lab embed it, and add what they alone know. Make it with
// [NewStandard]; it must be closed. All its methods may be called at any time from any goroutine.
type Standard struct {
	conf StandardConfig // immutable

	changing sync.Mutex // one change of settings at a time; held while parts are reconfigured
	replays  replays
}

// NewStandard makes a Standard. Its goroutines are the replays that were asked for, which Close ends.
func NewStandard(c StandardConfig) *Standard {
	s := &Standard{conf: c}
	s.replays.init()
	return s
}

// Close ends the replays that were asked for, and waits for them. What they did not deliver stays stored.
func (s *Standard) Close() { s.replays.close() }

// Exclusively runs f while no other change of settings runs: for whoever reconfigures the parts too, since such a change reads
// the settings in force and writes them back.
func (s *Standard) Exclusively(f func() error) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	return f()
}

// Status is how things stand, from memory. Reload, Stream, Traffic and Lab are for others to fill in.
func (s *Standard) Status() Status {
	a, p, now := s.conf.About(), s.Parts(), time.Now()
	st := Status{
		At: now, Mode: a.Mode, Version: a.Version, Started: a.Started, ConfigHash: a.ConfigHash, Fleet: a.Fleet, Simulated: a.Simulated,
		Replicas: []Replica{}, Consumers: []Consumer{},
	}
	if p.Set != nil {
		s.nodes(&st, p.Set)
	}
	if p.Path != nil {
		st.ReadPath = s.readPath(p.Path)
	}
	if p.Router != nil {
		s.consumers(&st, p.Router)
	}
	return st
}

// Parts is what the process runs.
func (s *Standard) Parts() Parts { return s.conf.Parts() }

func (s *Standard) nodes(st *Status, set *replica.Set) {
	stats := set.Stats()
	st.Primary = new(s.node(&stats.Primary))
	for i := range stats.Replicas {
		n := &stats.Replicas[i]
		r := Replica{
			Primary: s.node(n), Reads: uint64(n.Reads), Share: n.Share, ReceiverDown: n.ReceiverDown, ReplayPaused: n.ReplayPaused, InDoubt: n.InDoubt,
			TakesReads: n.Condition == replica.Fit && set.Admits(n.Name), Breaker: s.breaker(st.At, ScopeReplica, n.Name, n.Breaker),
		}
		if !n.LastRun.IsZero() {
			r.LoMS, r.HiMS = finiteMS(n.Lo), finiteMS(n.Hi)
		}
		st.Replicas = append(st.Replicas, r)
	}
	st.Settings = settingsOf(set.Settings())
}

func (s *Standard) node(n *replica.NodeStats) Primary {
	p := Primary{Name: n.Name, Condition: n.Condition, Detail: s.conf.Redact.Text(n.Detail), InFlight: n.InFlight}
	if !n.LastRun.IsZero() {
		p.LastRun = &n.LastRun
	}
	return p
}

func (s *Standard) breaker(now time.Time, scope, name string, b breaker.Stats) Breaker {
	out := Breaker{
		Name: name, Scope: scope, State: b.State, Since: b.Since, InStateMS: ms(now.Sub(b.Since)), Generation: b.Generation,
		Reason: reasonOf(b.Reason, s.conf.Redact), LastTrip: s.conf.Hub.Trip(scope, name),
		OpenPeriodMS: ms(b.OpenPeriod), RetryAfterMS: ms(b.RetryAfter), ProbesInFlight: b.ProbesInFlight, ProbeSuccesses: b.ProbeSuccesses, ProbesOf: b.ProbesOf,
		ConsecutiveFailures: b.ConsecutiveFailures, ConsecutiveLimit: b.ConsecutiveLimit,
		Breaches: b.Breaches, BreachLimit: b.BreachLimit,
		Successes: b.Successes, Failures: b.Failures, Ignored: b.Ignored, Late: b.Late, Rejected: b.Rejected,
		Openings: b.Openings, WouldOpen: b.WouldOpen, Faults: b.Faults,
		RefusingMS: ms(b.Refusing), Flapping: b.Flapping, RampShare: b.RampShare,
	}
	if l := b.Latency; l.Span > 0 && l.Calls > 0 {
		out.Latency = &Latency{SpanMS: ms(l.Span), Calls: l.Calls, P50MS: ms(l.P50), P95MS: ms(l.P95), P99MS: ms(l.P99)}
	}
	return out
}

func settingsOf(st replica.Settings) *Settings {
	return &Settings{
		TripMS: finiteMS(st.Trip), ReenterMS: ms(st.Reenter), Breaches: st.Breaches, MaxStalenessMS: finiteMS(st.MaxStaleness),
		CalmMS: ms(st.Calm), FastMS: ms(st.Fast), GraceMS: ms(max(st.Grace, 0)), RampMS: ms(max(st.Ramp, 0)),
		Failures: st.Failures, OpenBaseMS: ms(st.Open.Base), OpenMaxMS: ms(st.Open.Max),
	}
}

func (s *Standard) readPath(r *readpath.Router) *ReadPath {
	st, c := r.Stats(), r.Config()
	p := &ReadPath{
		Mode: st.Mode, Degraded: st.Mode != readpath.Normal, Withheld: st.Withheld, DegradedForMS: ms(st.DegradedFor),
		BudgetTokens: st.BudgetTokens, RatePerSec: c.Budget.Rate, Burst: c.Budget.Burst, Processes: c.Budget.Processes, InFallback: st.InFallback,
		Reads: st.Reads, Refused: st.Refused, Late: st.Late, Unknown: st.Unknown, OverBudget: s.conf.Hub.OverBudget(), Served: served(&st, &c),
	}
	if p.Withheld == nil {
		p.Withheld = []readpath.Class{}
	}
	if since := s.conf.Hub.InMode(); !since.IsZero() {
		p.Since = &since
	}
	return p
}

func (s *Standard) consumers(st *Status, r *emit.Router) {
	settings, stats := r.Config(), r.Stats()
	for i := range stats.Consumers {
		c := &stats.Consumers[i]
		k := consumerOf(&settings, c.Name)
		st.Consumers = append(st.Consumers, Consumer{
			Name: c.Name, Emitted: c.Emitted, Delivered: c.Delivered, Stored: c.Stored, Shed: c.Shed, Refused: c.Refused,
			Degraded: c.Degraded, Replayed: c.Replayed, Evicted: c.Evicted, Discarded: c.Discarded, Reasons: c.Reasons, InFlight: c.InFlight,
			Breaker: s.breaker(st.At, ScopeConsumer, c.Name, c.Breaker), Depth: depthOf(st.At, c.Depth, settings.Priorities, cmp.Or(k.DeadLetters, settings.DeadLetters)),
			TimeoutMS: ms(k.Timeout), SlowMS: ms(k.Slow), Bulkhead: k.Bulkhead,
		})
	}
	for name, d := range stats.Absent {
		if st.Absent == nil {
			st.Absent = map[string]Depth{}
		}
		st.Absent[name] = depthOf(st.At, d, settings.Priorities, settings.DeadLetters)
	}
}

func depthOf(now time.Time, d emit.Depth, priorities []string, store emit.DeadLetters) Depth {
	out := Depth{Letters: d.Letters, Parked: d.Parked, Bytes: d.Bytes, ByPriority: map[string]int{}, Durability: durability(store)}
	for i, n := range d.ByPriority {
		if i < len(priorities) {
			out.ByPriority[priorities[i]] = n
		}
	}
	if !d.Oldest.IsZero() {
		out.OldestAgeMS = new(ms(max(now.Sub(d.Oldest), 0)))
	}
	return out
}

func durability(store emit.DeadLetters) string {
	if store == nil {
		return "in_memory"
	}
	switch store.Durability() {
	case emit.Written:
		return "written"
	case emit.Synced:
		return "synced"
	default:
		return "in_memory"
	}
}

// ms is a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// finiteMS is a duration in milliseconds; nil: it has no bound.
func finiteMS(d time.Duration) *float64 {
	if d >= replica.Never {
		return nil
	}
	return new(ms(d))
}
