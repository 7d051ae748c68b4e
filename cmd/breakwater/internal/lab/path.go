package lab

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/truth"
	"github.com/breakwater-go/breakwater/contrib/ottercache"
	"github.com/breakwater-go/breakwater/readpath"
	"github.com/breakwater-go/breakwater/replica"
)

const (
	sustain      = 3 * time.Second // 30 s by default: a scenario is to end
	cacheEntries = 10_000
	keys         = 100 // of products

	// The library's defaults, by which it is judged.
	budgetRate    = 200 // reads a second
	budgetBurst   = 200
	budgetRoom    = 20
	loaderWait    = 250 * time.Millisecond
	criticalBound = 2 * time.Second
)

// The endpoints, one of each class.
const (
	balance = "balance" // critical
	product = "product" // degradable
	related = "related" // sheddable
)

var classOfEndpoint = map[string]readpath.Class{
	balance: readpath.Critical, product: readpath.Degradable, related: readpath.Sheddable,
}

// classes is how the reads of a scenario go by way of the read path.
type classes struct {
	mix   []string // endpoints, in turn
	rate  int      // reads a second, without --rate
	least int      // the fewest of them that can show what the scenario shows
	room  int      // the cap of reads in flight on a node; 0: the lab's usual one
	sql   string   // of a read; "": truth.ReadSQL
}

// mixed is the usual mix: three in ten critical, five degradable, two sheddable.
var mixed = []string{balance, product, product, related, balance, product, product, related, balance, product}

// path is the read path over the library.
type path struct {
	run     *run
	router  *readpath.Router
	cache   *ottercache.Cache
	mix     []string
	sql     string
	sent    atomic.Int64 // reads, which take the mix in turn
	loaders tally        // reads of the primary that have a key, by key
	delay   atomic.Int64 // how long a loader takes besides its read, in nanoseconds
}

// openPath puts the read path on the library, with its defaults but for the sustained time.
func (r *run) openPath(c *classes) error {
	p := &path{run: r, mix: c.mix, sql: c.sql}
	if p.sql == "" {
		p.sql = truth.ReadSQL
	}
	var err error
	if p.cache, err = ottercache.New(ottercache.Config{MaxEntries: cacheEntries, MaxAge: -1}); err != nil {
		return err
	}
	config := readpath.Config{
		Backend: watched{r.db.Backend(), p}, Endpoints: map[string]readpath.Endpoint{}, Cache: p.cache,
		Budget:   readpath.Budget{Rate: budgetRate, Burst: budgetBurst, Concurrent: budgetRoom},
		Critical: readpath.CriticalPolicy{MaxStaleness: criticalBound}, Degradable: readpath.DegradablePolicy{MaxWait: loaderWait},
		Recovery: readpath.Recovery{Sustain: sustain},
		Observer: r.hooks.Path,
	}
	config.Observer.OnMode = p.onMode
	for name, class := range classOfEndpoint {
		config.Endpoints[name] = readpath.Endpoint{Class: class}
	}
	p.router, err = readpath.New(config)
	r.path = p
	return err
}

func (p *path) close() {
	p.router.Close()
	p.cache.Close()
}

func (p *path) onMode(c readpath.ModeChange) {
	call(p.run.hooks.Path.OnMode, c)
	l := ModeLine{Head: Head{p.run.at(c.At).Milliseconds(), "mode"}, From: c.From, To: c.To, Given: c.Given, Degraded: degraded(c.To)}
	p.run.told.Pass(func() {
		p.run.rec.stepped(c, p.run.at(c.At))
		p.run.tell(l)
	})
}

func degraded(m readpath.Mode) int {
	if m == readpath.Normal {
		return 0
	}
	return 1
}

// pathRead is one read, as it goes through the library.
type pathRead struct {
	begin time.Duration
	key   string
	info  *readpath.ReadInfo // of the replica that it was sent to
}

type (
	pathReadKey struct{}
	loaderKey   struct{} // in the context of a read of the primary: its key
)

// watched is the library's backend, and sees what falls back to the primary.
type watched struct {
	readpath.Backend

	path *path
}

// WithRead notes the read.
func (w watched) WithRead(ctx context.Context, req replica.Requirement, info *readpath.ReadInfo) context.Context {
	read, ok := ctx.Value(pathReadKey{}).(*pathRead)
	switch {
	case ok && req.PrimaryOnly:
		w.path.run.rec.fellBack(read.begin, w.path.run.now())
		ctx = context.WithValue(ctx, loaderKey{}, read.key)
	case ok:
		read.info = info
	}
	return w.Backend.WithRead(ctx, req, info)
}

// load reads the counter. A loader at the primary may take longer: see delay.
func (p *path) load(ctx context.Context) (n int64, err error) {
	if key, ok := ctx.Value(loaderKey{}).(string); ok && key != "" {
		p.loaders.enter(key)
		defer p.loaders.leave(key)
		if err := Wait(ctx, time.Duration(p.delay.Load())); err != nil {
			return 0, err
		}
	}
	err = p.run.db.QueryRow(ctx, p.sql).Scan(&n)
	return n, err
}

// next is the read that is due.
func (p *path) next() readpath.Call {
	n := p.sent.Add(1) - 1
	c := readpath.Call{Endpoint: p.mix[n%int64(len(p.mix))]}
	if c.Endpoint == product {
		c.Key = strconv.FormatInt(n%keys, 10)
	}
	return c
}

// read makes one read through the path.
func (p *path) read(ctx context.Context, c readpath.Call) Answer {
	r := p.run
	read := &pathRead{begin: r.now(), key: c.Key}
	a := answer{phase: r.rec.in(), begin: read.begin, class: classOfEndpoint[c.Endpoint]}
	if a.class == readpath.Critical {
		a.limit = criticalBound
	}
	ctx = context.WithValue(context.WithoutCancel(ctx), pathReadKey{}, read)
	own := r.own.asks()
	if own != nil {
		ctx = replica.WithPosition(ctx, own.pos)
	}
	res, err := readpath.Get(ctx, p.router, c, p.load)
	a.end, a.err = r.now(), err
	a.value, a.source, a.node, a.age, a.flagged = res.Value, res.Source, res.Node, res.Age, res.Stale || res.Unverified
	if refused, ok := errors.AsType[*readpath.RefusedError](err); ok {
		a.refused, a.retryAfter, a.shed = true, refused.RetryAfter(), errors.Is(err, readpath.ErrShed)
	}
	if read.info != nil {
		a.pickedAt, a.attempts = r.at(read.info.PickedAt), read.info.Attempts
	}
	if own != nil && err == nil && a.source != readpath.FromDefault {
		a.missed = a.value < own.n
		r.rec.ownRead(!a.missed, a.source == readpath.FromReplica)
	}
	return r.answered(a)
}

// waitMode waits until the path is in a mode, for so long at the most.
func (p *path) waitMode(ctx context.Context, m readpath.Mode, budget time.Duration) {
	for end := p.run.now() + budget; p.run.now() < end && ctx.Err() == nil && p.router.Mode() != m; {
		_ = Wait(ctx, 20*time.Millisecond)
	}
}

// second is how the path stands.
func (p *path) second(byClass map[readpath.Class]*BySource) *SecondPath {
	s := p.router.Stats()
	return &SecondPath{
		Mode: s.Mode, Degraded: degraded(s.Mode), Withheld: s.Withheld, BudgetTokens: s.BudgetTokens,
		InFallback: s.InFallback, ByClass: byClass,
	}
}

// summary tells what the recorder does not know.
func (p *path) summary(s *Summary) {
	s.DegradedMS = ms(p.router.Stats().DegradedFor)
	s.LoadersMax = p.loaders.most("")
	s.BudgetViolations, s.BudgetMost = overBudget(p.run.rec.fallbacks(), budgetRate, budgetBurst)
}
