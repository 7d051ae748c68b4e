package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	otelbreaker "github.com/breakwater-go/breakwater/contrib/otel"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/internal/cloudevent"
)

// Config says how much is taken. Router is required.
type Config struct {
	// Router is asked at each request. nil from it says that no consumers are configured: 404.
	Router func() *emit.Router
	// Consumers says that some are configured: where Router returns nil the process has only begun, or ends: 503. Default: false.
	Consumers bool
	// MaxBody is how many bytes a request with one event may have. Default: 1.5 MiB, which is data of 1 MiB in base64 with its attributes.
	MaxBody int64
	// MaxBatchBody is the same of a batch. Default: 8 MiB.
	MaxBatchBody int64
	// MaxBatch is how many events a batch may have. Default: 1,000.
	MaxBatch int
	// Memory is how many bytes of bodies may be in work at once, MaxBatchBody at least; a request whose length is not told counts as one of the
	// longest, and a short one as 32 KiB, so that there are 2,048 requests at most by default. What exceeds it is told to come again. What is read of a body takes at most six
	// times as much besides, and its attributes up to 32 KiB an event. Default: 64 MiB.
	Memory int64
	// ReadTimeout bounds the wait for a body. Default: 10 s.
	ReadTimeout time.Duration
	// Tracer makes a span of each emit. Default: none.
	Tracer *otelbreaker.Tracer
}

// patience bounds the emits of one request: what is left of a batch then is stored without a try to deliver it.
const patience = 10 * time.Second

// A Gateway is the handler of POST /api/v1/emit. Make it with New.
type Gateway struct {
	config Config // immutable
	memory memory
}

// New makes a Gateway. The error names every fault of the Config.
func New(c Config) (*Gateway, error) {
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Gateway{config: c, memory: memory{most: c.Memory}}, nil
}

func (c *Config) setDefaults() {
	for _, f := range []struct {
		field    *int64
		standard int64
	}{{&c.MaxBody, 3 << 19}, {&c.MaxBatchBody, 8 << 20}, {&c.Memory, 64 << 20}} {
		if *f.field == 0 {
			*f.field = f.standard
		}
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 1000
	}
	if c.ReadTimeout == 0 {
		c.ReadTimeout = 10 * time.Second
	}
}

func (c *Config) check() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("gateway: "+format, args...)) }
	if c.Router == nil {
		fault("Router is nil: give a function that returns the Router")
	}
	if c.MaxBody < 1 {
		fault("MaxBody is %d: give a number of bytes above 0", c.MaxBody)
	}
	if c.MaxBatchBody < c.MaxBody {
		fault("MaxBatchBody is %d: give MaxBody, %d, or more", c.MaxBatchBody, c.MaxBody)
	}
	if c.MaxBatch < 1 {
		fault("MaxBatch is %d: give a number of events above 0", c.MaxBatch)
	}
	if least := max(c.MaxBatchBody, leastRequest); c.Memory < least {
		fault("Memory is %d: give %d or more, or a batch of MaxBatchBody can never be taken", c.Memory, least)
	}
	if c.ReadTimeout < 0 {
		fault("ReadTimeout is %v: give a time above 0", c.ReadTimeout)
	}
	return errors.Join(faults...)
}

// ServeHTTP takes one event or a batch.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		g.turnAway(w, req, http.StatusMethodNotAllowed, "send events by POST")
		return
	}
	router := g.config.Router()
	if router == nil && g.config.Consumers {
		g.turnAway(w, req, http.StatusServiceUnavailable, "this process has not started yet, or ends: send it again later, or to another one")
		return
	}
	if router == nil {
		g.turnAway(w, req, http.StatusNotFound, "no consumers are configured")
		return
	}
	weaker, ok := handover(req)
	if !ok {
		g.turnAway(w, req, http.StatusBadRequest, "Breakwater-Handover, or handover in the URL, is not a boolean: send true or false")
		return
	}
	kind := kindOf(req.Header)
	if kind == unknown {
		g.turnAway(w, req, http.StatusUnsupportedMediaType, known)
		return
	}
	limit := g.config.MaxBody
	if kind == batch {
		limit = g.config.MaxBatchBody
	}
	body, done, ok := g.read(w, req, limit)
	if !ok {
		return
	}
	defer done()
	// The sender may go away: it is told nothing then, and nothing that it sent is lost.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), patience)
	defer cancel()
	e := emitter{router: router, tracer: g.config.Tracer, weaker: weaker}
	if kind == batch {
		g.serveBatch(ctx, w, e, body)
		return
	}
	a := e.event(ctx, parse(req.Header, body))
	write(w, a.Status, a)
}

func parse(h http.Header, body []byte) cloudevent.Item {
	t, err := cloudevent.Parse(h, body)
	return cloudevent.Item{Trigger: t, Err: err}
}

func (g *Gateway) serveBatch(ctx context.Context, w http.ResponseWriter, e emitter, body []byte) {
	items, err := cloudevent.Batch(body, g.config.MaxBatch)
	if err != nil {
		a := e.refusal(emit.Trigger{}, err)
		write(w, a.Status, a)
		return
	}
	answers := batchAnswer{Handover: e.weaker, Events: e.batch(ctx, items)}
	status := answers.sum()
	write(w, status, answers)
}

// handover tells whether the sender asks for the weaker emit; not ok where what it says is no boolean.
func handover(req *http.Request) (weaker, ok bool) {
	for _, text := range []string{req.Header.Get("Breakwater-Handover"), req.URL.Query().Get("handover")} {
		if text == "" {
			continue
		}
		asked, err := strconv.ParseBool(text)
		if err != nil {
			return false, false
		}
		weaker = weaker || asked
	}
	return weaker, true
}
