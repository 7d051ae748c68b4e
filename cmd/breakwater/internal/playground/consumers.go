package playground

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/consumer"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/emitlab"
	"github.com/breakwater-go/breakwater/cmd/breakwater/internal/lab"
	"github.com/breakwater-go/breakwater/emit"
	"github.com/breakwater-go/breakwater/emit/httpsink"
)

// names are the consumers.
var names = []string{"billing", "mailer", "search"}

const (
	healthyP99 = 8 // ms
	slowP99    = 900
	slowShare  = 0.02 // of a consumer that is partly slow
	letters    = 10_000
	maxEmitted = 2048 // under way; more are skipped
)

// well is how a consumer answers that nobody broke.
var well = consumer.Behaviour{P99: healthyP99}

// consumers are processes of their own, and the Router that tells them of triggers.
type consumers struct {
	processes map[string]*consumer.Process // immutable
	sinks     map[string]*httpsink.Sink    // immutable
	router    *emit.Router
	store     *emit.Ring
	emits     meter        // of the protected traffic
	late      atomic.Int64 // the longest that an emit was sent after its time since it was asked for, in nanoseconds
}

// startConsumers starts their processes, and the Router. On an error nothing is left behind.
func startConsumers(c Config, moved func(breaker.Transition)) (*consumers, error) {
	k := &consumers{processes: map[string]*consumer.Process{}, sinks: map[string]*httpsink.Sink{}}
	for i, name := range names {
		if err := k.start(name, c.Child(emitlab.RoleConsumer, "--forget", "--seed", strconv.FormatUint(c.Options.Seed+uint64(i), 10))); err != nil { //nolint:gosec // a few
			return nil, errors.Join(fmt.Errorf("consumer %s: %w", name, err), k.close())
		}
	}
	var err error
	if k.store, err = emit.NewRing(emit.RingConfig{Letters: letters}); err != nil {
		return nil, errors.Join(err, k.close())
	}
	config := emit.Config{DeadLetters: k.store, Observer: c.Emit}
	config.Observer.OnTransition = func(t breaker.Transition) {
		if c.Emit.OnTransition != nil {
			c.Emit.OnTransition(t)
		}
		moved(t)
	}
	for _, name := range names {
		config.Consumers = append(config.Consumers, emit.Consumer{Name: name, Types: []string{typeOf(name)}, Sink: k.sinks[name]})
	}
	if k.router, err = emit.New(config); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *consumers) start(name string, child *exec.Cmd) error {
	process, err := consumer.Start(child)
	if err != nil {
		return err
	}
	k.processes[name] = process
	if err := process.Become(well); err != nil {
		return err
	}
	k.sinks[name], err = httpsink.New(httpsink.Config{URL: process.URL})
	return err
}

// transition tells that a consumer's breaker moved.
func (p *Playground) transition(t breaker.Transition) {
	p.told.Pass(func() { p.config.Tell(emitlab.LineOf(t, p.config.Options.Started)) })
}

// typeOf is the type of a consumer's triggers: each goes to one.
func typeOf(name string) string { return "lab." + name }

// priority is that of a trigger: of ten one of compliance, three idle pings.
func priority(n int) string {
	switch n % 10 {
	case 0:
		return "compliance"
	case 3, 6, 9:
		return "idle-ping"
	}
	return "normal"
}

var payload = []byte(`{"order":4711,"amount":"12.50","currency":"EUR"}`)

// trigger is the n-th, for one consumer after the other.
func trigger(prefix string, n int) (name string, t emit.Trigger) {
	name = names[n%len(names)]
	return name, emit.Trigger{
		ID: prefix + name + "-" + strconv.Itoa(n), Type: typeOf(name), Source: "breakwater-lab", Time: time.Now(),
		Priority: priority(n / len(names)), Key: "customer-" + strconv.Itoa(n%50), Data: payload,
	}
}

// traffic emits so many triggers a second, to one consumer after the other, until ctx ends, and waits for those under way.
func (k *consumers) traffic(ctx context.Context, now func() time.Duration, perSecond func() int64) {
	late := func(d time.Duration) {
		if int64(d) > k.late.Load() { // only this goroutine raises it; that somebody begins anew meanwhile loses little
			k.late.Store(int64(d))
		}
	}
	emitting(ctx, now, perSecond, "t-", late, func(ctx context.Context, name string, t emit.Trigger) { k.emit(ctx, now, name, t) })
}

// stall is by how much the machine delayed an emit or an answer of a consumer at the most, since it was asked for last.
func (k *consumers) stall() time.Duration {
	worst := time.Duration(k.late.Swap(0))
	for _, p := range k.processes {
		if r, err := p.Report(false); err == nil { // else it ends
			worst = max(worst, time.Duration(r.WorstStall*float64(time.Millisecond)))
		}
	}
	return worst
}

// emitting makes the emits of a traffic, each on a goroutine of its own.
func emitting(ctx context.Context, now func() time.Duration, perSecond func() int64, prefix string, late func(time.Duration),
	emit func(context.Context, string, emit.Trigger),
) {
	places := make(chan struct{}, maxEmitted)
	var all sync.WaitGroup
	defer all.Wait()
	n := 0
	lab.Pace(ctx, now, perSecond, func(by time.Duration) {
		late(by)
		name, t := trigger(prefix, n)
		n++
		select {
		case places <- struct{}{}:
		default:
			return
		}
		all.Go(func() {
			emit(ctx, name, t)
			<-places
		})
	})
}

// emit makes one emit through the library. The end of the lab does not cut it off: it takes no longer than its timeout.
func (k *consumers) emit(ctx context.Context, now func() time.Duration, name string, t emit.Trigger) (emit.Result, time.Duration) {
	begin := now()
	receipt, _ := k.router.Emit(context.WithoutCancel(ctx), t) // the receipt says it
	result, took := receipt.Of(name), now()-begin
	k.emits.add(sample{took: took, what: result.Outcome.String(), of: name, good: result.Outcome == emit.Delivered && result.Reason == ""})
	return result, took
}

// stats are those of a consumer.
func (k *consumers) stats(name string) emit.ConsumerStats {
	all := k.router.Stats().Consumers
	for i := range all {
		if all[i].Name == name {
			return all[i]
		}
	}
	return emit.ConsumerStats{}
}

// close ends the Router, then the processes.
func (k *consumers) close() error {
	var err error
	if k.router != nil {
		if err = k.router.Close(); errors.Is(err, context.DeadlineExceeded) {
			err = nil // it cut deliveries off: they would have been letters in memory, which end now
		}
	}
	if k.store != nil {
		err = errors.Join(err, k.store.Close())
	}
	for _, s := range k.sinks {
		if s != nil {
			s.CloseIdleConnections()
		}
	}
	for _, p := range k.processes {
		_ = p.Close() // one that a signal has ended is no fault
	}
	return err
}
