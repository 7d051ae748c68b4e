package emit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Router sends triggers to their consumers, each by a lane of its own. Make it with [New]; it must not be copied. All
// its methods may be called at any time from any goroutine.
type Router struct {
	lanes      []*lane // all that stands here is immutable
	routes     map[string][]*lane
	others     []*lane // of types that nobody names
	priorities map[string]int
	standard   int // the priority of triggers without one
	source     string
	maxBytes   int
	noLabels   bool
	observer   Observer
	base       time.Time
	rings      []*Ring // stores of our own
	stop       context.CancelFunc
	lasting    time.Duration // the longest Timeout

	intake intake
	owned  sync.WaitGroup // the lanes' goroutines and their attempts
}

// New makes a Router and starts a goroutine for each consumer, which Drain and Close end. What the stores hold
// already is replayed. The error names every fault of the Config.
func New(c Config) (*Router, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Router{
		routes: map[string][]*lane{}, priorities: map[string]int{}, source: c.Source, maxBytes: c.MaxBytes,
		noLabels: c.NoLabels, observer: c.Observer, base: time.Now(),
	}
	r.intake.drained = make(chan struct{})
	for i, p := range c.Priorities {
		r.priorities[p] = i
	}
	r.standard = r.priorities[c.DefaultPriority]
	for i := range c.Consumers {
		k := &c.Consumers[i]
		if k.DeadLetters == nil {
			k.DeadLetters = c.DeadLetters
		}
		if k.DeadLetters == nil {
			ring, _ := NewRing(RingConfig{}) // no faults in it
			r.rings = append(r.rings, ring)
			k.DeadLetters = ring
		}
		r.lanes = append(r.lanes, newLane(r, *k))
		r.lasting = max(r.lasting, k.Timeout)
	}
	r.route()
	for _, l := range r.lanes {
		if err := l.inherit(); err != nil {
			return nil, fmt.Errorf("emit: dead letters of %s: %w", l.Name, err)
		}
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	for _, l := range r.lanes {
		r.owned.Go(func() { l.run(ctx) })
	}
	return r, nil
}

// route finds the lanes of each type that somebody names.
func (r *Router) route() {
	for _, l := range r.lanes {
		for _, t := range l.Types {
			r.routes[t] = nil
		}
		if len(l.Types) == 0 {
			r.others = append(r.others, l)
		}
	}
	for t := range r.routes {
		for _, l := range r.lanes {
			if len(l.Types) == 0 || slices.Contains(l.Types, t) {
				r.routes[t] = append(r.routes[t], l)
			}
		}
	}
}

// inherit counts what the store holds from before.
func (l *lane) inherit() error {
	d := l.store.Depths()[l.Name]
	l.count.diverted.Add(uint64(max(d.Letters, 0)))
	l.letters.Store(d.Letters > d.Parked)
	if d.Letters == 0 {
		return nil
	}
	_, err := l.hold(context.Background(), Filter{Parked: new(false)})
	return err
}

func (r *Router) now() time.Duration { return time.Since(r.base) }

// Emit tells the consumers of t.Type, and answers for each of them. The error is nil only if each has taken the trigger, or
// will get it from the dead letters, which hold it as safe as their Durability says (REQ-E8); else it is an [*Error], or says what is
// wrong with t.
//
// It waits for a delivery no longer than the lane's Timeout, for a degrade function as long again, and for the store; consumers are told
// at the same time. If ctx ends, deliveries end, and the triggers are stored. A delivery that timed out may have taken effect
// all the same: the consumer sees the ID again.
func (r *Router) Emit(ctx context.Context, t Trigger) (Receipt, error) {
	return r.each(ctx, t, (*lane).emit)
}

// HandOver is a weaker Emit: it stores the trigger and returns, without a try to deliver it. That follows by the replay of the dead letters, at its
// pace. A nil error says no more than that the trigger is stored, as safe as the Durability of the dead letters says: with those in memory a crash loses it.
func (r *Router) HandOver(ctx context.Context, t Trigger) (Receipt, error) {
	return r.each(ctx, t, (*lane).received)
}

// A delivery sees to a trigger. If its goroutine is ended by runtime.Goexit in the Sink, exited gets the result, unless it is nil.
type delivery func(l *lane, ctx context.Context, t Trigger, priority int, exited *Result) Result

func (r *Router) each(ctx context.Context, t Trigger, do delivery) (Receipt, error) {
	priority, lanes, err := r.complete(&t)
	if err != nil {
		return Receipt{ID: t.ID}, err
	}
	if !r.intake.enter() {
		return r.refuse(lanes, t.ID)
	}
	defer r.intake.leave()
	receipt := Receipt{ID: t.ID}
	if len(lanes) == 1 {
		receipt.one = do(lanes[0], ctx, t, priority, nil)
	} else {
		receipt.more = together(ctx, lanes, t, priority, do)
	}
	err = receipt.err()
	return receipt, err
}

// together has each lane at work on a goroutine of its own, but for the last one.
func together(ctx context.Context, lanes []*lane, t Trigger, priority int, do delivery) []Result {
	results := make([]Result, len(lanes))
	for i, l := range lanes { // what is said of one whose goroutine ends elsewhere
		results[i] = Result{Consumer: l.Name, Outcome: Refused, Reason: ReasonFailed, Err: errGoexit}
	}
	var all sync.WaitGroup
	defer all.Wait() // also if the last one ends the caller's goroutine
	last := len(lanes) - 1
	for i, l := range lanes[:last] {
		all.Go(func() { results[i] = do(l, ctx, t, priority, &results[i]) })
	}
	results[last] = do(lanes[last], ctx, t, priority, nil)
	return results
}

// complete sets the defaults of a trigger and finds its lanes.
func (r *Router) complete(t *Trigger) (priority int, lanes []*lane, err error) {
	priority, known := r.standard, true
	if t.Priority != "" {
		priority, known = r.priorities[t.Priority]
	}
	lanes, named := r.routes[t.Type]
	if !named {
		lanes = r.others
	}
	switch {
	case t.Type == "":
		return 0, nil, errors.New("emit: the trigger has no Type")
	case !known:
		return 0, nil, fmt.Errorf("emit: the trigger has the priority %q, which is not one of the Router's", t.Priority)
	case len(t.Data) > r.maxBytes:
		return 0, nil, fmt.Errorf("%w: %d bytes, the Router takes %d (Config.MaxBytes)", ErrTooLarge, len(t.Data), r.maxBytes)
	case len(lanes) == 0:
		return 0, nil, fmt.Errorf("%w: %q", ErrNoConsumer, t.Type)
	}
	if t.ID == "" {
		t.ID = newID()
	}
	if t.Source == "" {
		t.Source = r.source
	}
	if t.Time.IsZero() {
		t.Time = time.Now()
	}
	if t.ContentType == "" {
		t.ContentType = "application/json"
	}
	return priority, lanes, nil
}

// newID is 128 random bits.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // it never fails
	var text [32]byte
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// refuse answers for a Router that ends.
func (r *Router) refuse(lanes []*lane, id string) (Receipt, error) {
	receipt := Receipt{ID: id}
	for _, l := range lanes {
		l.count.refused.Add(1)
		receipt.more = append(receipt.more, Result{Consumer: l.Name, Outcome: Refused, Reason: ReasonShutdown, Err: ErrClosed})
	}
	err := receipt.err()
	return receipt, err
}

// An intake counts the emits under way, until it is closed and they have ended.
type intake struct {
	word    atomic.Int64 // bits 0-61 emits under way, 62 closed
	drained chan struct{}
	once    sync.Once
}

const intakeClosed = 1 << 62

func (i *intake) enter() bool {
	if i.word.Add(1)&intakeClosed == 0 {
		return true
	}
	i.leave()
	return false
}

func (i *intake) leave() { i.check(i.word.Add(-1)) }

func (i *intake) check(word int64) {
	if word == intakeClosed {
		i.once.Do(func() { close(i.drained) })
	}
}

func (i *intake) close() {
	for {
		word := i.word.Load()
		if i.word.CompareAndSwap(word, word|intakeClosed) { // ends: others only come and go
			i.check(word | intakeClosed)
			return
		}
	}
}

// Drain ends the Router in order: emits are refused from now on; deliveries under way go on until ctx ends, and are cut off and stored then
// (ReasonShutdown); replay stops. It returns once all has ended; the error is that of ctx if deliveries were cut off, or names the
// consumers whose Sinks do not end although theirs did, a second after it. Stores that the caller gave stay open.
func (r *Router) Drain(ctx context.Context) error {
	r.intake.close()
	r.stop()
	ended := make(chan struct{})
	go func() {
		<-r.intake.drained
		r.owned.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return r.closeRings()
	case <-ctx.Done():
	}
	for _, l := range r.lanes {
		l.calls.end()
	}
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case <-ended:
		return errors.Join(context.Cause(ctx), r.closeRings())
	case <-patience.C:
		return r.hanging()
	}
}

func (r *Router) closeRings() error {
	for _, ring := range r.rings {
		_ = ring.Close() // returns nil
	}
	return nil
}

func (r *Router) hanging() error {
	var faults []error
	for _, l := range r.lanes {
		if n := l.bulkhead.Stats().InFlight; n > 0 {
			faults = append(faults, fmt.Errorf("emit: %d deliveries to %s do not end although their contexts have", n, l.Name))
		}
	}
	return errors.Join(append(faults, context.DeadlineExceeded)...)
}

// Close is Drain with the longest Timeout of a consumer as its deadline.
func (r *Router) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.lasting)
	defer cancel()
	return r.Drain(ctx)
}

// Breaker returns that of a consumer, to look at it or to force it; nil if there is none of that name.
func (r *Router) Breaker(consumer string) *breaker.Breaker {
	if l := r.lane(consumer); l != nil {
		return l.breaker
	}
	return nil
}

func (r *Router) lane(consumer string) *lane {
	for _, l := range r.lanes {
		if l.Name == consumer {
			return l
		}
	}
	return nil
}

// Stats returns what the Router counted.
func (r *Router) Stats() Stats {
	var s Stats
	for _, l := range r.lanes {
		s.Consumers = append(s.Consumers, l.stats())
	}
	return s
}

// storeTimeout bounds the wait for a store where the caller's context has ended.
const storeTimeout = 5 * time.Second

// storing is a context in which a store is asked: that of the caller, or another where it has ended.
func (r *Router) storing(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
}

// evicted counts letters that had to make room, each for its own consumer.
func (r *Router) evicted(letters []Letter) {
	for i := range letters {
		if l := r.lane(letters[i].Consumer); l != nil {
			l.count.evicted.Add(1)
			l.demands.progress()
			if !letters[i].Parked {
				l.keys.evicted(&letters[i])
			}
		}
	}
}

func (r *Router) tell(f func(Letter), letter *Letter) {
	if f != nil {
		defer r.caught(letter.Consumer)
		f(*letter)
	}
}

func (r *Router) tellShed(letter *Letter, why error) {
	if f := r.observer.OnShed; f != nil {
		defer r.caught(letter.Consumer)
		f(*letter, why)
	}
}

func (r *Router) tellTransition(t breaker.Transition) {
	if f := r.observer.OnTransition; f != nil {
		defer r.caught(t.Name)
		f(t)
	}
}

// caught ends a panic of an Observer; it must be deferred.
func (r *Router) caught(consumer string) {
	if v := recover(); v != nil { //nolint:revive // caught is deferred itself
		r.fault(consumer, fmt.Errorf("emit: an Observer panicked: %v", v))
	}
}

func (r *Router) fault(consumer string, err error) {
	if f := r.observer.OnFault; f != nil {
		defer func() { _ = recover() }() // there is nobody left to tell
		f(consumer, err)
	}
}
