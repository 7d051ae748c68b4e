package breaker

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Breaker guards one thing. Make it with [New]; it must not be copied. All
// its methods may be called at any time from any goroutine, from callbacks too.
type Breaker struct {
	word     uint64                   //nolint:modernize // layout in state.go; read by loadWord, written by storeWord and only under mu: with an atomic.Uint64, Allow would not be inlined
	stripes  atomic.Pointer[stripes]  // the cells of a busy breaker, nil until then; set once, under mu
	name     string                   // immutable after New
	clock    clock                    // immutable after New
	settings atomic.Pointer[settings] // replaced only under mu; what it points to is immutable
	refusal  atomic.Pointer[OpenError]
	measure  atomic.Pointer[measure] // replaced only under mu; nil: no call is timed
	memory   *atomic.Pointer[memory] // of its Set, nil if it has none; immutable once it is shared
	sampling atomic.Uint64           // a success whose number in its cell has none of these bits looks at the clock; written under mu
	edge     atomic.Int64            // when the next step of a time window begins, since the clock's base; written under mu
	ramp     ramp

	mu struct {
		sync.Mutex
		detectors []*installed  // one a rule, in the order of Config.Rules
		times     []*timeWindow // those of detectors
		readings  *readings     // of the histogram; nil: Stats was not asked

		successes  uint64 // the count of all cells without its modulus
		fast       uint64 // successes that were counted in cells of the first latency window which are empty now
		failures   uint64
		streak     uint64 // failures since the last success
		streakMark uint64 // successes at the last failure

		since          time.Time     // of the state
		reason         Reason        // of the newest transition
		openReason     Reason        // of the newest opening
		openings       uint64        // since New
		relapses       relapses      // of them, those that followed a close
		refusing       time.Duration // since New, without this state
		enteredAt      time.Duration // this state, since the clock's base
		wouldOpen      uint64        // since New: what dry rules reported
		period         time.Duration // of the newest opening, before jitter; 0: clean
		backoff        time.Duration // the same, but for those of TripFor: the next period goes on from it
		closedAt       time.Duration // newest recovery, since the clock's base
		probeSuccesses int           // in this half-open
		probeFailures  int           // in this half-open
		expired        bool          // Probe.Longest has passed in this half-open
		stopTimer      func() bool   // the timer of this state, nil if it has none
		alarm          uint64        // its number: one more with each change of state, and with each timer that is replaced

		queue      []event // not delivered yet, oldest first
		delivering bool    // some goroutine is in an observer's function
	}

	// What calls write is far from what they only read, which begins the breaker.
	looks    atomic.Uint64 // of successes at the clock since sampling or edge changed
	ignored  atomic.Uint64
	late     atomic.Uint64
	faults   atomic.Uint64
	rejected atomic.Uint64
	cell     cell // the first; all of them in cell.go
}

// settings is what a running breaker needs of its Config.
type settings struct {
	Open     Backoff
	Probe    Probe
	Ramp     Ramp
	Classify func(error) Outcome
	Observer Observer

	slots            []*slot // Probe.Concurrent of them
	consecutiveLimit int     // see Stats.ConsecutiveLimit
}

// settings is c, which has its defaults, with the slots of old that fit.
func (c Config) settings(old []*slot) *settings {
	return &settings{
		Open: c.Open, Probe: c.Probe, Ramp: c.Ramp, Classify: c.Classify, Observer: c.Observer,
		slots: newSlots(old, c.Probe.Concurrent), consecutiveLimit: consecutiveLimit(c.Rules),
	}
}

// New makes a closed breaker. The error names every fault of the Config.
func New(c Config) (*Breaker, error) { return newBreaker(c, &realClock{time.Now()}) }

func newBreaker(c Config, clk clock) (*Breaker, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Classify == nil {
		c.Classify = defaultClassify
	}
	b := &Breaker{name: c.Name, clock: clk}
	b.cell.word.Store(firstCount << cellGenBits)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.since = clk.wall()
	b.settings.Store(c.settings(nil))
	b.installLocked(c.Rules)
	b.measureLocked(c.Histogram)
	t := b.tallyLocked()
	for _, d := range b.mu.detectors {
		d.reset(t)
	}
	b.retimeLocked()
	b.storeWord(pack(0, Closed, b.flagsLocked()))
	return b, nil
}

// An installed is the detector of one rule in one breaker.
type installed struct {
	detector
	dry    bool // it reports and does not open
	firing bool // a dry one has reported, and holds still
}

// installLocked makes the detectors of rules.
func (b *Breaker) installLocked(rules []Rule) {
	b.mu.detectors, b.mu.times = nil, nil
	for _, r := range rules {
		dry, isDry := r.(DryRun)
		if isDry {
			r = dry.Rule
		}
		d := r.detector()
		b.mu.detectors = append(b.mu.detectors, &installed{detector: d, dry: isDry})
		if w, ok := d.(*timeWindow); ok {
			b.mu.times = append(b.mu.times, w)
		}
	}
}

// flagsLocked are the bits of the state word that say what calls must do.
func (b *Breaker) flagsLocked() (flags uint64) {
	if b.timedLocked() {
		flags |= timedFlag
	}
	if b.measure.Load() != nil {
		flags |= measuredFlag
	}
	if b.ramp.on {
		flags |= rampFlag
	}
	return flags
}

// opensLocked decides what the verdict of a rule means: a dry one reports it, once as
// long as it holds.
func (b *Breaker) opensLocked(in *installed, r Reason, holds bool) bool {
	if !in.dry {
		return holds
	}
	if b.State() != Closed {
		return false // here it would not have opened
	}
	if holds && !in.firing {
		b.mu.wouldOpen++
		b.pushLocked(event{wouldOpen: &WouldOpen{Name: b.name, At: b.clock.wall(), Reason: r}})
	}
	in.firing = holds
	return false
}

// Name returns Config.Name.
func (b *Breaker) Name() string { return b.name }

// State returns what the breaker does now: one atomic load.
func (b *Breaker) State() State { return stateOf(b.loadWord()) }

// Refusal returns what a call is refused with in the present state, which says why it is
// open; nil while calls run. It counts nothing and takes no lock.
func (b *Breaker) Refusal() *OpenError {
	switch b.State() {
	case Open, HalfOpen, ForcedOpen:
		return b.refusal.Load()
	case Closed, ForcedClosed, Disabled:
	}
	return nil
}

// Allow asks whether a call may run. If it may, report its end with
// [Permit.Done], exactly once and on every path; [Do] does that for you. A
// refusal is an [*OpenError], which matches [ErrOpen]; it costs no lock, no
// allocation and, in Open, no look at the clock (REQ-B4).
func (b *Breaker) Allow() (p Permit, err error) {
	p.b, p.word = b, atomic.LoadUint64(&b.word) // with one step more the compiler inlines it no longer
	if p.word >= measuredFlag {
		p, err = b.allow()
	}
	return p, err
}

// allow is Allow for all but a closed breaker that times no calls.
func (b *Breaker) allow() (Permit, error) {
	w := b.loadWord()
	if isTimed(w) { // no plain one either: the state may have changed since Allow looked
		if began, ok := b.quickBegin(w); ok {
			return Permit{b: b, word: w, began: began}, nil
		}
	}
	if stateOf(w) == Open {
		return Permit{}, b.refuse()
	}
	return b.admit(false)
}

func (b *Breaker) loadWord() uint64 { return atomic.LoadUint64(&b.word) }

func (b *Breaker) storeWord(w uint64) { atomic.StoreUint64(&b.word, w) }

// AllowProbe is Allow for the owner of reserved probes ([Probe.Reserved]): it
// gets the half-open probes that Allow is refused. Without Reserved the two
// are the same.
func (b *Breaker) AllowProbe() (Permit, error) { return b.admit(true) }

// admit decides in any state. The loop ends: each further turn needs a change
// of state, or a Reconfigure, since the turn before.
func (b *Breaker) admit(owner bool) (Permit, error) {
	for {
		p := Permit{b: b, word: b.loadWord()}
		switch b.enter(&p, owner) {
		case pass:
			return p, nil
		case refuse:
			return Permit{}, b.refuse()
		case again:
		}
	}
}

func (b *Breaker) refuse() error {
	b.rejected.Add(1)
	return b.refusal.Load()
}

// An answer to a call that wants to begin.
type answer int

const (
	refuse answer = iota
	pass
	again // the breaker has moved on meanwhile
)

func (b *Breaker) enter(p *Permit, owner bool) answer {
	switch stateOf(p.word) {
	case Closed, ForcedClosed:
		return b.enterPassing(p)
	case Disabled:
		return pass
	case HalfOpen:
		return b.reserve(p, owner)
	default:
		return refuse
	}
}

// enterPassing admits a call, unless the ramp leaves it out, and begins to time it.
func (b *Breaker) enterPassing(p *Permit) answer {
	if p.word&(rampFlag|measuredFlag) == 0 {
		return pass
	}
	now := b.clock.since()
	if p.word&rampFlag != 0 && !b.ramp.admits(now, &b.settings.Load().Ramp) {
		return refuse
	}
	if p.word&measuredFlag == 0 {
		return pass
	}
	return b.begin(p, now)
}

// Observe hands a value to the [Signal] of that name, once a sample. +Inf is a
// value like any other: infinitely late, for one. NaN is no value: it is
// reported as a fault and changes nothing, as is a name that no rule has. In
// Open, ForcedOpen and Disabled a value changes nothing.
func (b *Breaker) Observe(signal string, value float64) {
	b.mu.Lock()
	defer b.unlockAndDeliver()
	i := slices.IndexFunc(b.mu.detectors, func(in *installed) bool {
		d, ok := in.detector.(*signalDetector)
		return ok && d.rule.Name == signal
	})
	switch {
	case i < 0:
		b.faultLocked(Fault{Part: "Observe", Detail: "no Signal rule is named " + strconv.Quote(signal)})
	case value != value:
		b.faultLocked(Fault{Part: "Observe", Detail: "NaN for signal " + strconv.Quote(signal)})
	default:
		b.observeLocked(b.mu.detectors[i], value)
	}
}

func (b *Breaker) observeLocked(in *installed, value float64) {
	d := in.detector.(*signalDetector)
	switch b.State() {
	case Closed:
		if holds := d.observe(value) >= d.rule.Breaches; b.opensLocked(in, d.reason(), holds) {
			b.openLocked(d.reason())
		}
	case HalfOpen:
		if d.observe(value) > 0 && !in.dry {
			b.openLocked(d.reason())
		} else {
			b.judgeHalfOpenLocked()
		}
	case ForcedClosed:
		d.observe(value)
	default:
	}
}

// Trip is evidence from outside that the target is down, such as a sampler that
// cannot reach its node. It opens a closed breaker, is a failed recovery in
// half-open, and does nothing in every other state. An empty r.Rule becomes
// [RuleExternal].
func (b *Breaker) Trip(r Reason) {
	setDefault(&r.Rule, RuleExternal)
	b.mu.Lock()
	defer b.unlockAndDeliver()
	if s := b.State(); s == Closed || s == HalfOpen {
		b.openLocked(r)
	}
}

// TripFor is evidence that the target wants no call for d, as an HTTP Retry-After
// says. From Closed and HalfOpen it opens for d (with jitter; at least Open.Base, at most
// Open.Max) without counting as a failed recovery: the next opening lasts as it would have.
// In Open it lengthens a period that would end sooner. It does nothing in
// every other state. An empty r.Rule becomes [RuleExternal].
func (b *Breaker) TripFor(d time.Duration, r Reason) {
	setDefault(&r.Rule, RuleExternal)
	b.mu.Lock()
	defer b.unlockAndDeliver()
	o := b.settings.Load().Open
	d = min(max(d, o.Base), o.Max)
	switch b.State() {
	case Closed, HalfOpen:
		b.tripForLocked(d, r)
	case Open:
		b.extendLocked(d)
	default:
	}
}

// Force puts the breaker into ForcedOpen, ForcedClosed or Disabled until the
// next Force; Closed gives it back to its rules, starting closed and clean,
// with an open period of Base. Any other state is an error. why becomes the
// Detail of the transition's reason. Calls under way count for nothing after it.
func (b *Breaker) Force(s State, why string) error {
	switch s {
	case ForcedOpen, ForcedClosed, Disabled, Closed:
	default:
		return fault("state to force", s, "use forced_open, forced_closed, disabled, or closed for automatic")
	}
	b.mu.Lock()
	defer b.unlockAndDeliver()
	if b.State() == s && s != Closed {
		return nil
	}
	b.mu.period, b.mu.backoff = 0, 0
	b.moveLocked(s, Reason{Rule: RuleForced, Detail: why})
	return nil
}
