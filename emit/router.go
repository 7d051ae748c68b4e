package emit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
)

// A Router sends triggers to their consumers, each by a lane of its own. Make it with [New]; it must not be copied. All
// its methods may be called at any time from any goroutine.
type Router struct {
	priorities  map[string]int // this and what follows up to now is immutable
	standard    int            // the priority of triggers without one
	deadLetters DeadLetters    // Config.DeadLetters
	base        time.Time
	begin       func(*state)    // starts a lane's goroutine
	stop        func()          // tells them all to end
	stopped     <-chan struct{} // closed by stop
	drained     chan struct{}   // closed when the Router is closed and the emits under way have ended

	now      atomic.Pointer[epoch] // what is in force; replaced under changing and mu
	changing sync.Mutex            // held by Reconfigure, also while it asks a store

	mu struct {
		sync.Mutex
		closed  bool
		running []*epoch               // those whose emits have not all ended, the one in force too
		others  map[string]*state      // of consumers that are in no Config: lanes that end, and those about to begin
		left    map[string]DeadLetters // where consumers that are gone have letters, apart from deadLetters
		rings   map[string]*Ring       // stores of our own
	}
	owned sync.WaitGroup // the lanes' goroutines and their attempts
}

// New makes a Router and starts a goroutine for each consumer, which Drain and Close end. What the stores hold
// already is replayed. The error names every fault of the Config.
func New(c Config) (*Router, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	r := &Router{priorities: map[string]int{}, deadLetters: c.DeadLetters, base: time.Now(), drained: make(chan struct{})}
	r.mu.others, r.mu.left, r.mu.rings = map[string]*state{}, map[string]DeadLetters{}, map[string]*Ring{}
	for i, p := range c.Priorities {
		r.priorities[p] = i
	}
	r.standard = r.priorities[c.DefaultPriority]
	ctx, stop := context.WithCancel(context.Background())
	r.begin = func(s *state) { r.owned.Go(func() { s.run(ctx) }) }
	r.stop, r.stopped = stop, ctx.Done()
	if err := r.install(c); err != nil {
		stop()
		return nil, err
	}
	return r, nil
}

func (r *Router) sinceBase() time.Duration { return time.Since(r.base) }

func (r *Router) observer() *Observer { return &r.now.Load().observer }

// Emit tells the consumers of t.Type, and answers for each of them. The error is nil only if each has taken the trigger, or
// will get it from the dead letters, which hold it as safe as their Durability says (REQ-E8); else it is an [*Error], or says what is
// wrong with t.
//
// It waits for a delivery no longer than the lane's Timeout, for a degrade function as long again, and for a durable store 5 s at most, after which the
// trigger is refused with ErrBackPressure; consumers are told at the same time. If ctx ends, deliveries end, and the triggers are stored. A delivery that timed out may have taken effect
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
	e, priority, lanes, err := r.enter(&t)
	if err != nil {
		return Receipt{ID: t.ID}, err
	}
	if e == nil {
		return r.refuse(lanes, t.ID)
	}
	defer e.intake.leave()
	receipt := Receipt{ID: t.ID}
	if len(lanes) == 1 {
		receipt.one = do(lanes[0], ctx, t, priority, nil)
	} else {
		receipt.more = together(ctx, lanes, t, priority, do)
	}
	err = receipt.err()
	return receipt, err
}

// enter begins an emit under the settings in force; e is nil if the Router ends. Each further turn needs a Reconfigure since the turn before.
func (r *Router) enter(t *Trigger) (e *epoch, priority int, lanes []*lane, err error) {
	for {
		e = r.now.Load()
		priority, lanes, err = r.complete(e, t)
		if err != nil || e.intake.enter() {
			return e, priority, lanes, err
		}
		if r.now.Load() == e {
			return nil, priority, lanes, nil
		}
	}
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
func (r *Router) complete(e *epoch, t *Trigger) (priority int, lanes []*lane, err error) {
	priority, known := r.standard, true
	if t.Priority != "" {
		priority, known = r.priorities[t.Priority]
	}
	lanes = e.to(t.Type)
	switch {
	case t.Type == "":
		return 0, nil, errors.New("emit: the trigger has no Type")
	case !known:
		return 0, nil, fmt.Errorf("emit: the trigger has the priority %q, which is not one of the Router's", t.Priority)
	case len(t.Data) > e.config.MaxBytes:
		return 0, nil, fmt.Errorf("%w: %d bytes, the Router takes %d (Config.MaxBytes)", ErrTooLarge, len(t.Data), e.config.MaxBytes)
	case len(lanes) == 0:
		return 0, nil, fmt.Errorf("%w: %q", ErrNoConsumer, t.Type)
	}
	if t.ID == "" {
		t.ID = newID()
	}
	if t.Source == "" {
		t.Source = e.config.Source
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

// Breaker returns that of a consumer, to look at it or to force it; nil if there is none of that name.
func (r *Router) Breaker(consumer string) *breaker.Breaker {
	if l := r.lane(consumer); l != nil {
		return l.breaker
	}
	return nil
}

func (r *Router) lane(consumer string) *lane { return r.now.Load().lane(consumer) }

// Stats returns what the Router counted.
func (r *Router) Stats() Stats {
	e := r.now.Load()
	s := Stats{Absent: r.absent(e)}
	for _, l := range e.lanes {
		s.Consumers = append(s.Consumers, l.stats())
	}
	return s
}

// evicted counts letters that had to make room, each for its own consumer.
func (r *Router) evicted(letters []Letter) {
	for i := range letters {
		if l := r.state(letters[i].Consumer); l != nil {
			l.count.evicted.Add(1)
			l.demands.progress()
			if !letters[i].Parked {
				l.keys.Load().evicted(&letters[i])
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
	if f := r.observer().OnShed; f != nil {
		defer r.caught(letter.Consumer)
		f(*letter, why)
	}
}

func (r *Router) tellTransition(t breaker.Transition) {
	if f := r.observer().OnTransition; f != nil {
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
	if f := r.observer().OnFault; f != nil {
		defer func() { _ = recover() }() // there is nobody left to tell
		f(consumer, err)
	}
}
