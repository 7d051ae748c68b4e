package playground

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/api"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// How people do it without the library: round robin over the replicas by a pool each, and one pool of workers for all
// consumers; a timeout, no breaker, no look at lag.
const (
	twinTimeout = 2 * time.Second // of a read and of a delivery: that of the library's reads
	twinConns   = 40              // of each replica: those that the library has
	twinReads   = 512             // under way; more fail
	twinWorkers = 16              // those that the library has for each consumer
	twinQueue   = 256
)

// twin is the same load without the library, beside.
type twin struct {
	p            *Playground
	reads, emits meter
	second       atomic.Pointer[api.Traffic]

	mu struct { // held while it is started or ended
		sync.Mutex
		stop func() // nil: it does not run
	}
}

func newTwin(p *Playground) *twin { return &twin{p: p} }

// traffic is what it saw in the last whole second; nil where it does not run.
func (w *twin) traffic() *api.Traffic { return w.second.Load() }

// follow has it run, until ctx ends, if that is asked for now. Once ctx has ended it does not run.
func (w *twin) follow(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	on := ctx.Err() == nil && w.p.load.asked().Unprotected
	switch {
	case on && w.mu.stop == nil:
		w.mu.stop = w.start(ctx)
	case !on && w.mu.stop != nil:
		w.mu.stop()
		w.mu.stop = nil
	}
}

// start starts it, and returns what ends it and waits for it.
func (w *twin) start(ctx context.Context) func() {
	w.second.Store(&api.Traffic{BySource: map[string]float64{}})
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { w.read(ctx) })
	all.Go(func() { w.emit(ctx) })
	return func() {
		cancel()
		all.Wait()
		w.second.Store(nil)
	}
}

func (w *twin) endSecond() {
	reads, emits := w.reads.endSecond(), w.emits.endSecond()
	if w.second.Load() != nil {
		w.second.Store(traffic(reads, emits))
	}
}

// pools opens one for each replica. None dials before there is a read.
func (w *twin) pools(ctx context.Context) (pools []*pgxpool.Pool, err error) {
	for _, n := range w.p.config.Fleet.Nodes()[1:] {
		c, err := pgxpool.ParseConfig(n.DSN)
		if err != nil {
			return pools, err
		}
		c.MaxConns = twinConns
		pool, err := pgxpool.NewWithConfig(ctx, c)
		if err != nil {
			return pools, err
		}
		pools = append(pools, pool)
	}
	return pools, nil
}

// read makes the reads until ctx ends, and waits for those under way.
func (w *twin) read(ctx context.Context) {
	pools, err := w.pools(ctx)
	var all sync.WaitGroup
	defer func() {
		all.Wait()
		for _, p := range pools {
			p.Close()
		}
	}()
	if err != nil {
		w.p.config.Publish(api.Event{Kind: api.KindFault, Text: "the load without the library", Error: err.Error()})
		return
	}
	places := make(chan struct{}, twinReads)
	n := 0
	lab.Pace(ctx, w.p.bench.Now, w.p.load.reads, func(time.Duration) {
		pool := pools[n%len(pools)]
		n++
		select {
		case places <- struct{}{}:
		default:
			w.reads.add(sample{what: failed})
			return
		}
		all.Go(func() {
			w.one(ctx, pool)
			<-places
		})
	})
}

// one makes one read and judges it as those through the library are judged.
func (w *twin) one(ctx context.Context, pool *pgxpool.Pool) {
	within, cancel := context.WithTimeout(ctx, twinTimeout)
	defer cancel()
	begin := w.p.bench.Now()
	var n int64
	err := pool.QueryRow(within, truth.ReadSQL).Scan(&n)
	if ctx.Err() != nil {
		return
	}
	s := sample{took: w.p.bench.Now() - begin, what: "replica", good: err == nil}
	if err != nil {
		s.what = failed
	} else {
		s.stale = w.p.bench.Stale(n, begin)
	}
	w.reads.add(s)
}

// emit makes the emits until ctx ends, and waits for those under way.
func (w *twin) emit(ctx context.Context) {
	sinks := map[string]emit.Sink{}
	defer func() {
		for _, s := range sinks {
			s.(*httpsink.Sink).CloseIdleConnections()
		}
	}()
	for name, process := range w.p.consumers.processes {
		sink, err := httpsink.New(httpsink.Config{URL: process.URL, MaxConns: twinWorkers})
		if err != nil {
			return // it was good once: startConsumers made one like it
		}
		sinks[name] = sink
	}
	pool := emitlab.NewPool(emitlab.PoolConfig{Workers: twinWorkers, Queue: twinQueue, Timeout: twinTimeout}, sinks)
	defer pool.Close()
	now := w.p.bench.Now
	emitting(ctx, now, w.p.load.emits, "u-", func(time.Duration) {}, func(ctx context.Context, name string, t emit.Trigger) {
		begin := now()
		out, _ := pool.Emit(ctx, name, t)
		if ctx.Err() == nil {
			w.emits.add(sample{took: now() - begin, what: out.String(), of: name, good: out == emit.Delivered})
		}
	})
}
