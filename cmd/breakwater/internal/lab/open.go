package lab

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/replica"
	"github.com/breakwater-go/breakwater/replica/postgres"
)

// The lab sets no thresholds of its own: it is the library's defaults that are judged, and the library
// that is asked for them.
const (
	callTimeout = 2 * time.Second // pgxread's default, given by name since the summary tells it
	poolSize    = 40              // a node's cap of reads in flight: 0.4 s of all reads on two nodes, should the machine stall
)

// open sets up the counter and opens the library on the fleet.
func (r *run) open(ctx context.Context) error {
	r.rec = newRecorder(r.acks, r.opts.Scenario != "")
	if err := r.setUp(ctx); err != nil {
		return fmt.Errorf("setting up the counter: %w", err)
	}
	nodes := r.fleet.Nodes()
	c := pgxread.Config{
		Primary:     pgxread.Node{Name: nodes[0].Name, DSN: nodes[0].DSN},
		CallTimeout: callTimeout, Configure: r.configure, Observer: r.observer(),
	}
	for _, n := range nodes[1:] {
		c.Replicas = append(c.Replicas, pgxread.Node{Name: n.Name, DSN: n.DSN})
	}
	var err error
	if r.db, err = pgxread.Open(ctx, c); err != nil {
		return err
	}
	r.inUse = r.db.Set().Settings()
	r.rec.judgeBy(r.inUse)
	if r.by == nil {
		return nil
	}
	if err := r.openPath(r.by); err != nil {
		r.db.Close()
		return err
	}
	return nil
}

// room is the cap of reads in flight on a node.
func (r *run) room() int {
	if r.by != nil && r.by.room > 0 {
		return r.by.room
	}
	return poolSize
}

func (r *run) setUp(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, r.primary().DSN)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // set up and done with
	for _, sql := range truth.SetupSQL() {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// configure counts the real dials of a pool, and the library's own trivial reads.
func (r *run) configure(node string, c *pgxpool.Config) {
	c.MaxConns = int32(r.room())
	if node == r.primary().Name {
		c.MaxConns = poolSize
	}
	c.ConnConfig.DialFunc = r.countDials(node, c.ConnConfig.DialFunc)
	c.ConnConfig.Tracer = &tracer{node: node, run: r}
}

func (r *run) countDials(node string, dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if pgxread.IsCheck(ctx) {
			return dial(ctx, network, addr)
		}
		r.rec.dialled(node)
		conn, err := dial(ctx, network, addr)
		if err != nil || node != r.primary().Name {
			return conn, err
		}
		r.rec.primaryConnections(1)
		return &countedConn{Conn: conn, closed: func() { r.rec.primaryConnections(-1) }}, nil
	}
}

// countedConn tells once that it was closed.
type countedConn struct {
	net.Conn

	once   sync.Once
	closed func()
}

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(c.closed)
	return c.Conn.Close()
}

// tracer sees the statements that the library makes of its own accord, and how many reads run at once.
type tracer struct {
	node string
	run  *run
}

// TraceQueryStart counts a probe: of the checks that are no look at what the node is.
func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	switch looks := q.SQL == postgres.SampleSQL || q.SQL == postgres.InstanceSQL; {
	case looks:
	case pgxread.IsCheck(ctx):
		t.run.rec.probed(t.node, t.run.now())
	case t.node != t.run.primary().Name:
		t.run.flights.enter(t.node)
		return context.WithValue(ctx, flightKey{}, t.node)
	}
	return ctx
}

type flightKey struct{} // in the context of a read on a replica

// TraceQueryEnd counts a read out.
func (t *tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if node, ok := ctx.Value(flightKey{}).(string); ok {
		t.run.flights.leave(node)
	}
}

// observer tells what happens in the library, and records it.
func (r *run) observer() replica.Observer {
	return replica.Observer{
		OnTransition: func(t breaker.Transition) {
			r.told.Pass(func() {
				r.rec.transition(t, r.at(t.At))
				r.tell(r.transitionLine(t))
			})
			call(r.hooks.Replica.OnTransition, t)
		},
		OnSample: func(s replica.Sample) {
			if !s.Primary {
				r.rec.sample(s, r.at(s.At))
			}
			call(r.hooks.Replica.OnSample, s)
		},
		OnCondition: func(c replica.ConditionChange) {
			l := ConditionLine{Head: Head{r.at(c.At).Milliseconds(), "condition"}, Node: c.Node, From: c.From, To: c.To, Detail: c.Detail}
			r.told.Pass(func() { r.tell(l) })
			call(r.hooks.Replica.OnCondition, c)
		},
		OnFault: func(f breaker.Fault) {
			l := ErrorLine{Head: r.head("own_fault"), Node: f.Name, Error: f.Part + ": " + f.Detail}
			r.told.Pass(func() { r.tell(l) })
			call(r.hooks.Replica.OnFault, f)
		},
	}
}

// call tells x to one more observer, if there is one.
func call[T any](f func(T), x T) {
	if f != nil {
		f(x)
	}
}

func (r *run) transitionLine(t breaker.Transition) TransitionLine {
	l := TransitionLine{
		Head: Head{r.at(t.At).Milliseconds(), "transition"}, Node: t.Name, From: t.From, To: t.To,
		Rule: t.Reason.Rule, Value: finite(t.Reason.Value), Threshold: t.Reason.Threshold, Unit: t.Reason.Unit,
		Reason: t.Reason.String(),
	}
	if t.To == breaker.Open {
		l.OpenPeriodMS = new(ms(t.OpenPeriod))
	}
	return l
}
