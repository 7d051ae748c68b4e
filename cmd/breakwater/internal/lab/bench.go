package lab

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/pgxread"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

// Bench is a run without an end or a script, for whoever plays with it: the traffic of a scenario whose reads have classes,
// judged against the truth as there. NewBench makes one. Its methods may be called from any goroutine.
type Bench struct{ run *run }

// Hooks are told what happens in a Bench, besides those to whom lines are told. They must be quick.
type Hooks struct {
	Replica replica.Observer
	Path    readpath.Observer
	// Answer is told of each read, of several at a time. Default: nobody is.
	Answer func(Answer)
}

// Answer is how one read ended.
type Answer struct {
	Begin, Took time.Duration // Begin on the clock of Bench.Now
	Class       readpath.Class
	Source      readpath.Source
	Node        string // that answered, if one did
	Attempts    int    // nodes that it was tried on
	Flagged     bool   // told to be stale or unverified
	Stale       bool   // older than its limit, or without the write that it asked for, and not flagged
	Shed        bool
	Refused     bool // at once: there was no room, or no node
	Err         error
}

// NewBench opens the library on a fleet, with a read path of three classes and a stale cache. opts names no scenario. Play must be called once.
func NewBench(ctx context.Context, fleet Fleet, opts Options, tell func(Line), hooks Hooks) (*Bench, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	r := newRun(fleet, opts, tell)
	r.hooks, r.by = hooks, &classes{mix: mixed}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return &Bench{r}, nil
}

// Play makes the traffic until opts.For has passed or ctx ends, and closes the library. It leaves the fleet open. live may be nil.
func (b *Bench) Play(ctx context.Context, live func(Live)) (Result, error) {
	return b.run.play(ctx, live)
}

// Now is the time since the process's start.
func (b *Bench) Now() time.Duration { return b.run.now() }

// DB is the library.
func (b *Bench) DB() *pgxread.DB { return b.run.db }

// Path is the read path.
func (b *Bench) Path() *readpath.Router { return b.run.path.router }

// Tell passes a line on, until the run is over.
func (b *Bench) Tell(l Line) { b.run.told.Pass(func() { b.run.tell(l) }) }

// Head begins a line of that kind.
func (b *Bench) Head(kind string) Head { return b.run.head(kind) }

// SetLoad changes the traffic: reads and commits a second, and which share of the reads asks for the newest commit (REQ-R12).
func (b *Bench) SetLoad(reads, writes int, own float64) {
	b.run.offer.Store(int64(reads))
	b.run.writes.Store(int64(writes))
	b.run.own.share.Store(math.Float64bits(own))
}

// Stale tells whether an answer with a value of the counter, of a read that began at an instant and names no bound, is older
// than the library's limit.
func (b *Bench) Stale(value int64, begin time.Duration) bool {
	return b.run.acks.Age(value, begin) > b.run.rec.limit
}

// Read makes one read of a class, besides the traffic. It counts as one of that.
func (b *Bench) Read(ctx context.Context, class readpath.Class) Answer {
	c := readpath.Call{}
	for name, of := range classOfEndpoint {
		if of == class {
			c.Endpoint = name
		}
	}
	if class == readpath.Degradable {
		c.Key = "1" // of the traffic's keys: it is in the cache
	}
	return b.run.path.read(ctx, c)
}

// ownReads are the reads that ask for the newest commit.
type ownReads struct {
	share  atomic.Uint64 // a float64
	newest atomic.Pointer[written]
}

type written struct {
	n   int64
	pos replica.Position
}

func (o *ownReads) sharing() float64 { return math.Float64frombits(o.share.Load()) }

// committed takes the position of a commit, where reads are to ask for it.
func (r *run) committed(ctx context.Context, n int64) {
	if r.own.sharing() == 0 {
		return
	}
	if pos, err := r.db.Position(ctx); err == nil {
		r.own.newest.Store(&written{n, pos})
	}
}

// asks returns the commit that the read which is due asks for, if it is one of those that do.
func (o *ownReads) asks() *written {
	if share := o.sharing(); share == 0 || rand.Float64() >= share {
		return nil
	}
	return o.newest.Load()
}

// OwnReads counts the reads that asked for a commit and were answered.
func (b *Bench) OwnReads() int { return b.run.rec.owned() }

// Misrouted counts the reads that were sent to a replica which was open, or sent as fresh to one that was known to be late.
func (b *Bench) Misrouted() int { return b.run.rec.misrouted() }
