package lab

import (
	"context"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/replica"
)

const redraw = 250 * time.Millisecond

// Live is how things stand, for a person who watches.
type Live struct {
	Fleet              string
	Stats              replica.Stats
	PrimaryConnections int
	Second             SecondLine // the last whole one
}

// Status is how things stand, as JSON.
type Status struct {
	Fleet  string       `json:"fleet"`
	Nodes  []StatusNode `json:"nodes"` // the replicas
	Second *SecondLine  `json:"second"`
}

// StatusNode is a replica in a Status.
type StatusNode struct {
	Name       string            `json:"name"`
	State      breaker.State     `json:"state"`
	Since      time.Time         `json:"since"`
	Reason     string            `json:"reason"` // of the newest transition
	Openings   uint64            `json:"openings"`
	RetryAfter float64           `json:"retry_after_ms"`
	Condition  replica.Condition `json:"condition"`
	Detail     string            `json:"detail,omitempty"`
	Lo         *float64          `json:"lag_lo_ms"`
	Hi         *float64          `json:"lag_hi_ms"` // null: not bounded
	InFlight   int               `json:"in_flight"`
	Reads      uint64            `json:"reads"`
	Share      float64           `json:"share"`
}

// Status is l as JSON shows it. It holds no DSN.
func (l Live) Status() Status {
	s := Status{Fleet: l.Fleet, Nodes: []StatusNode{}}
	if l.Second.Kind != "" {
		s.Second = &l.Second
	}
	for i := range l.Stats.Replicas {
		n := &l.Stats.Replicas[i]
		s.Nodes = append(s.Nodes, StatusNode{
			Name: n.Name, State: n.Breaker.State, Since: n.Breaker.Since, Reason: n.Breaker.Reason.String(),
			Openings: n.Breaker.Openings, RetryAfter: ms(n.Breaker.RetryAfter), Condition: n.Condition, Detail: n.Detail,
			Lo: Bound(n.Lo), Hi: Bound(n.Hi), InFlight: n.InFlight, Reads: uint64(n.Reads), Share: n.Share,
		})
	}
	return s
}

// secondLoop tells each second, and more often how things stand.
func (r *run) secondLoop(ctx context.Context, live func(Live)) {
	var last SecondLine
	i := 0
	Every(ctx, redraw, func() {
		if i++; i%int(time.Second/redraw) == 0 {
			last = r.secondLine()
			r.tell(last)
		}
		if live != nil {
			live(Live{Fleet: r.fleet.Version(), Stats: r.db.Set().Stats(), PrimaryConnections: r.rec.connections(), Second: last})
		}
	})
}

func (r *run) secondLine() SecondLine {
	s := r.rec.endSecond()
	p := s.durations.Percentiles(0.50, 0.99)
	l := SecondLine{
		Head: r.head("second"), Reads: s.durations.seen, Commits: s.commits, BySource: s.by, Errors: s.by.Failed,
		P50: p[0], P99: p[1], PrimaryReads: s.by.Primary, PrimaryConnections: r.rec.connections(),
		Nodes: map[string]SecondNode{}, FirstError: s.firstErr,
	}
	if r.path != nil {
		l.Path = r.path.second(s.byClass)
	}
	stats := r.db.Set().Stats().Replicas
	for i := range stats {
		n := &stats[i]
		l.Nodes[n.Name] = SecondNode{
			Lo: Bound(n.Lo), Hi: Bound(n.Hi), State: n.Breaker.State, Condition: n.Condition,
			Reads: s.nodes[n.Name], InFlight: n.InFlight, Share: n.Share,
		}
	}
	return l
}
