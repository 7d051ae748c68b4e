package emitlab

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/emit"
)

const (
	maxInFlight = 8192 // emits to one consumer; more are skipped and counted
	catchUp     = 4
	// lateTimer is how late a timer usually is at the most: what came due in that time is sent when it fires.
	lateTimer = 5 * time.Millisecond
	// keys is how many keys there are; every keyedOf-th trigger has one.
	keys    = 50
	keyedOf = 4
)

// The priorities, the library's default, and how many of ten triggers have which in scenarios that mix them.
var (
	priorities = []string{"compliance", "normal", "idle-ping"}
	mixture    = [10]int{0, 1, 1, 1, 1, 1, 2, 2, 2, 2}
)

const normal = 1

// arrivals calls do as a Poisson process of a rate, on schedule whatever do takes, until ctx ends. What fell behind because the
// machine stalled is made up for at catchUp times the rate, and not in one burst, which no callers would have sent. A timer may be
// late by more than an interval: what came due meanwhile is sent when it fires, up to lateTimer.
func arrivals(ctx context.Context, now func() time.Duration, rate int, rng *rand.Rand, do func(late time.Duration)) {
	mean := float64(time.Second) / float64(rate)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for due, last := now(), now(); ctx.Err() == nil; {
		at := now()
		room := max(1, int(catchUp*float64(min(at-last, lateTimer))/mean))
		for last = at; due <= at && room > 0; room-- {
			do(at - due)
			due += time.Duration(rng.ExpFloat64() * mean)
		}
		timer.Reset(max(due-now(), time.Duration(mean/catchUp)))
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// traffic emits to one consumer until ctx ends, and waits for the emits under way, which emits bounds.
func (r *run) traffic(ctx, emits context.Context, t *target, stream uint64) {
	rng := rand.New(rand.NewPCG(r.opts.Seed, stream))
	places := make(chan struct{}, maxInFlight)
	var all sync.WaitGroup
	defer all.Wait()
	arrivals(ctx, r.now, r.opts.rate(), rng, func(late time.Duration) {
		r.watch.stalled(late)
		priority, keyed, key := normal, rng.IntN(keyedOf) == 0, rng.IntN(keys)
		if r.scenario.mixed {
			priority = mixture[rng.IntN(len(mixture))]
		}
		select {
		case places <- struct{}{}:
		default:
			t.skip()
			return
		}
		n := t.begin(r.in(), priority, r.now())
		x := triggerOf(t.name, t.id(n), priority)
		if keyed {
			x.Key = "key-" + strconv.Itoa(key)
		}
		all.Go(func() {
			r.emit(emits, t, n, x)
			<-places
		})
	})
}

// triggerOf is one that goes to a consumer.
func triggerOf(consumer, id string, priority int) emit.Trigger {
	return emit.Trigger{ID: id, Type: typeOf(consumer), Source: "breakwater-lab", Time: time.Now(), Priority: priorities[priority], Data: payload}
}

var payload = []byte(`{"order":4711,"amount":"12.50","currency":"EUR","note":"as small as most triggers are"}`)

func (r *run) emit(ctx context.Context, t *target, n int, x emit.Trigger) {
	began := r.now()
	t.starts(n, began)
	out, why := r.path.emit(context.WithValue(ctx, ctxEmit{}, began), t.name, x)
	ended := r.now()
	t.end(n, ended, out, why)
	r.watch.emitted(began, ended)
}
