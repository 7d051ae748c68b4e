package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/config"
	"github.com/breakwater-go/breakwater/contrib/boltletters"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// parts is what the daemon runs. The goroutine of Run alone writes it.
type parts struct {
	db     *pgxread.DB // nil: no nodes
	path   *readpath.Router
	router *emit.Router // nil: no consumers
	store  emit.DeadLetters
	sinks  map[config.Sink]*httpsink.Sink // by what they were made of
	fleet  string
}

// observers are told what happens in the parts.
type observers struct {
	replicas replica.Observer
	path     readpath.Observer
	emits    emit.Observer
	letters  boltletters.Observer
	consumer func(emit.Consumer) emit.Consumer // puts spans around its deliveries
}

// open starts the parts, those that take emits first: published is called as they come. After an error those that were started still run.
func (p *parts) open(ctx context.Context, c *config.Config, o *observers, published func()) error {
	if len(c.Consumers) > 0 {
		if err := p.openEmits(ctx, c, o); err != nil {
			return err
		}
		published()
	}
	if !c.HasNodes() {
		return nil
	}
	db := c.DB
	db.Observer = o.replicas
	var err error
	if p.db, err = pgxread.Open(ctx, db); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	p.fleet = fleetOf(ctx, p.db, c.DB.Primary.Name)
	published()
	if c.ReadPath == nil {
		return nil
	}
	path := *c.ReadPath
	path.Backend, path.Observer = p.db.Backend(), o.path
	if p.path, err = readpath.New(path); err != nil {
		return fmt.Errorf("degraded_mode: %w", err)
	}
	published()
	return nil
}

func (p *parts) openEmits(ctx context.Context, c *config.Config, o *observers) (err error) {
	if c.DeadLetters.Path == "" {
		p.store, err = emit.NewRing(c.DeadLetters.Ring())
	} else {
		bolt := c.DeadLetters.Bolt()
		bolt.Observer = o.letters
		p.store, err = openBolt(ctx, bolt)
	}
	if err != nil {
		return c.Place("dead_letters", fmt.Sprintf("cannot be opened: %v", err))
	}
	lanes, sinks, err := p.lanes(c, o)
	if err != nil {
		return err
	}
	lanes.Observer, lanes.DeadLetters = o.emits, p.store
	if p.router, err = emit.New(lanes); err != nil { //nolint:contextcheck // its lanes live until it is drained
		return fmt.Errorf("consumers: %w", err)
	}
	p.sinks = sinks
	return nil
}

// openBolt keeps a nil *Store from becoming DeadLetters that are not nil.
func openBolt(ctx context.Context, c boltletters.Config) (emit.DeadLetters, error) {
	s, err := boltletters.Open(ctx, c)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// lanes is what a Router is to have. Sinks that stay as they are keep their connections.
func (p *parts) lanes(c *config.Config, o *observers) (emit.Config, map[config.Sink]*httpsink.Sink, error) {
	lanes := c.Emit()
	sinks := map[config.Sink]*httpsink.Sink{}
	for i := range lanes.Consumers {
		key := c.Consumers[i].Sink
		sink := sinks[key]
		if sink == nil {
			sink = p.sinks[key]
		}
		if sink == nil {
			var err error
			if sink, err = key.New(); err != nil {
				return lanes, nil, config.FaultErrors{c.ConsumerFault(i, err.Error())}
			}
		}
		sinks[key] = sink
		lanes.Consumers[i].Sink = sink
		lanes.Consumers[i] = o.consumer(lanes.Consumers[i])
	}
	return lanes, sinks, nil
}

// closeGone closes those sinks that are not in place any more.
func (p *parts) closeGone(sinks map[config.Sink]*httpsink.Sink) {
	for key, sink := range sinks {
		if p.sinks[key] != sink {
			sink.Close()
		}
	}
}

// published is what others see of the parts.
func (p *parts) published() *api.Parts {
	out := &api.Parts{Path: p.path, Router: p.router}
	if p.db != nil {
		out.Set = p.db.Set()
	}
	return out
}

// drain has the emits refused, and waits for the deliveries under way until ctx ends.
func (p *parts) drain(ctx context.Context) error {
	if p.router == nil {
		return nil
	}
	return p.router.Drain(ctx)
}

// close ends what is left, in the order in which one needs the other.
func (p *parts) close() error {
	var errs []error
	if p.path != nil {
		p.path.Close()
	}
	if p.router != nil {
		errs = append(errs, p.router.Close())
	}
	sinks := p.sinks
	p.sinks = nil
	p.closeGone(sinks)
	if p.db != nil {
		p.db.Close()
	}
	if p.store != nil {
		errs = append(errs, p.store.Close())
	}
	return errors.Join(errs...)
}

// askWithin bounds the look at the primary's version.
const askWithin = time.Second

// anyFleet is what the nodes are as long as the primary has not told its version.
const anyFleet = "postgres"

// fleetOf is what the nodes are, with the primary's version where it answers.
func fleetOf(ctx context.Context, db *pgxread.DB, primary string) string {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	conn, err := db.Pool(primary).Acquire(ctx)
	if err != nil {
		return anyFleet
	}
	defer conn.Release()
	return anyFleet + " " + firstWord(conn.Conn().PgConn().ParameterStatus("server_version"))
}
