package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

const beat = 100 * time.Millisecond

// tide is a made-up fleet: lag rises while a replica is broken, and its breaker follows.
type tide struct {
	hub *api.Hub
	mu  sync.Mutex
	// All below is guarded by mu.
	nodes     []*node
	settings  api.Settings
	path      api.ReadPath
	own       float64
	perSec    float64
	writes    int
	forgotten bool // the load without the library runs beside
	n         int  // beats so far
}

type node struct {
	api.Replica
	broken   string // a fault, "" none
	lag      float64
	reopens  int
	rampFrom time.Time
	closing  int
}

func newTide(hub *api.Hub) *tide {
	now := time.Now()
	t := &tide{hub: hub, perSec: 420, writes: 20, own: 0.1}
	trip, limit := 500.0, 2250.0
	t.settings = api.Settings{TripMS: &trip, ReenterMS: 200, Breaches: 3, MaxStalenessMS: &limit, CalmMS: 1500, FastMS: 100, GraceMS: 10000, RampMS: 4000, Failures: 3, OpenBaseMS: 2000, OpenMaxMS: 8000}
	for i := range 3 {
		n := &node{}
		n.Name, n.TakesReads, n.Share = fmt.Sprintf("r%d", i+1), true, 1
		n.Breaker = api.Breaker{Name: n.Name, Scope: api.ScopeReplica, Since: now, Generation: 1, ConsecutiveLimit: 3, RampShare: 1}
		t.nodes = append(t.nodes, n)
	}
	t.path = api.ReadPath{RatePerSec: 200, Burst: 200, Processes: 1, BudgetTokens: 200, Reads: map[readpath.Class]map[readpath.Source]uint64{
		readpath.Critical: {}, readpath.Degradable: {}, readpath.Sheddable: {},
	}, Refused: map[readpath.Class]uint64{}}
	return t
}

func (t *tide) run(ctx context.Context) {
	every := time.NewTicker(beat)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-every.C:
			t.mu.Lock()
			t.n++
			for i, n := range t.nodes {
				t.flow(n, i, now)
			}
			t.decide(now)
			t.read()
			t.mu.Unlock()
		}
	}
}

// flow moves one replica's lag on, and its breaker.
func (t *tide) flow(n *node, i int, now time.Time) {
	if n.broken == "" {
		n.lag = max(0, n.lag-700) // replay catches up
	} else {
		n.lag += float64(beat.Milliseconds())
	}
	wave := 14 + 11*math.Sin(float64(t.n)/23+float64(2*i)) + 6*math.Sin(float64(t.n)/7+float64(i))
	lo, hi := n.lag, n.lag+60+wave*3+float64(10*(t.n%15))
	n.LoMS, n.HiMS, n.Condition, n.Detail, n.LastRun = &lo, &hi, replica.Fit, "", &now
	n.ReplayPaused, n.ReceiverDown = n.broken == "pause", n.broken == "cut"
	if n.broken == "kill" || n.broken == "freeze" {
		n.LoMS, n.HiMS, n.Condition, n.Detail = nil, nil, replica.Unreachable, "connection refused"
	} else if lo > *t.settings.TripMS {
		n.Condition = replica.Late
	}
	t.judge(n, now)
	n.TakesReads = n.Breaker.State == breaker.Closed || n.Breaker.State == breaker.ForcedClosed || n.Breaker.State == breaker.Disabled
	b := &n.Breaker
	b.RampShare, n.Share = 1, 1
	if past := now.Sub(n.rampFrom).Seconds() / (t.settings.RampMS / 1000); b.State == breaker.Closed && past < 1 && !n.rampFrom.IsZero() {
		b.RampShare = max(0.1, math.Round(past*100)/100)
		n.Share = b.RampShare
	}
	if !n.TakesReads {
		n.Share = 0
	}
}

func (t *tide) judge(n *node, now time.Time) {
	b := &n.Breaker
	bad := n.Condition != replica.Fit
	switch b.State {
	case breaker.Closed:
		if !bad {
			b.ConsecutiveFailures = 0
			return
		}
		if b.ConsecutiveFailures++; b.ConsecutiveFailures >= uint64(t.settings.Breaches) || n.Condition == replica.Unreachable {
			t.open(n, now)
		}
	case breaker.Open:
		if now.Sub(b.Since) > time.Duration(b.OpenPeriodMS)*time.Millisecond {
			t.to(n, breaker.HalfOpen, api.Reason{Rule: breaker.RuleOpenPeriodOver, Text: breaker.RuleOpenPeriodOver}, now)
			b.ProbesInFlight, n.closing = 1, 0
		}
	case breaker.HalfOpen:
		if n.closing++; n.closing < 12 {
			return
		}
		if bad {
			n.reopens++
			t.open(n, now)
			return
		}
		n.reopens, n.rampFrom = 0, now
		b.ProbesInFlight, b.ConsecutiveFailures = 0, 0
		t.to(n, breaker.Closed, api.Reason{Rule: breaker.RuleRecovered, Text: "1 probe succeeded, lag 0.02 s"}, now)
	default:
	}
}

func (t *tide) open(n *node, now time.Time) {
	value, threshold := api.Number(n.lag/1000), api.Number(*t.settings.TripMS/1000)
	why := api.Reason{Rule: "lag", Value: &value, Threshold: &threshold, Unit: "s", Text: fmt.Sprintf("lag %.2f s > %.2g s (%d in a row)", value, threshold, t.settings.Breaches)}
	if n.Condition == replica.Unreachable {
		why = api.Reason{Rule: "unreachable", Text: "unreachable: connection refused"}
	}
	b := &n.Breaker
	b.OpenPeriodMS = min(t.settings.OpenMaxMS, t.settings.OpenBaseMS*math.Pow(2, float64(n.reopens)))
	b.Openings++
	b.ProbesInFlight, b.LastTrip, b.Flapping = 0, &api.Trip{At: now, Reason: why}, n.reopens >= 3
	t.to(n, breaker.Open, why, now)
}

func (t *tide) to(n *node, state breaker.State, why api.Reason, now time.Time) {
	b := &n.Breaker
	from := b.State
	b.State, b.Since, b.Reason = state, now, why
	b.Generation++
	t.hub.Publish(api.Event{At: now, Kind: api.KindTransition, Scope: api.ScopeReplica, Name: n.Name, From: from.String(), To: state.String(), Generation: b.Generation, Reason: &why})
}

// decide is the read path's mode: degraded while no replica takes reads, then class by class.
func (t *tide) decide(now time.Time) {
	p := &t.path
	taking := slices.ContainsFunc(t.nodes, func(n *node) bool { return n.TakesReads })
	since := time.Duration(math.MaxInt64)
	if p.Since != nil {
		since = now.Sub(*p.Since)
	}
	switch {
	case !taking && p.Mode != readpath.Degraded:
		t.mode(readpath.Degraded, []readpath.Class{readpath.Critical, readpath.Degradable, readpath.Sheddable}, now)
	case taking && p.Mode == readpath.Degraded:
		t.mode(readpath.Recovering, []readpath.Class{readpath.Degradable, readpath.Sheddable}, now)
	case p.Mode == readpath.Recovering && since > 4*time.Second:
		t.mode(readpath.Normal, nil, now)
	}
	if p.Mode == readpath.Degraded {
		p.DegradedForMS += float64(beat.Milliseconds())
	}
	p.Degraded = p.Mode == readpath.Degraded
}

func (t *tide) mode(to readpath.Mode, withheld []readpath.Class, now time.Time) {
	from := t.path.Mode
	t.path.Mode, t.path.Since, t.path.Withheld = to, &now, withheld
	t.hub.Publish(api.Event{At: now, Kind: api.KindMode, From: from.String(), To: to.String(), Text: map[readpath.Mode]string{
		readpath.Normal: "all classes have the replicas back", readpath.Degraded: "no replica is fresh enough", readpath.Recovering: "critical reads have the replicas back",
	}[to]})
}

// read counts a beat's worth of reads where they would go.
func (t *tide) read() {
	p := &t.path
	each := t.perSec * beat.Seconds()
	wobble := 1 + 0.06*math.Sin(float64(t.n)/31)
	shares := 0.0
	for _, n := range t.nodes {
		shares += n.Share
	}
	for _, n := range t.nodes {
		if shares > 0 {
			n.Reads += uint64(each * wobble * n.Share / shares)
			n.InFlight = int(2 * n.Share)
			n.Breaker.Successes = n.Reads
		} else {
			n.InFlight = 0
		}
	}
	if p.Mode != readpath.Degraded {
		p.Reads[readpath.Degradable][readpath.FromReplica] += uint64(each * wobble)
		p.BudgetTokens, p.InFallback = min(float64(p.Burst), p.BudgetTokens+p.RatePerSec*beat.Seconds()), 0
		return
	}
	p.Reads[readpath.Critical][readpath.FromPrimary] += uint64(min(each*0.4, p.RatePerSec*beat.Seconds()))
	p.Reads[readpath.Degradable][readpath.FromCache] += uint64(each * 0.4)
	p.Refused[readpath.Sheddable] += uint64(each * 0.2)
	p.BudgetTokens, p.InFallback = max(8+10*math.Abs(math.Sin(float64(t.n)/9)), p.BudgetTokens-12), 6
}
